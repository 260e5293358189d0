"""Comparing bookings with the processor's snapshots, and deciding what follows."""
