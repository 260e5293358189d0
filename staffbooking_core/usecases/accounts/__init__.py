"""Registration, login, API keys, email tokens, administration of users."""
