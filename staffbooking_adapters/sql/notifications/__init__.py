"""Notifications and inquiries in SQL."""
