"""Conversations, messages and presence in memory."""
