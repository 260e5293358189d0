"""The payment processor's values, operations, the ledger and payees."""
