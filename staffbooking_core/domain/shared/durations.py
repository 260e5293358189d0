"""Durations: parsing settings and options (`90s`, `30m`, `24h`: CONTRACT 9), and formatting for
texts (`24 hours`)."""

from __future__ import annotations

import re
from datetime import timedelta

_MAX_DURATION = timedelta(days=3660)
"""About ten years: longer input is a typing error, and could overflow a date."""

_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
_UNIT_NAMES = {
    "days": timedelta(days=1),
    "hours": timedelta(hours=1),
    "minutes": timedelta(minutes=1),
    "seconds": timedelta(seconds=1),
}
_DURATION_PATTERN = re.compile(r"([0-9]{1,9})([smh])")


def parse_duration(text: str) -> timedelta:
    """Parse a whole number of seconds, minutes or hours; zero is allowed. Raises ValueError."""
    if not (match := _DURATION_PATTERN.fullmatch(text)):
        raise ValueError("is not a duration such as 90s, 30m or 24h")
    duration = int(match[1]) * _UNITS[match[2]]
    if duration > _MAX_DURATION:
        raise ValueError("is longer than ten years")
    return duration


def format_duration(first: timedelta, *others: timedelta) -> str:
    """Format one or several durations for texts: `24 hours`, `1, 4 and 16 seconds`.

    The unit is the largest in which all are whole numbers and the longest is at least 1. Fractions
    of a second are cut off.
    """
    durations = (first, *others)
    longest = max(durations)
    fitting = (
        (name, unit)
        for name, unit in _UNIT_NAMES.items()
        if longest > unit and not any(each % unit for each in durations)
    )
    name, unit = next(fitting, ("seconds", _UNIT_NAMES["seconds"]))
    *before, last = [str(each // unit) for each in durations]
    numbers = f"{', '.join(before)} and {last}" if before else last
    return f"{numbers} {name.removesuffix('s') if longest == unit else name}"
