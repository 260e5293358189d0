"""Helpers that several tiers of tests share: builders, deployments, servers, time budgets."""
