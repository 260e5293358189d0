"""Contract suites of the stores: companions."""
