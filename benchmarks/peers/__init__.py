"""Ordinary servers that a user could choose in place of the service, with its answers."""
