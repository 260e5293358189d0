"""The values and operations of the payment processor, the ledger, and payees."""
