"""What of a companion's time is taken, and the constraint that nothing is taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from staffbooking_adapters.memory.state import MemoryState
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import BOOKING_OVERLAP


def bookings_of(state: MemoryState, companion_id: int) -> Iterator[Booking]:
    """Every booking of a companion, in the order in which they came."""
    return (state.bookings[number] for number in state.bookings_of.get(companion_id) or ())


def bookings_after(state: MemoryState, after_id: int) -> list[Booking]:
    """Every booking above an id, in the order of ids."""
    return [state.bookings[number] for number in sorted(state.bookings) if number > after_id]


def all_busy_intervals(state: MemoryState, companion_id: int) -> list[Interval]:
    """All time that bookings hold, in order."""
    held = (booking for booking in bookings_of(state, companion_id) if booking.holds_slot)
    spans = [Interval(booking.starts_at, booking.ends_at) for booking in held]
    return sorted(spans, key=lambda span: span.starts_at)


def busy_intervals(
    state: MemoryState, companion_id: int, first: datetime, last: datetime
) -> list[Interval]:
    """The held time within or across the time from `first` to `last`; its edges are free."""
    spans = all_busy_intervals(state, companion_id)
    return [span for span in spans if span.starts_at < last and first < span.ends_at]


def overlaps(one: Booking, other: Booking) -> bool:
    """Whether two bookings have time in common; that they touch is no matter."""
    return one.starts_at < other.ends_at and other.starts_at < one.ends_at


def require_free_slot(state: MemoryState, booking: Booking) -> None:
    """Raise ConstraintViolated(OVERLAP) where the booking would hold a slot that is held."""
    if not booking.holds_slot:
        return
    for other in bookings_of(state, booking.companion_id):
        if other.id != booking.id and other.holds_slot and overlaps(booking, other):
            raise ConstraintViolated(BOOKING_OVERLAP)
