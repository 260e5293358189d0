"""Registering, signing in, API keys, email tokens, administration of users."""
