"""The tests: one folder a tier, `support` for what several tiers share."""
