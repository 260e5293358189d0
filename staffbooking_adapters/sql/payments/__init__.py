"""Payment operations, payees, ledger reads and processor events in SQL."""
