"""Webhook endpoints, deliveries, and the safety of their URLs."""
