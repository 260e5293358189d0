"""iCalendar (RFC 5545): the feed of a companion's bookings, and import of busy times.

calendars  the port's implementation
feed       writes the feed
reading    parses a file into components
events     computes busy times from events
rules      expands recurrence rules
zones      resolves time zones
"""

__all__ = ["calendars"]
