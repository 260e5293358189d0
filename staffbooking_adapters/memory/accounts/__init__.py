"""Users, sessions, API keys and rate limits in memory."""
