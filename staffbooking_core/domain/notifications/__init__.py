"""Notifications by email, and inquiries from the contact form."""
