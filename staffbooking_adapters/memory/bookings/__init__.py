"""Bookings in memory."""
