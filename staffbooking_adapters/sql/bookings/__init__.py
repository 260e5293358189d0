"""Bookings, their timeline and ledger postings in SQL."""
