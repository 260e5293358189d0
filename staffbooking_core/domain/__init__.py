"""Decisions: synchronous, clock-free, frozen values."""
