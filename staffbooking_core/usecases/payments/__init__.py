"""Processor operations, refunds, payouts, payees, reconciliation, ledger checks."""
