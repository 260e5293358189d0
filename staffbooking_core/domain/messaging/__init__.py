"""Conversations and messages."""
