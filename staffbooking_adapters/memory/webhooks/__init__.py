"""Webhook endpoints, deliveries and the event feed in memory."""

__all__ = ["receivers"]
