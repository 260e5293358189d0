"""Companions, portfolio and reviews in memory."""
