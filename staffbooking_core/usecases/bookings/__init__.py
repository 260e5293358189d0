"""Requesting a booking, acting on it, disputes, timers."""
