"""Contract suites of the stores: messaging."""
