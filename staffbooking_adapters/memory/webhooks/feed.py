"""Events in memory, their positions, and the feeds of their readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from attrs import evolve

from staffbooking_adapters import codec
from staffbooking_adapters.memory.state import EventRow, MemoryState, MemoryTransaction
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import PublishedEvent
from staffbooking_core.ports import Hint
from staffbooking_core.representations.events import DomainEvent
from staffbooking_core.request_id import CURRENT_REQUEST_ID


def add_event(tx: MemoryTransaction, event: DomainEvent) -> None:
    """Add an event without a position; the commit sends the hint `EVENTS`."""
    published = PublishedEvent(
        event.id, event.booking_id, event.sequence, event.name, event.parties
    )
    state = tx.state
    request_id = CURRENT_REQUEST_ID.get()
    state.events[event.id] = EventRow(
        published, codec.encode(event.envelope), request_id=request_id
    )
    others = state.events_of.get(event.booking_id) or ()
    state.events_of[event.booking_id] = (*others, event.id)
    tx.hints.add(Hint.EVENTS)


def events_without_position(state: MemoryState) -> Iterator[PublishedEvent]:
    """All events without a position."""
    return (row.event for row in state.events.values() if row.position is None)


def next_events_without_position(state: MemoryState, limit: int) -> list[PublishedEvent]:
    """The first `limit` events without a position, plus all others of their bookings."""
    waiting = sorted(events_without_position(state), key=lambda event: event.id)
    bookings = {event.booking_id for event in waiting[:limit]}
    return [event for event in waiting if event.booking_id in bookings]


def assign_positions(state: MemoryState, positioned: Iterable[tuple[PublishedEvent, int]]) -> None:
    for event, position in positioned:
        state.events[event.id] = evolve(state.events[event.id], position=position)
        state.event_by_position[position] = event.id


def position_in_feed(state: MemoryState, event_id: str, reader_id: int | None) -> int | None:
    row = state.events.get(event_id)
    return row.position if row is not None and _can_read(row, reader_id) else None


def read_feed(
    state: MemoryState,
    reader_id: int | None,
    after: int,
    names: Collection[EventName],
    limit: int,
) -> list[bytes]:
    """The bodies of the reader's next events after a position, the oldest first."""
    later = (
        state.events[event_id]
        for position, event_id in state.event_by_position.items()
        if position > after
    )
    read = (row for row in later if row.event.name in names and _can_read(row, reader_id))
    return [row.body for row in islice(read, limit)]


def read_latest(
    state: MemoryState,
    reader_id: int | None,
    before: int,
    names: Collection[EventName],
    limit: int,
) -> list[tuple[int, bytes]]:
    """The positions and bodies of the reader's last events before a position, the newest
    first."""
    earlier = (
        (position, state.events[event_id])
        for position, event_id in sorted(state.event_by_position.items(), reverse=True)
        if position < before
    )
    read = (
        (position, row.body)
        for position, row in earlier
        if row.event.name in names and _can_read(row, reader_id)
    )
    return list(islice(read, limit))


def _can_read(row: EventRow, reader_id: int | None) -> bool:
    return reader_id is None or reader_id in row.event.parties
