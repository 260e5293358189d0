"""Contract suites of the stores: shared."""
