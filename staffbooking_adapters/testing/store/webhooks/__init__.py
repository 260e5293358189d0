"""Contract suites of the stores: webhooks."""
