"""Contract suites of the stores: bookings."""
