"""Feed positions of events, and pages of the feed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from sqlalchemy import Text, bindparam, func, insert, select, true, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import advisory_lock, array_rows, in_array
from staffbooking_adapters.sql.engine.leases import MAX_CLAIM_SIZE
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.webhooks import (
    event_readers,
    is_positioned_event,
    is_unsequenced_event,
)
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import PublishedEvent

# Reading ----------------------------------------------------------------------------------

_IS_EVENT = events.c.id == bindparam("event_id")
_IS_READER = event_readers.c.user_id == bindparam("reader")
_IS_READER_POSITION = events.c.position == event_readers.c.position

GET_EVENT_POSITION = Statement(select(events.c.position).where(_IS_EVENT))
GET_EVENT_POSITION_FOR_READER = Statement(
    select(events.c.position)
    .join_from(events, event_readers, _IS_READER_POSITION)
    .where(_IS_EVENT, _IS_READER)
)


@cache
def feed_page(size: int, is_for_reader: bool) -> Statement:
    if is_for_reader:
        page = (
            select(events.c.body)
            .join_from(event_readers, events, _IS_READER_POSITION)
            .where(_IS_READER)
        )
        position = event_readers.c.position
    else:
        page, position = select(events.c.body), events.c.position
    after = bindparam("after", type_=BigInt)
    is_wanted = in_array(events.c.name, "names")
    return Statement(page.where(position > after, is_wanted).order_by(position).limit(size))


@cache
def latest_feed_page(size: int, is_for_reader: bool) -> Statement:
    position = event_readers.c.position if is_for_reader else events.c.position
    page = select(position, events.c.body)
    if is_for_reader:
        page = page.join_from(event_readers, events, _IS_READER_POSITION).where(_IS_READER)
    is_wanted = in_array(events.c.name, "names")
    before = bindparam("before", type_=BigInt)
    return Statement(page.where(position < before, is_wanted).order_by(position.desc()).limit(size))


async def find_event_position(
    connection: Connection, event_id: str, reader_id: int | None
) -> int | None:
    """The position of an event in the feed of a reader; reader None is the feed of all events."""
    reader_params = {} if reader_id is None else {"reader": reader_id}
    statement = GET_EVENT_POSITION_FOR_READER if reader_params else GET_EVENT_POSITION
    found: int | None = await connection.fetch_value(statement, event_id=event_id, **reader_params)
    return found


async def read_feed(
    connection: Connection,
    reader_id: int | None,
    after: int,
    names: Collection[EventName],
    limit: int,
) -> list[bytes]:
    """The envelopes of events with these names after a position, in order of position."""
    reader_params = {} if reader_id is None else {"reader": reader_id}
    rows = await connection.fetch_all(
        feed_page(page_size(limit), bool(reader_params)),
        after=after,
        names=sorted(names),
        **reader_params,
    )
    return [body for (body,) in rows[:limit]]


async def read_latest(
    connection: Connection,
    reader_id: int | None,
    before: int,
    names: Collection[EventName],
    limit: int,
) -> list[tuple[int, bytes]]:
    """The envelopes of events with these names before a position, each with its own, the newest
    first."""
    reader_params = {} if reader_id is None else {"reader": reader_id}
    rows = await connection.fetch_all(
        latest_feed_page(page_size(limit), bool(reader_params)),
        before=before,
        names=sorted(names),
        **reader_params,
    )
    return [(position, body) for position, body in rows[:limit]]


# Allocating positions ---------------------------------------------------------------------

EVENT_POSITIONS_LOCK_KEY = 7_362_005
"""Key of the advisory lock that serializes the allocation of feed positions."""

LOCK_EVENT_POSITIONS = advisory_lock(EVENT_POSITIONS_LOCK_KEY)
GET_LAST_POSITION = Statement(  # The condition is that of the index.
    select(func.coalesce(func.max(events.c.position), 0)).where(is_positioned_event)
)
GET_FIRST_UNSEQUENCED = Statement(
    select(events.c.id).where(is_unsequenced_event).order_by(events.c.id).limit(1)
)

_PUBLISHED_EVENT_COLUMNS = (
    events.c.id,
    events.c.booking_id,
    events.c.sequence,
    events.c.name,
    events.c.parties,
)


@cache
def unsequenced_events(limit: int) -> Statement:
    first = (
        select(events.c.booking_id).where(is_unsequenced_event).order_by(events.c.id).limit(limit)
    )
    chosen = select(first.subquery("first").c.booking_id)
    every = select(*_PUBLISHED_EVENT_COLUMNS).where(
        is_unsequenced_event, events.c.booking_id.in_(chosen)
    )
    return Statement(every.order_by(events.c.id))


_POSITION_ROWS = array_rows("placed", id=("event_ids", Text()), position=("positions", BigInt))
SAVE_EVENT_POSITIONS = Statement(
    update(events)
    .values(position=_POSITION_ROWS.c.position)
    .where(events.c.id == _POSITION_ROWS.c.id)
)
_READER_ROWS = array_rows("read", user_id=("readers", BigInt), position=("positions", BigInt))
ADD_EVENT_READERS = Statement(
    insert(event_readers).from_select(
        ["user_id", "position"], select(*_READER_ROWS.c).where(true())
    )
)


async def lock_event_positions(connection: Connection) -> int:
    """Lock the allocation of positions until the transaction ends, and return the last position."""
    await connection.execute(LOCK_EVENT_POSITIONS)
    last: int = await connection.fetch_value(GET_LAST_POSITION)
    return last


async def has_unsequenced_events(connection: Connection) -> bool:
    return await connection.fetch_value(GET_FIRST_UNSEQUENCED) is not None


async def list_unsequenced_events(connection: Connection, limit: int) -> list[PublishedEvent]:
    """The oldest events without a position, with all others of the same bookings."""
    rows = await connection.fetch_all(unsequenced_events(min(limit, MAX_CLAIM_SIZE)))
    return [
        PublishedEvent(
            event_id, booking_id, sequence, EventName(name), tuple(codec.decode(parties))
        )
        for event_id, booking_id, sequence, name, parties in rows
    ]


async def save_event_positions(
    connection: Connection, positioned_events: Sequence[tuple[PublishedEvent, int]]
) -> None:
    ids, positions = (
        [event.id for event, _ in positioned_events],
        [position for _, position in positioned_events],
    )
    await connection.execute(SAVE_EVENT_POSITIONS, event_ids=ids, positions=positions)
    reader_positions = [
        (party, position) for event, position in positioned_events for party in event.parties
    ]
    readers, positions = (
        [reader for reader, _ in reader_positions],
        [position for _, position in reader_positions],
    )
    await connection.execute(ADD_EVENT_READERS, readers=readers, positions=positions)
