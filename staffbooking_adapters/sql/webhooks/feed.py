"""Events: their positions, and the feeds in which their readers find them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Text, bindparam, func, insert, select, true, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import advisory_lock, rowset
from staffbooking_adapters.sql.engine.leases import MOST
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.webhooks import event_readers, is_unplaced
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import Told

# Reading ----------------------------------------------------------------------------------

_EVENT = events.c.id == bindparam("event_id")
_MINE = event_readers.c.user_id == bindparam("reader")
_IN_MY_FEED = events.c.position == event_readers.c.position

POSITION = Statement(select(events.c.position).where(_EVENT))
MY_POSITION = Statement(
    select(events.c.position).join_from(events, event_readers, _IN_MY_FEED).where(_EVENT, _MINE)
)


@cache
def feed(size: int, mine: bool) -> Statement:
    if mine:
        page = select(events.c.body).join_from(event_readers, events, _IN_MY_FEED).where(_MINE)
        position = event_readers.c.position
    else:
        page, position = select(events.c.body), events.c.position
    after = bindparam("after", type_=BigInt)
    return Statement(page.where(position > after).order_by(position).limit(size))


async def position_of(connection: Connection, event_id: str, reader_id: int | None) -> int | None:
    """Where an event stands in its reader's feed; the reader None sees all events."""
    mine = {} if reader_id is None else {"reader": reader_id}
    statement = MY_POSITION if mine else POSITION
    found: int | None = await connection.value(statement, event_id=event_id, **mine)
    return found


async def read_feed(
    connection: Connection, reader_id: int | None, after: int, limit: int
) -> list[bytes]:
    """The envelopes beyond a position, in their order."""
    mine = {} if reader_id is None else {"reader": reader_id}
    rows = await connection.all(feed(page_size(limit), bool(mine)), after=after, **mine)
    return [body for (body,) in rows[:limit]]


# Placing ----------------------------------------------------------------------------------

PLACING = 7_362_005
"""The advisory lock that lets one at a time give positions."""

LOCK = advisory_lock(PLACING)
LAST_POSITION = Statement(select(func.coalesce(func.max(events.c.position), 0)))
FIRST_UNPLACED = Statement(select(events.c.id).where(is_unplaced).order_by(events.c.id).limit(1))

_TOLD = (events.c.id, events.c.booking_id, events.c.sequence, events.c.name, events.c.parties)


@cache
def unplaced(limit: int) -> Statement:
    first = select(events.c.booking_id).where(is_unplaced).order_by(events.c.id).limit(limit)
    chosen = select(first.subquery("first").c.booking_id)
    every = select(*_TOLD).where(is_unplaced, events.c.booking_id.in_(chosen))
    return Statement(every.order_by(events.c.id))


_PLACED = rowset("placed", id=("event_ids", Text()), position=("positions", BigInt))
PLACE = Statement(
    update(events).values(position=_PLACED.c.position).where(events.c.id == _PLACED.c.id)
)
_READ = rowset("read", user_id=("readers", BigInt), position=("positions", BigInt))
ADD_READERS = Statement(
    insert(event_readers).from_select(["user_id", "position"], select(*_READ.c).where(true()))
)


async def lock_feed(connection: Connection) -> int:
    """The last position that was given; nobody else gives one until the unit of work ends."""
    await connection.run(LOCK)
    last: int = await connection.value(LAST_POSITION)
    return last


async def has_unplaced(connection: Connection) -> bool:
    return await connection.value(FIRST_UNPLACED) is not None


async def next_unplaced(connection: Connection, limit: int) -> list[Told]:
    """The first ones made, with all others of their bookings."""
    rows = await connection.all(unplaced(min(limit, MOST)))
    return [
        Told(event_id, booking_id, sequence, EventName(name), tuple(codec.decode(parties)))
        for event_id, booking_id, sequence, name, parties in rows
    ]


async def place_events(connection: Connection, placed: Sequence[tuple[Told, int]]) -> None:
    ids, positions = [event.id for event, _ in placed], [position for _, position in placed]
    await connection.run(PLACE, event_ids=ids, positions=positions)
    read = [(party, position) for event, position in placed for party in event.parties]
    readers, positions = [reader for reader, _ in read], [position for _, position in read]
    await connection.run(ADD_READERS, readers=readers, positions=positions)
