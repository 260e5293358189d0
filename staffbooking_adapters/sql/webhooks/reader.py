"""Webhook endpoints and deliveries: reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import itemgetter

from attrs import fields, frozen
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    bindparam,
    case,
    exists,
    func,
    select,
    union_all,
)

from staffbooking_adapters.sql.accounts.store import to_user
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import sum_or_zero
from staffbooking_adapters.sql.engine.leases import NOW_PARAM, is_lease_free
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import USER_COLUMNS, users
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.webhooks import (
    attempts,
    deliveries,
    endpoints,
    is_cancelled_delivery,
    is_endpoint_not_deleted,
    is_first_try,
    is_held_delivery,
    is_open_or_failed,
    is_retry,
    is_silent_endpoint,
    is_unsequenced_event,
    is_waiting_delivery,
)
from staffbooking_adapters.sql.webhooks import feed
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    FINISHED_DELIVERY_STATUSES,
    Delivery,
    DeliveryAttempt,
    DeliveryGroup,
    DeliveryStatus,
    EndpointSecrets,
    EndpointSubscription,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.ports import MAX_COUNTED_DELIVERIES, WebhookStats


@cache  # Eleven event names have at most 2,048 combinations.
def _parse_event_names(text: str) -> frozenset[EventName]:
    return frozenset(map(EventName, filter(None, text.split(","))))


ENDPOINT_COLUMNS = tuple(endpoints.c)[:-3]
_SECRET_COLUMNS = slice(6, 9)
_map_endpoint = RowMapper(
    WebhookEndpoint, (*ENDPOINT_COLUMNS[:7], *ENDPOINT_COLUMNS[9:]), events=_parse_event_names
)
DELIVERY_COLUMNS = tuple(deliveries.c[field.name] for field in fields(Delivery))
_map_delivery = RowMapper(Delivery, DELIVERY_COLUMNS, status=DeliveryStatus)
_STATUS_INDEX, _NEXT_AT_INDEX = (
    DELIVERY_COLUMNS.index(deliveries.c.status),
    DELIVERY_COLUMNS.index(deliveries.c.next_at),
)
ATTEMPT_COLUMNS = tuple(attempts.c[field.name] for field in fields(DeliveryAttempt))
to_attempt = RowMapper(DeliveryAttempt, ATTEMPT_COLUMNS)

_IS_ENDPOINT = endpoints.c.id == bindparam("endpoint_id")
GET_ENDPOINT = Statement(select(*ENDPOINT_COLUMNS).where(_IS_ENDPOINT))
ENDPOINTS_OF = Statement(
    select(*ENDPOINT_COLUMNS)
    .where(endpoints.c.owner_id == bindparam("owner"), is_endpoint_not_deleted)
    .order_by(endpoints.c.id)
)
SELECT_SUBSCRIBERS = select(*ENDPOINT_COLUMNS, *USER_COLUMNS).join_from(endpoints, users)


@cache
def endpoints_after(size: int) -> Statement:
    after = endpoints.c.id > bindparam("after_id")
    return Statement(
        SELECT_SUBSCRIBERS.where(is_endpoint_not_deleted, after)
        .order_by(endpoints.c.id)
        .limit(size)
        .offset(OFFSET_PARAM)
    )


@cache
def silent_endpoints_before(size: int) -> Statement:
    is_before = endpoints.c.id < bindparam("before_id", type_=BigInt)
    found = SELECT_SUBSCRIBERS.where(is_silent_endpoint, is_before)
    return Statement(found.order_by(endpoints.c.id.desc()).limit(size))


def _select_holding_endpoints() -> Select[tuple[int]]:
    """The ids of endpoints with held deliveries, ascending. A recursive query that reads one index
    entry per endpoint, however many deliveries the endpoint has."""
    first = func.min(deliveries.c.endpoint_id).label("id")
    after = deliveries.c.endpoint_id > bindparam("after_id", type_=BigInt)
    found = select(first).where(is_held_delivery, after).cte("holders", recursive=True)
    next_one = select(first).where(is_held_delivery, deliveries.c.endpoint_id > found.c.id)
    later = select(next_one.scalar_subquery()).where(found.c.id.is_not(None))
    found = found.union_all(later)
    return select(found.c.id)


@cache
def endpoints_with_held_deliveries(size: int) -> Statement:
    holders = _select_holding_endpoints().subquery("held")
    return Statement(
        SELECT_SUBSCRIBERS.join(holders, holders.c.id == endpoints.c.id)
        .where(is_endpoint_not_deleted, endpoints.c.active)
        .order_by(endpoints.c.id)
        .limit(size)
    )


# Deliveries -------------------------------------------------------------------------------

GET_DELIVERY = Statement(
    select(*DELIVERY_COLUMNS).where(deliveries.c.id == bindparam("delivery_id"))
)
_IS_OF_ENDPOINT = deliveries.c.endpoint_id == bindparam("endpoint_id")
GET_DELIVERY_BODY = Statement(
    select(func.coalesce(deliveries.c.body, events.c.body, type_=events.c.body.type))
    .select_from(deliveries.outerjoin(events, events.c.id == deliveries.c.event_id))
    .where(deliveries.c.id == bindparam("delivery_id"))
)
_NEWEST_TROUBLES = (
    select(deliveries.c.status)
    .where(_IS_OF_ENDPOINT, is_open_or_failed)
    .order_by(deliveries.c.id.desc())
    .limit(MAX_COUNTED_DELIVERIES)
    .subquery("newest")
)
COUNT_DELIVERIES = Statement(
    select(_NEWEST_TROUBLES.c.status, func.count()).group_by(_NEWEST_TROUBLES.c.status)
)


@cache
def failed_deliveries(size: int) -> Statement:
    is_failed = deliveries.c.status == DeliveryStatus.FAILED
    is_attempted = exists().where(
        attempts.c.delivery_id == deliveries.c.id, attempts.c.at >= bindparam("since")
    )
    return Statement(
        select(*DELIVERY_COLUMNS)
        .where(_IS_OF_ENDPOINT, is_open_or_failed, is_failed, is_attempted)
        .order_by(deliveries.c.id.desc())
        .limit(size)
    )


ATTEMPTS_OF = Statement(
    select(*ATTEMPT_COLUMNS)
    .where(attempts.c.delivery_id == bindparam("delivery_id"))
    .order_by(attempts.c.number)
)


@cache
def deliveries_page(
    size: int, group: DeliveryGroup | None = None, is_of_event: bool = False
) -> Statement:
    conditions = [_IS_OF_ENDPOINT]
    if group in (DeliveryGroup.FAILED, DeliveryGroup.UNFINISHED):
        conditions.append(is_open_or_failed)  # The index of these rows.
    if group is DeliveryGroup.CANCELLED:
        conditions.append(is_cancelled_delivery)  # Likewise.
    elif group is not None:
        conditions.append(deliveries.c.status.in_(group.statuses))
    if is_of_event:
        conditions.append(deliveries.c.event == bindparam("event"))
    newest = (
        select(deliveries.c.id)
        .where(*conditions)
        .order_by(deliveries.c.id.desc())
        .limit(size)
        .offset(bindparam("offset", type_=BigInt))
        .subquery("newest")
    )
    return Statement(
        select(*DELIVERY_COLUMNS, *ATTEMPT_COLUMNS)
        .join_from(newest, deliveries, deliveries.c.id == newest.c.id)
        .outerjoin(attempts)
        .order_by(deliveries.c.id.desc(), attempts.c.number)
    )


@cache
def attempts_since(size: int) -> Statement:
    return Statement(
        select(*DELIVERY_COLUMNS, *ATTEMPT_COLUMNS)
        .join_from(attempts, deliveries)
        .where(attempts.c.at >= bindparam("since"))
        .order_by(attempts.c.at, attempts.c.delivery_id, attempts.c.number)
        .limit(size)
    )


# Due times --------------------------------------------------------------------------------


def first_pending_due_at(
    endpoint_id: ColumnElement[int], is_clamped_to_now: bool
) -> ColumnElement[datetime]:
    """The due time of an endpoint's first pending delivery; a past time becomes now if
    `is_clamped_to_now`."""
    first = func.min(deliveries.c.next_at).label("next_at")
    either = union_all(
        *(
            select(first).where(deliveries.c.endpoint_id == endpoint_id, kind).correlate(endpoints)
            for kind in (is_retry, is_first_try)
        )
    ).subquery("either")
    earliest = func.min(either.c.next_at)
    due_at = (
        case((earliest < NOW_PARAM, NOW_PARAM), else_=earliest) if is_clamped_to_now else earliest
    )
    return select(due_at).correlate(endpoints).scalar_subquery()


GET_NEXT_DUE_AT = Statement(
    select(endpoints.c.due_at)
    .where(
        endpoints.c.troubled == bindparam("troubled", type_=Boolean()),
        endpoints.c.due_at.is_not(None),
        is_lease_free(endpoints),
    )
    .order_by(endpoints.c.due_at, endpoints.c.id)
    .limit(1)
)


def _count_deliveries(*kinds: ColumnElement[bool]) -> ColumnElement[int]:
    counts = [select(func.count()).where(kind).scalar_subquery() for kind in kinds]
    return sum(counts[1:], counts[0])


GET_WEBHOOK_STATS = Statement(
    select(
        *(
            select(sum_or_zero(column)).scalar_subquery()
            for column in (endpoints.c.succeeded, endpoints.c.failed)
        ),
        _count_deliveries(is_retry, is_first_try, is_waiting_delivery),
        _count_deliveries(is_held_delivery),
        _count_deliveries(is_unsequenced_event),
        select(func.min(first_pending_due_at(endpoints.c.id, is_clamped_to_now=False)))
        .where(endpoints.c.due_at.is_not(None))
        .scalar_subquery(),
    )
)


@frozen
class WebhooksReader:
    """Reads webhook endpoints, deliveries and attempts."""

    connection: Connection

    async def endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        row = await self.connection.fetch_one(GET_ENDPOINT, endpoint_id=endpoint_id)
        return None if row is None else to_endpoint(row)

    async def endpoints_of(self, owner_id: int) -> Sequence[WebhookEndpoint]:
        rows = await self.connection.fetch_all(ENDPOINTS_OF, owner=owner_id)
        return [to_endpoint(row) for row in rows]

    async def endpoints(
        self, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[EndpointSubscription]:
        rows = await self.connection.fetch_all(
            endpoints_after(page_size(limit)), after_id=after_id, offset=offset
        )
        return [to_subscriber(row) for row in rows[:limit]]

    async def silent_endpoints(
        self, before_id: int | None, limit: int
    ) -> Sequence[EndpointSubscription]:
        rows = await self.connection.fetch_all(
            silent_endpoints_before(page_size(limit)),
            before_id=MAX_ID if before_id is None else before_id,
        )
        return [to_subscriber(row) for row in rows[:limit]]

    async def delivery(self, delivery_id: int) -> Delivery | None:
        row = await self.connection.fetch_one(GET_DELIVERY, delivery_id=delivery_id)
        return None if row is None else to_delivery(row)

    async def deliveries(
        self,
        endpoint_id: int,
        page: int,
        limit: int,
        group: DeliveryGroup | None = None,
        event: str | None = None,
    ) -> Sequence[tuple[Delivery, Sequence[DeliveryAttempt]]]:
        row_limit, offset = limit + 1, (page - 1) * limit
        statement = deliveries_page(page_size(row_limit), group, event is not None)
        wanted_event = {} if event is None else {"event": event}
        rows = await self.connection.fetch_all(
            statement, endpoint_id=endpoint_id, offset=offset, **wanted_event
        )
        delivery_rows = [list(some) for _, some in groupby(rows, key=itemgetter(0))]
        return [(to_delivery(some[0]), _to_attempts(some)) for some in delivery_rows[:row_limit]]

    async def delivery_body(self, delivery_id: int) -> bytes | None:
        body: bytes | None
        body = await self.connection.fetch_value(GET_DELIVERY_BODY, delivery_id=delivery_id)
        return body

    async def delivery_counts(self, endpoint_id: int) -> Mapping[DeliveryStatus, int]:
        rows = await self.connection.fetch_all(COUNT_DELIVERIES, endpoint_id=endpoint_id)
        return {DeliveryStatus(status): number for status, number in rows}

    async def failed_deliveries(
        self, endpoint_id: int, since: datetime, limit: int
    ) -> Sequence[Delivery]:
        rows = await self.connection.fetch_all(
            failed_deliveries(page_size(limit)), endpoint_id=endpoint_id, since=since
        )
        return [to_delivery(row) for row in rows[:limit]]

    async def attempts_of(self, delivery_id: int) -> Sequence[DeliveryAttempt]:
        rows = await self.connection.fetch_all(ATTEMPTS_OF, delivery_id=delivery_id)
        return [to_attempt(row) for row in rows]

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, DeliveryAttempt]]:
        rows = await self.connection.fetch_all(attempts_since(page_size(limit)), since=since)
        return [
            (to_delivery(row), to_attempt(row[len(DELIVERY_COLUMNS) :])) for row in rows[:limit]
        ]

    async def feed_position(self, event_id: str, reader_id: int | None) -> int | None:
        return await feed.find_event_position(self.connection, event_id, reader_id)

    async def feed_events_after(
        self, reader_id: int | None, after_position: int, names: Collection[EventName], limit: int
    ) -> Sequence[bytes]:
        return await feed.read_feed(self.connection, reader_id, after_position, names, limit)

    async def feed_events_before(
        self,
        reader_id: int | None,
        before_position: int,
        names: Collection[EventName],
        limit: int,
    ) -> Sequence[tuple[int, bytes]]:
        return await feed.read_latest(self.connection, reader_id, before_position, names, limit)

    async def has_unsequenced_events(self) -> bool:
        return await feed.has_unsequenced_events(self.connection)

    async def unsequenced_events(self, limit: int) -> Sequence[PublishedEvent]:
        return await feed.list_unsequenced_events(self.connection, limit)

    async def endpoints_with_held_deliveries(
        self, after_id: int, limit: int
    ) -> Sequence[EndpointSubscription]:
        rows = await self.connection.fetch_all(
            endpoints_with_held_deliveries(page_size(limit)), after_id=after_id
        )
        return [to_subscriber(row) for row in rows[:limit]]

    async def next_batch_due_at(self, now: datetime, *, degraded: bool) -> datetime | None:
        due_at: datetime | None
        due_at = await self.connection.fetch_value(GET_NEXT_DUE_AT, now=now, troubled=degraded)
        return due_at

    async def stats(self, now: datetime) -> WebhookStats:
        row = await self.connection.fetch_one(GET_WEBHOOK_STATS)
        assert row is not None
        succeeded, failed, pending, held, unplaced, oldest = row
        lag = (now - min(now, oldest or now)).total_seconds()
        return WebhookStats(succeeded, failed, pending, held, unplaced, lag)


def to_endpoint(row: Row) -> WebhookEndpoint:
    """Build an endpoint from `ENDPOINT_COLUMNS`; further columns are ignored."""
    return _map_endpoint((*row[:6], EndpointSecrets(*row[_SECRET_COLUMNS]), *row[9:]))


def to_subscriber(row: Row) -> EndpointSubscription:
    """Build a subscription from the columns of `SELECT_SUBSCRIBERS`."""
    return EndpointSubscription(to_endpoint(row), to_user(row[len(ENDPOINT_COLUMNS) :]))


def to_delivery(row: Row) -> Delivery:
    """Build a delivery from `DELIVERY_COLUMNS`; further columns are ignored."""
    next_at = None if row[_STATUS_INDEX] in FINISHED_DELIVERY_STATUSES else row[_NEXT_AT_INDEX]
    return _map_delivery((*row[:_NEXT_AT_INDEX], next_at, *row[_NEXT_AT_INDEX + 1 :]))


def _to_attempts(rows: Sequence[Row]) -> list[DeliveryAttempt]:
    """Build attempts from the last columns of a delivery's rows; rows without one are skipped."""
    made = [row[len(DELIVERY_COLUMNS) :] for row in rows]
    return [to_attempt(row) for row in made if row[0] is not None]
