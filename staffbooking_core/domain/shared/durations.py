"""Lengths of time as settings and commands write them (`90s`, `30m`, `24h`: CONTRACT 9), and as
texts tell them (`24 hours`)."""

from __future__ import annotations

import re
from datetime import timedelta

_MAX_DURATION = timedelta(days=3660)
"""About ten years: what is longer is a slip, and might overflow a date."""

_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
_UNIT_NAMES = {
    "days": timedelta(days=1),
    "hours": timedelta(hours=1),
    "minutes": timedelta(minutes=1),
    "seconds": timedelta(seconds=1),
}
_DURATION_PATTERN = re.compile(r"([0-9]{1,9})([smh])")


def parse_duration(text: str) -> timedelta:
    """A whole number of seconds, minutes or hours, zero included; ValueError for other text."""
    if not (match := _DURATION_PATTERN.fullmatch(text)):
        raise ValueError("is not a duration such as 90s, 30m or 24h")
    duration = int(match[1]) * _UNITS[match[2]]
    if duration > _MAX_DURATION:
        raise ValueError("is longer than ten years")
    return duration


def format_duration(first: timedelta, *others: timedelta) -> str:
    """One or several lengths in words, for texts: `24 hours`, `60 minutes`, `1, 4 and 16 seconds`.

    The unit is the largest in which all are whole numbers and one of them is above 1; fractions
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
