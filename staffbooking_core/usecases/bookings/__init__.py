"""Booking requests, actions of the parties, disputes, timers."""
