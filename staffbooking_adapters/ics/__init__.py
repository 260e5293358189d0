"""iCalendar files (RFC 5545): the feed of a companion's bookings, and busy times of others'."""

__all__ = ["calendars"]
