"""Contract suites of the stores: notifications."""
