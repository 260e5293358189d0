"""Sending notifications, and inquiries from the contact form."""
