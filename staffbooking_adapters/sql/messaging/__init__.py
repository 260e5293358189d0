"""Conversations, messages and presence in SQL."""

__all__ = ["pubsub"]
