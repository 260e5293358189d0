"""Reconciliation of bookings with the payment processor: snapshots and statements."""
