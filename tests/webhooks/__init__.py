"""Tests of webhooks from end to end: the way out, and that nothing is lost on it."""
