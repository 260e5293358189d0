"""Contract suites of the stores: payments."""
