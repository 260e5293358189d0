"""Companions, search, portfolio and reviews in SQL."""
