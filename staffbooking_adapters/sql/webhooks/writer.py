"""Webhook endpoints and deliveries: writes.

The next due time of an endpoint is computed by a separate statement, after the one that locked its
row. It therefore sees all deliveries that were committed before, and none is left unscheduled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import (
    BinaryExpression,
    ColumnElement,
    and_,
    bindparam,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    union,
    union_all,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.dialect import (
    array_params,
    array_rows,
    claim_rows,
    in_array,
    upsert,
)
from staffbooking_adapters.sql.engine.leases import (
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.accounts import is_admin, users
from staffbooking_adapters.sql.schema.webhooks import (
    attempts,
    deliveries,
    endpoints,
    is_endpoint_not_deleted,
    is_first_try,
    is_held_delivery,
    is_pending_delivery,
    is_retry,
    is_waiting_delivery,
)
from staffbooking_adapters.sql.webhooks import endpoint_claims, feed, order
from staffbooking_adapters.sql.webhooks.reader import (
    ATTEMPT_COLUMNS,
    DELIVERY_COLUMNS,
    ENDPOINT_COLUMNS,
    SELECT_SUBSCRIBERS,
    WebhooksReader,
    first_pending_due_at,
    to_delivery,
    to_endpoint,
    to_subscriber,
)
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    EndpointSecrets,
    EndpointSubscription,
    NewDelivery,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.ports import (
    DueDelivery,
    EndpointBatch,
    EndpointClaim,
    Hint,
    Lease,
    NewWebhookEndpoint,
)
from staffbooking_core.representations.events import WebhookTestEvent

# Endpoints --------------------------------------------------------------------------------

_ENDPOINT_VALUES = {
    column.name: bindparam(column.name, type_=column.type) for column in ENDPOINT_COLUMNS[1:]
}
_IS_ENDPOINT = endpoints.c.id == bindparam("endpoint_id", type_=BigInt)
ADD_ENDPOINT = Statement(insert(endpoints).values(_ENDPOINT_VALUES).returning(endpoints.c.id))
LOCK_ENDPOINT = Statement(
    select(*ENDPOINT_COLUMNS).where(_IS_ENDPOINT).with_for_update(key_share=True)
)
SAVE_ENDPOINT = Statement(update(endpoints).values(_ENDPOINT_VALUES).where(_IS_ENDPOINT))

# Creating deliveries ----------------------------------------------------------------------

_REQUESTED_USERS = array_rows("asked", id=("user_ids", BigInt))
_SUBSCRIBED_OWNERS = union(select(_REQUESTED_USERS.c.id), select(users.c.id).where(is_admin))
LOCK_SUBSCRIBERS = Statement(
    SELECT_SUBSCRIBERS.where(is_endpoint_not_deleted, endpoints.c.owner_id.in_(_SUBSCRIBED_OWNERS))
    .order_by(endpoints.c.id)
    .with_for_update(of=endpoints, key_share=True)
)

_NEW_DELIVERY_COLUMNS = (
    "endpoint_id event_id event created_at status next_at held_at attempts tries counts".split()
)
_NEW_DELIVERY_ROWS = array_rows(
    "made",
    **{name: (f"each_{name}", deliveries.c[name].type) for name in _NEW_DELIVERY_COLUMNS[:-3]},
)
_NEW_DELIVERY_VALUES = {
    **_NEW_DELIVERY_ROWS.c,
    "next_at": func.coalesce(_NEW_DELIVERY_ROWS.c.next_at, _NEW_DELIVERY_ROWS.c.created_at),
}
_INITIAL_COUNTS = (literal(0), literal(0), literal(True))
ADD_DELIVERIES = Statement(
    upsert(deliveries)
    .from_select(
        _NEW_DELIVERY_COLUMNS,
        select(*_NEW_DELIVERY_VALUES.values(), *_INITIAL_COUNTS).where(true()),
    )
    .on_conflict_do_nothing(index_elements=["endpoint_id", "event_id"])
    .returning(deliveries.c.endpoint_id, deliveries.c.status, deliveries.c.next_at)
)
_DELIVERY_VALUES = {
    column.name: bindparam(column.name, type_=column.type) for column in deliveries.c[1:]
}
ADD_TEST_DELIVERY = Statement(
    insert(deliveries).values(_DELIVERY_VALUES).returning(deliveries.c.id)
)

# Scheduling -------------------------------------------------------------------------------

_UPDATE_ENDPOINT_DUE_AT = (
    update(endpoints)
    .values(due_at=first_pending_due_at(endpoints.c.id, is_clamped_to_now=True))
    .where(in_array(endpoints.c.id, "endpoint_ids"))
    .returning(endpoints.c.due_at)
)
RESCHEDULE_ENDPOINTS = Statement(_UPDATE_ENDPOINT_DUE_AT)
RESCHEDULE_AND_RELEASE_ENDPOINTS = Statement(_UPDATE_ENDPOINT_DUE_AT.values(RELEASED_LEASE_VALUES))

_SCHEDULE_ROWS = array_rows("woken", id=("endpoint_ids", BigInt), at=("times", Instant))
SCHEDULE_ENDPOINTS = Statement(
    update(endpoints)
    .values(due_at=_SCHEDULE_ROWS.c.at)
    .where(
        endpoints.c.id == _SCHEDULE_ROWS.c.id,
        or_(endpoints.c.due_at.is_(None), endpoints.c.due_at > _SCHEDULE_ROWS.c.at),
    )
)

# Deliveries -------------------------------------------------------------------------------

LOCK_DELIVERIES = Statement(
    select(*DELIVERY_COLUMNS)
    .where(in_array(deliveries.c.id, "delivery_ids"))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
)

_PROGRESS_FIELDS = "id status next_at attempts tries counts held_at".split()
_SAVED_DELIVERY_ROWS = array_rows(
    "done", **{name: (f"each_{name}", deliveries.c[name].type) for name in _PROGRESS_FIELDS}
)
_SAVED_DELIVERY_VALUES = {name: _SAVED_DELIVERY_ROWS.c[name] for name in _PROGRESS_FIELDS[1:]}
_UPDATE_DELIVERIES = (
    update(deliveries)
    .values(
        {
            **_SAVED_DELIVERY_VALUES,
            "next_at": func.coalesce(_SAVED_DELIVERY_ROWS.c.next_at, deliveries.c.next_at),
        }
    )
    .where(deliveries.c.id == _SAVED_DELIVERY_ROWS.c.id)
)
SAVE_DELIVERIES = Statement(_UPDATE_DELIVERIES)
ADVANCE_DELIVERIES = Statement(
    _UPDATE_DELIVERIES.where(
        is_pending_delivery, deliveries.c.attempts == _SAVED_DELIVERY_ROWS.c.attempts - 1
    ).returning(deliveries.c.id)
)

_ATTEMPT_ROWS = array_rows("tried", **{c.name: (f"each_{c.name}", c.type) for c in attempts.c})
ADD_ATTEMPTS = Statement(
    insert(attempts).from_select(list(attempts.c.keys()), select(*_ATTEMPT_ROWS.c).where(true()))
)

_IS_OF_ENDPOINT = deliveries.c.endpoint_id == bindparam("endpoint_id")


DELIVERY_UPDATE_BATCH_SIZE = 1_000
"""Maximum number of deliveries of each kind per statement, to stay within its timeout."""


def _is_in_first_batch_of(*conditions: ColumnElement[bool]) -> BinaryExpression[bool]:
    """Whether a delivery is in the first batch of the endpoint's deliveries that meet a condition.
    Each condition has its own index."""
    limited_ids = (
        select(deliveries.c.id)
        .where(_IS_OF_ENDPOINT, kind)
        .limit(DELIVERY_UPDATE_BATCH_SIZE)
        .subquery()
        for kind in conditions
    )
    return deliveries.c.id.in_(union_all(*(select(each.c.id) for each in limited_ids)))


_CANCELLED_VALUES = {"status": DeliveryStatus.CANCELLED, "held_at": None}
HOLD_DELIVERIES = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.HELD, held_at=NOW_PARAM)
    .where(_is_in_first_batch_of(is_retry, is_first_try, is_waiting_delivery))
)
RESUME_DELIVERIES = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.PENDING, held_at=None)
    .where(_is_in_first_batch_of(is_held_delivery, is_waiting_delivery))
)
CANCEL_DELIVERIES = Statement(
    update(deliveries)
    .values(_CANCELLED_VALUES)
    .where(_is_in_first_batch_of(is_retry, is_first_try, is_held_delivery, is_waiting_delivery))
)


_IS_HELD_FOR_LONG = and_(
    is_held_delivery, deliveries.c.held_at <= bindparam("before", type_=Instant)
)
_LONGEST_HELD = (deliveries.c.held_at, deliveries.c.id)


@cache
def lock_holding_endpoints_statement(limit: int) -> Statement:
    """Locks the endpoints of the first `limit` deliveries that are held for long."""
    first = select(deliveries.c.endpoint_id).where(_IS_HELD_FOR_LONG).order_by(*_LONGEST_HELD)
    holding = first.limit(limit).cte("holding")
    return Statement(
        select(endpoints.c.id)
        .where(endpoints.c.id.in_(select(holding.c.endpoint_id)))
        .order_by(endpoints.c.id)
        .with_for_update(key_share=True)
    )


@cache
def cancel_held_deliveries_statement(limit: int) -> Statement:
    return Statement(
        claim_rows(
            deliveries,
            is_due=and_(_IS_HELD_FOR_LONG, in_array(deliveries.c.endpoint_id, "endpoint_ids")),
            order_by=_LONGEST_HELD,
            limit=limit,
            values=_CANCELLED_VALUES,
            returning=(deliveries.c.id,),
        )
    )


@frozen
class WebhooksWriter(WebhooksReader):
    """Locks and writes webhook endpoints, feed positions and deliveries."""

    hints: set[Hint]
    """Hints to send after the transaction commits."""

    async def add_endpoint(self, new_endpoint: NewWebhookEndpoint) -> WebhookEndpoint:
        fields = asdict(new_endpoint, recurse=False)
        endpoint = WebhookEndpoint(id=0, secrets=EndpointSecrets(b""), **fields)
        added = await self.connection.fetch_value(ADD_ENDPOINT, **_endpoint_params(endpoint))
        return WebhookEndpoint(id=added, secrets=EndpointSecrets(b""), **fields)

    async def lock_endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        row = await self.connection.fetch_one(LOCK_ENDPOINT, endpoint_id=endpoint_id)
        return None if row is None else to_endpoint(row)

    async def save_endpoints(self, endpoints: Sequence[WebhookEndpoint]) -> None:
        rows = [
            {**_endpoint_params(endpoint), "endpoint_id": endpoint.id} for endpoint in endpoints
        ]
        await self.connection.execute_many(SAVE_ENDPOINT, rows)

    # Feed positions and new deliveries --------------------------------------------------

    async def lock_feed(self) -> int:
        return await feed.lock_event_positions(self.connection)

    async def save_feed_positions(
        self, positioned_events: Sequence[tuple[PublishedEvent, int]]
    ) -> None:
        await feed.save_event_positions(self.connection, positioned_events)

    async def lock_endpoints_of(self, user_ids: Sequence[int]) -> Sequence[EndpointSubscription]:
        rows = await self.connection.fetch_all(LOCK_SUBSCRIBERS, user_ids=list(user_ids))
        return [to_subscriber(row) for row in rows]

    async def add_deliveries(self, new_deliveries: Sequence[NewDelivery]) -> None:
        rows = await self.connection.fetch_all(
            ADD_DELIVERIES, **array_params(_NEW_DELIVERY_COLUMNS[:-3], new_deliveries)
        )
        first: dict[int, datetime] = {}
        for endpoint_id, status, next_at in rows:
            if status == DeliveryStatus.PENDING:
                first[endpoint_id] = min(next_at, first.get(endpoint_id, next_at))
        await self._schedule_endpoints(first)

    async def add_test_delivery(
        self, new_delivery: NewDelivery, envelope: WebhookTestEvent
    ) -> DueDelivery:
        body = codec.encode(envelope)
        new_fields = asdict(new_delivery, recurse=False)
        initial_fields = {**new_fields, "attempts": 0, "tries": 0, "counts": True}
        stored_fields = {
            **initial_fields,
            "next_at": new_delivery.next_at or new_delivery.created_at,
            "body": body,
        }
        added = await self.connection.fetch_value(ADD_TEST_DELIVERY, **stored_fields)
        return DueDelivery(Delivery(id=added, **initial_fields), body)

    # Sending ----------------------------------------------------------------------------

    async def claim_batches(
        self, now: datetime, lease: Lease, limit: int, batch_size: int, *, degraded: bool
    ) -> Sequence[EndpointBatch]:
        return await endpoint_claims.claim_batches(
            self.connection, now, lease, limit, batch_size, degraded=degraded
        )

    async def next_deliveries(
        self, batches: Sequence[tuple[WebhookEndpoint, Delivery]], now: datetime, limit: int
    ) -> Mapping[int, Sequence[DueDelivery]]:
        return await endpoint_claims.next_deliveries(self.connection, batches, now, limit)

    async def renew_claims(self, tokens: Sequence[str], until: datetime) -> None:
        await endpoint_claims.renew_claims(self.connection, tokens, until)

    async def lock_claims(
        self, claims: Sequence[EndpointClaim]
    ) -> Mapping[EndpointClaim, EndpointSubscription]:
        return await endpoint_claims.lock_claims(self.connection, claims)

    async def release_endpoints(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        await self._reschedule_endpoints(RESCHEDULE_AND_RELEASE_ENDPOINTS, endpoint_ids, now)

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        rows = await self.connection.fetch_all(LOCK_DELIVERIES, delivery_ids=list(delivery_ids))
        return [to_delivery(row) for row in rows]

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        await self.connection.execute(SAVE_DELIVERIES, **array_params(_PROGRESS_FIELDS, deliveries))

    async def advance_deliveries(self, deliveries: Sequence[Delivery]) -> Collection[int]:
        rows = await self.connection.fetch_all(
            ADVANCE_DELIVERIES, **array_params(_PROGRESS_FIELDS, deliveries)
        )
        return [delivery_id for (delivery_id,) in rows]

    async def release_waiting_deliveries(self, finished_ids: Sequence[int]) -> None:
        await self.connection.execute(
            order.RELEASE_WAITING_DELIVERIES, delivery_ids=list(finished_ids)
        )

    async def add_attempts(self, attempts: Sequence[tuple[int, DeliveryAttempt]]) -> None:
        ids, tried = [number for number, _ in attempts], [attempt for _, attempt in attempts]
        columns = array_params([column.name for column in ATTEMPT_COLUMNS], tried)
        await self.connection.execute(ADD_ATTEMPTS, each_delivery_id=ids, **columns)

    async def schedule_endpoint(self, endpoint_id: int, earliest_at: datetime) -> None:
        await self._schedule_endpoints({endpoint_id: earliest_at})

    async def _schedule_endpoints(self, due_at_by_endpoint: dict[int, datetime]) -> None:
        if due_at_by_endpoint:
            times = list(due_at_by_endpoint.values())
            await self.connection.execute(
                SCHEDULE_ENDPOINTS, endpoint_ids=list(due_at_by_endpoint), times=times
            )
            self.hints.add(Hint.DELIVERIES)

    async def _reschedule_endpoints(
        self, statement: Statement, endpoint_ids: Sequence[int], now: datetime
    ) -> None:
        rows = await self.connection.fetch_all(statement, endpoint_ids=list(endpoint_ids), now=now)
        if any(due_at is not None and due_at <= now for (due_at,) in rows):
            self.hints.add(Hint.DELIVERIES)

    # Holding ----------------------------------------------------------------------------

    async def hold_deliveries(self, endpoint_id: int, now: datetime) -> int:
        held = await self.connection.execute(HOLD_DELIVERIES, endpoint_id=endpoint_id, now=now)
        await self._reschedule_endpoints(RESCHEDULE_ENDPOINTS, [endpoint_id], now)
        return held

    async def resume_deliveries(self, endpoint_id: int, now: datetime) -> int:
        resumed = await self.connection.execute(RESUME_DELIVERIES, endpoint_id=endpoint_id)
        await self._reschedule_endpoints(RESCHEDULE_ENDPOINTS, [endpoint_id], now)
        return resumed

    async def cancel_deliveries(self, endpoint_id: int, now: datetime) -> int:
        cancelled = await self.connection.execute(CANCEL_DELIVERIES, endpoint_id=endpoint_id)
        await self._reschedule_endpoints(RESCHEDULE_ENDPOINTS, [endpoint_id], now)
        return cancelled

    async def cancel_held_deliveries(self, held_before: datetime, now: datetime, limit: int) -> int:
        limit = min(limit, MAX_CLAIM_SIZE)
        # Under the lock, no other transaction makes a delivery wait for one that is cancelled here.
        locked = await self.connection.fetch_all(
            lock_holding_endpoints_statement(limit), before=held_before
        )
        if not locked:
            return 0
        endpoint_ids = [endpoint_id for (endpoint_id,) in locked]
        cancelled = await self.connection.fetch_all(
            cancel_held_deliveries_statement(limit), before=held_before, endpoint_ids=endpoint_ids
        )
        await self.release_waiting_deliveries([delivery_id for (delivery_id,) in cancelled])
        await self._reschedule_endpoints(RESCHEDULE_ENDPOINTS, endpoint_ids, now)
        return len(cancelled)


def _endpoint_params(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """The parameters of `_ENDPOINT_VALUES`."""
    row = asdict(endpoint, recurse=False)
    del row["id"]
    secrets = row.pop("secrets")
    row["events"] = ",".join(sorted(endpoint.events))
    row["troubled"] = row.pop("degraded")
    return {
        **row,
        "secret": secrets.current,
        "next_secret": secrets.next,
        "next_secret_from": secrets.next_from,
    }
