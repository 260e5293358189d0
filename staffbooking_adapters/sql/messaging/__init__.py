"""Conversations, messages and presence in SQL."""
