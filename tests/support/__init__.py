"""What several tiers of tests share: a real PostgreSQL, time budgets, required tools."""
