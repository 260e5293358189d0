"""Users, sessions, subscriptions and API keys."""
