"""Companions, portfolio and reviews in memory."""

__all__ = ["calendar_fetcher"]
