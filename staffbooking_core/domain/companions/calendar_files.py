"""What is read of a calendar file: its busy times, and which of its events block no time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.companions.availability import Interval

__all__ = ["CalendarFile", "SkippedEvent"]


class SkippedEvent(StrEnum):
    """Why an event of a calendar file gives no busy time."""

    FREE = "free"
    """It is transparent: its owner is free during it."""
    CANCELLED = "cancelled"
    """It is cancelled, or each of its repetitions is excluded."""
    OWN_BOOKING = "own_booking"
    """It is a booking of this deployment, from the feed."""
    MOMENT = "moment"
    """It ends when it starts."""
    PAST = "past"
    """It is over before the window."""
    TOO_FAR = "too_far"
    """It begins after the window."""


@frozen
class CalendarFile:
    """What was read of a calendar file within a window."""

    times: tuple[Interval, ...]
    """The busy times in order; no two of them touch."""
    events: int
    """The number of events that give busy times; all repetitions of an event count once."""
    skipped: Mapping[SkippedEvent, int]
    """The number of events that give none, by reason; no reason has the number 0."""
