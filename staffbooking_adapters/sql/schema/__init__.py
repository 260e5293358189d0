"""Tables by family as statements use them, and the upgrade; the migrations create the tables.

Constraints that no statement names are in the migrations alone: the one that forbids overlapping
bookings of a companion, and the triggers that seal the ledger and the audit. Times are `Instant`:
wall time for leases, keys and sessions, business time for bookings.
"""

__all__ = ["upgrade"]
