"""Webhook endpoints, deliveries and the event feed in SQL."""
