"""Notifiers: log and SMTP."""
