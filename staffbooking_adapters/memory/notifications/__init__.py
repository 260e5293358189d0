"""Notifications and inquiries in memory."""
