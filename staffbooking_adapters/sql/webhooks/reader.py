"""Webhook endpoints and their deliveries, as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import itemgetter

from attrs import frozen
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    bindparam,
    case,
    func,
    select,
    union_all,
)

from staffbooking_adapters.sql.accounts.store import USER, to_user
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import total
from staffbooking_adapters.sql.engine.leases import NOW, is_free
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import users
from staffbooking_adapters.sql.schema.webhooks import (
    DONE,
    attempts,
    deliveries,
    endpoints,
    is_first_try,
    is_kept,
    is_retry,
    is_unplaced,
    is_waiting,
)
from staffbooking_adapters.sql.webhooks import feed
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    Attempt,
    Delivery,
    DeliveryStatus,
    Endpoint,
    Secrets,
    Subscriber,
    Told,
)
from staffbooking_core.ports import WebhookFigures


@cache  # There are 31 of them.
def _events(text: str) -> frozenset[EventName]:
    return frozenset(map(EventName, filter(None, text.split(","))))


ENDPOINT = tuple(endpoints.c)[:-3]
_SECRETS = slice(6, 9)
_READ_ENDPOINT = Reader(Endpoint, (*ENDPOINT[:7], *ENDPOINT[9:]), events=_events)
DELIVERY = tuple(deliveries.c)[:-1]
_READ_DELIVERY = Reader(Delivery, DELIVERY, status=DeliveryStatus)
_STATUS, _NEXT_AT = DELIVERY.index(deliveries.c.status), DELIVERY.index(deliveries.c.next_at)
ATTEMPT = tuple(attempts.c)[1:]
to_attempt = Reader(Attempt, ATTEMPT)

_IS_IT = endpoints.c.id == bindparam("endpoint_id")
GET_ENDPOINT = Statement(select(*ENDPOINT).where(_IS_IT))
ENDPOINTS_OF = Statement(
    select(*ENDPOINT)
    .where(endpoints.c.owner_id == bindparam("owner"), is_kept)
    .order_by(endpoints.c.id)
)
SUBSCRIBER = select(*ENDPOINT, *USER).join_from(endpoints, users)


@cache
def endpoints_after(size: int) -> Statement:
    after = endpoints.c.id > bindparam("after_id")
    return Statement(SUBSCRIBER.where(is_kept, after).order_by(endpoints.c.id).limit(size))


def _holders() -> Select[tuple[int]]:
    """The endpoints with deliveries held, in the order of ids: found one after the other,
    however many deliveries each of them has."""
    first = func.min(deliveries.c.endpoint_id).label("id")
    after = deliveries.c.endpoint_id > bindparam("after_id", type_=BigInt)
    found = select(first).where(is_waiting, after).cte("holders", recursive=True)
    next_one = select(first).where(is_waiting, deliveries.c.endpoint_id > found.c.id)
    later = select(next_one.scalar_subquery()).where(found.c.id.is_not(None))
    found = found.union_all(later)
    return select(found.c.id)


@cache
def holding(size: int) -> Statement:
    holders = _holders().subquery("held")
    return Statement(
        SUBSCRIBER.join(holders, holders.c.id == endpoints.c.id)
        .where(is_kept, endpoints.c.active)
        .order_by(endpoints.c.id)
        .limit(size)
    )


# Deliveries -------------------------------------------------------------------------------

GET_DELIVERY = Statement(select(*DELIVERY).where(deliveries.c.id == bindparam("delivery_id")))
ATTEMPTS_OF = Statement(
    select(*ATTEMPT)
    .where(attempts.c.delivery_id == bindparam("delivery_id"))
    .order_by(attempts.c.number)
)


@cache
def deliveries_of(size: int) -> Statement:
    newest = (
        select(deliveries.c.id)
        .where(deliveries.c.endpoint_id == bindparam("endpoint_id"))
        .order_by(deliveries.c.id.desc())
        .limit(size)
        .offset(bindparam("offset", type_=BigInt))
        .subquery("newest")
    )
    return Statement(
        select(*DELIVERY, *ATTEMPT)
        .join_from(newest, deliveries, deliveries.c.id == newest.c.id)
        .outerjoin(attempts)
        .order_by(deliveries.c.id.desc(), attempts.c.number)
    )


@cache
def attempts_since(size: int) -> Statement:
    return Statement(
        select(*DELIVERY, *ATTEMPT)
        .join_from(attempts, deliveries)
        .where(attempts.c.at >= bindparam("since"))
        .order_by(attempts.c.at, attempts.c.delivery_id, attempts.c.number)
        .limit(size)
    )


# What is due ------------------------------------------------------------------------------


def first_pending(endpoint_id: ColumnElement[int], no_earlier: bool) -> ColumnElement[datetime]:
    """When the first pending delivery of an endpoint is due, and with `no_earlier` now where
    that is in the past."""
    first = func.min(deliveries.c.next_at).label("next_at")
    either = union_all(
        *(
            select(first).where(deliveries.c.endpoint_id == endpoint_id, kind).correlate(endpoints)
            for kind in (is_retry, is_first_try)
        )
    ).subquery("either")
    earliest = func.min(either.c.next_at)
    wanted = case((earliest < NOW, NOW), else_=earliest) if no_earlier else earliest
    return select(wanted).correlate(endpoints).scalar_subquery()


NEXT_TURN = Statement(
    select(endpoints.c.due_at)
    .where(
        endpoints.c.troubled == bindparam("troubled", type_=Boolean()),
        endpoints.c.due_at.is_not(None),
        is_free(endpoints),
    )
    .order_by(endpoints.c.due_at, endpoints.c.id)
    .limit(1)
)


def _count(*kinds: ColumnElement[bool]) -> ColumnElement[int]:
    counts = [select(func.count()).where(kind).scalar_subquery() for kind in kinds]
    return sum(counts[1:], counts[0])


FIGURES = Statement(
    select(
        *(
            select(total(column)).scalar_subquery()
            for column in (endpoints.c.succeeded, endpoints.c.failed)
        ),
        _count(is_retry, is_first_try),
        _count(is_waiting),
        _count(is_unplaced),
        select(func.min(first_pending(endpoints.c.id, no_earlier=False)))
        .where(endpoints.c.due_at.is_not(None))
        .scalar_subquery(),
    )
)


@frozen
class WebhooksReader:
    connection: Connection

    async def endpoint(self, endpoint_id: int) -> Endpoint | None:
        row = await self.connection.one(GET_ENDPOINT, endpoint_id=endpoint_id)
        return None if row is None else to_endpoint(row)

    async def endpoints_of(self, owner_id: int) -> Sequence[Endpoint]:
        rows = await self.connection.all(ENDPOINTS_OF, owner=owner_id)
        return [to_endpoint(row) for row in rows]

    async def endpoints(self, after_id: int, limit: int) -> Sequence[Subscriber]:
        rows = await self.connection.all(endpoints_after(page_size(limit)), after_id=after_id)
        return [to_subscriber(row) for row in rows[:limit]]

    async def delivery(self, delivery_id: int) -> Delivery | None:
        row = await self.connection.one(GET_DELIVERY, delivery_id=delivery_id)
        return None if row is None else to_delivery(row)

    async def deliveries(
        self, endpoint_id: int, page: int, limit: int
    ) -> Sequence[tuple[Delivery, Sequence[Attempt]]]:
        wanted, offset = limit + 1, (page - 1) * limit
        statement = deliveries_of(page_size(wanted))
        rows = await self.connection.all(statement, endpoint_id=endpoint_id, offset=offset)
        logged = [list(some) for _, some in groupby(rows, key=itemgetter(0))]
        return [(to_delivery(some[0]), _made(some)) for some in logged[:wanted]]

    async def attempts_of(self, delivery_id: int) -> Sequence[Attempt]:
        rows = await self.connection.all(ATTEMPTS_OF, delivery_id=delivery_id)
        return [to_attempt(row) for row in rows]

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, Attempt]]:
        rows = await self.connection.all(attempts_since(page_size(limit)), since=since)
        return [(to_delivery(row), to_attempt(row[len(DELIVERY) :])) for row in rows[:limit]]

    async def position(self, event_id: str, reader_id: int | None) -> int | None:
        return await feed.position_of(self.connection, event_id, reader_id)

    async def feed(self, reader_id: int | None, after: int, limit: int) -> Sequence[bytes]:
        return await feed.read_feed(self.connection, reader_id, after, limit)

    async def has_unplaced(self) -> bool:
        return await feed.has_unplaced(self.connection)

    async def unplaced(self, limit: int) -> Sequence[Told]:
        return await feed.next_unplaced(self.connection, limit)

    async def holding(self, after_id: int, limit: int) -> Sequence[Subscriber]:
        rows = await self.connection.all(holding(page_size(limit)), after_id=after_id)
        return [to_subscriber(row) for row in rows[:limit]]

    async def next_turn(self, now: datetime, *, troubled: bool) -> datetime | None:
        due_at: datetime | None
        due_at = await self.connection.value(NEXT_TURN, now=now, troubled=troubled)
        return due_at

    async def figures(self, now: datetime) -> WebhookFigures:
        row = await self.connection.one(FIGURES)
        assert row is not None
        succeeded, failed, pending, held, unplaced, oldest = row
        lag = (now - min(now, oldest or now)).total_seconds()
        return WebhookFigures(succeeded, failed, pending, held, unplaced, lag)


def to_endpoint(row: Row) -> Endpoint:
    """From the columns of ENDPOINT; what follows them is left."""
    return _READ_ENDPOINT((*row[:6], Secrets(*row[_SECRETS]), *row[9:]))


def to_subscriber(row: Row) -> Subscriber:
    """From the columns of SUBSCRIBER."""
    return Subscriber(to_endpoint(row), to_user(row[len(ENDPOINT) :]))


def to_delivery(row: Row) -> Delivery:
    """From the columns of DELIVERY; what follows them is left."""
    next_at = None if row[_STATUS] in DONE else row[_NEXT_AT]
    return _READ_DELIVERY((*row[:_NEXT_AT], next_at, *row[_NEXT_AT + 1 :]))


def _made(rows: Sequence[Row]) -> list[Attempt]:
    """From rows that end with an attempt of the same delivery, or with none."""
    made = [row[len(DELIVERY) :] for row in rows]
    return [to_attempt(row) for row in made if row[0] is not None]
