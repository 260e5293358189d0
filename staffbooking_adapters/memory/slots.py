"""Busy intervals of companions, and the constraint against overlapping bookings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from staffbooking_adapters.memory.state import MemoryState
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import BOOKING_OVERLAP


def bookings_of(state: MemoryState, companion_id: int) -> Iterator[Booking]:
    """Every booking of a companion, in the order of creation."""
    return (state.bookings[booking_id] for booking_id in state.bookings_of.get(companion_id) or ())


def bookings_after(state: MemoryState, after_id: int) -> list[Booking]:
    """Every booking above an id, in id order."""
    return [
        state.bookings[booking_id] for booking_id in sorted(state.bookings) if booking_id > after_id
    ]


def all_busy_intervals(state: MemoryState, companion_id: int) -> list[Interval]:
    """All intervals held by a companion's bookings, ascending."""
    held = (booking for booking in bookings_of(state, companion_id) if booking.holds_slot)
    spans = [Interval(booking.starts_at, booking.ends_at) for booking in held]
    return sorted(spans, key=lambda span: span.starts_at)


def busy_intervals(
    state: MemoryState, companion_id: int, first: datetime, last: datetime
) -> list[Interval]:
    """The held intervals that overlap `first` to `last`; touching ones do not count."""
    spans = all_busy_intervals(state, companion_id)
    return [span for span in spans if span.starts_at < last and first < span.ends_at]


def overlaps(one: Booking, other: Booking, buffer: timedelta = timedelta()) -> bool:
    """Whether two bookings overlap, or are less than the buffer apart; touching bookings do not
    overlap."""
    return one.starts_at < other.ends_at + buffer and other.starts_at < one.ends_at + buffer


def require_free_slot(state: MemoryState, booking: Booking) -> None:
    """Raise ConstraintViolated(BOOKING_OVERLAP) if another booking holds the booking's time."""
    if not booking.holds_slot:
        return
    for other in bookings_of(state, booking.companion_id):
        if other.id != booking.id and other.holds_slot and overlaps(booking, other):
            raise ConstraintViolated(BOOKING_OVERLAP)
