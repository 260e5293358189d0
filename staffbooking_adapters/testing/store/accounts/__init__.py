"""Contract suites of the stores: accounts."""
