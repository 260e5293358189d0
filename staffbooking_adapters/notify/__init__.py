"""Telling people: by the log."""
