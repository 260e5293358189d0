"""Changes of single dates of a calendar."""

from __future__ import annotations

from datetime import date

from attrs import evolve

from staffbooking_core.domain.companions.availability import Calendar, DateOverride


def with_override(calendar: Calendar, override: DateOverride, today: date) -> Calendar:
    """The calendar with this override, and without the overrides of past dates."""
    others = without_override(calendar, override.date).overrides
    kept = (each for each in others if each.date >= today)
    return evolve(calendar, overrides=(*kept, override))


def without_override(calendar: Calendar, day: date) -> Calendar:
    """The calendar without an override on that date."""
    others = tuple(each for each in calendar.overrides if each.date != day)
    return evolve(calendar, overrides=others)
