"""Webhook endpoints, deliveries, and which URLs are safe to call."""
