"""Lengths of time as settings and commands write them: `90s`, `30m`, `24h` (CONTRACT 9)."""

from __future__ import annotations

import re
from datetime import timedelta

_MAX_DURATION = timedelta(days=3660)
"""About ten years: what is longer is a slip, and might overflow a date."""

_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
_DURATION_PATTERN = re.compile(r"([0-9]{1,9})([smh])")


def parse_duration(text: str) -> timedelta:
    """A whole number of seconds, minutes or hours, zero included; ValueError for other text."""
    if not (match := _DURATION_PATTERN.fullmatch(text)):
        raise ValueError("is not a duration such as 90s, 30m or 24h")
    duration = int(match[1]) * _UNITS[match[2]]
    if duration > _MAX_DURATION:
        raise ValueError("is longer than ten years")
    return duration
