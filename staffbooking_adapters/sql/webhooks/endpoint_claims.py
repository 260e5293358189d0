"""Claims endpoints with a lease, together with the due deliveries of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    true,
    tuple_,
    union_all,
    update,
)

from staffbooking_adapters.sql.accounts.store import to_user
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array
from staffbooking_adapters.sql.engine.leases import (
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    claim_with_lease,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.accounts import USER_COLUMNS, users
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.webhooks import (
    deliveries,
    endpoints,
    is_first_try,
    is_retry,
)
from staffbooking_adapters.sql.webhooks.order import make_deliveries_wait
from staffbooking_adapters.sql.webhooks.reader import (
    DELIVERY_COLUMNS,
    ENDPOINT_COLUMNS,
    SELECT_SUBSCRIBERS,
    to_delivery,
    to_endpoint,
    to_subscriber,
)
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    EndpointSubscription,
    WebhookEndpoint,
)
from staffbooking_core.ports import DueDelivery, EndpointBatch, EndpointClaim, Lease


@cache
def claim_batches_statement(limit: int) -> Statement:
    return claim_with_lease(
        endpoints,
        and_(
            endpoints.c.troubled == bindparam("troubled", type_=Boolean()),
            endpoints.c.due_at <= NOW_PARAM,
        ),
        (endpoints.c.due_at, endpoints.c.id),
        limit,
        returning=(*ENDPOINT_COLUMNS, endpoints.c.due_at),
    )


LIST_OWNERS = Statement(select(*USER_COLUMNS).where(in_array(users.c.id, "owner_ids")))

_CLAIMED_ENDPOINTS = array_rows(
    "claimed",
    id=("endpoint_ids", BigInt),
    after_at=("after_times", Instant),
    after_id=("after_ids", BigInt),
)
_IS_NEXT = tuple_(deliveries.c.next_at, deliveries.c.id) > tuple_(
    _CLAIMED_ENDPOINTS.c.after_at, _CLAIMED_ENDPOINTS.c.after_id
)
_START = (datetime(1970, 1, 1, tzinfo=UTC), 0)


def _select_first_due(kind: ColumnElement[bool], priority: int, limit: int) -> Select[Any]:
    is_due_delivery = (
        deliveries.c.endpoint_id == _CLAIMED_ENDPOINTS.c.id,
        kind,
        deliveries.c.next_at <= NOW_PARAM,
    )
    queue_order = (deliveries.c.next_at, deliveries.c.id)
    first = (
        select(*queue_order)
        .where(*is_due_delivery)
        .order_by(*queue_order)
        .limit(limit)
        .correlate(_CLAIMED_ENDPOINTS)
    )
    return select(literal_column(str(priority)).label("place"), *first.subquery().c)


@cache
def due_deliveries_statement(limit: int) -> Statement:
    """Selects the first due deliveries of each claimed endpoint, with their bodies."""
    kinds = enumerate((is_retry, and_(is_first_try, _IS_NEXT)))
    candidates = union_all(
        *(_select_first_due(kind, place, limit) for place, kind in kinds)
    ).subquery("due")
    queue_order = (candidates.c.place, candidates.c.next_at, candidates.c.id)
    due = select(candidates.c.id).order_by(*queue_order).limit(limit).correlate(_CLAIMED_ENDPOINTS)
    lateral_ids = due.lateral("beside")
    body = func.coalesce(deliveries.c.body, events.c.body, type_=events.c.body.type)

    def select_deliveries(joined: Any) -> Select[Any]:
        with_events = joined.outerjoin(events, events.c.id == deliveries.c.event_id)
        columns = (*DELIVERY_COLUMNS, body, events.c.request_id)
        return select(*columns).select_from(with_events).order_by(*in_order)

    in_order = (deliveries.c.tries == 0, deliveries.c.next_at, deliveries.c.id)
    return Statement(
        postgresql=select_deliveries(
            _CLAIMED_ENDPOINTS.join(lateral_ids, true()).join(
                deliveries, deliveries.c.id == lateral_ids.c.id
            )
        ),
        sqlite=select_deliveries(_CLAIMED_ENDPOINTS.join(deliveries, deliveries.c.id.in_(due))),
    )


_SELECT_LEASED_ENDPOINTS = select(endpoints.c.id).where(in_array(endpoints.c.lease_token, "tokens"))
_LOCKED_ENDPOINTS = (
    _SELECT_LEASED_ENDPOINTS.order_by(endpoints.c.id).with_for_update(key_share=True).cte("held")
)
RENEW_ENDPOINT_LEASES = Statement(
    update(endpoints)
    .values(lease_until=bindparam("until", type_=Instant))
    .where(endpoints.c.id.in_(select(_LOCKED_ENDPOINTS.c.id)))
)

_CLAIMS = array_rows("claims", id=("endpoint_ids", BigInt), token=("tokens", Text()))
LOCK_LEASED_ENDPOINTS = Statement(
    SELECT_SUBSCRIBERS.add_columns(endpoints.c.lease_token)
    .join(
        _CLAIMS,
        and_(_CLAIMS.c.id == endpoints.c.id, _CLAIMS.c.token == endpoints.c.lease_token),
    )
    .order_by(endpoints.c.id)
    .with_for_update(of=endpoints, key_share=True)
)


async def claim_batches(
    connection: Connection,
    now: datetime,
    lease: Lease,
    limit: int,
    batch_size: int,
    *,
    degraded: bool,
) -> Sequence[EndpointBatch]:
    rows = await connection.fetch_all(
        claim_batches_statement(min(limit, MAX_CLAIM_SIZE)),
        now=now,
        troubled=degraded,
        **lease_parameters(lease),
    )
    if not rows:
        return []
    rows.sort(key=lambda row: (row[-1], row[0]))
    claimed = [to_endpoint(row) for row in rows]
    due_by_endpoint = await _read_due_deliveries(
        connection, claimed, [_START] * len(claimed), now, batch_size
    )
    owners = {endpoint.owner_id for endpoint in claimed}
    found = await connection.fetch_all(LIST_OWNERS, owner_ids=sorted(owners))
    owner_by_id = {user.id: user for user in map(to_user, found)}
    return [
        EndpointBatch(
            endpoint, owner_by_id[endpoint.owner_id], lease, tuple(due_by_endpoint[endpoint.id])
        )
        for endpoint in claimed
    ]


async def next_deliveries(
    connection: Connection,
    batches: Sequence[tuple[WebhookEndpoint, Delivery]],
    now: datetime,
    limit: int,
) -> Mapping[int, Sequence[DueDelivery]]:
    claimed = [endpoint for endpoint, _ in batches]
    after = [(last.next_at or _START[0], last.id) for _, last in batches]
    return await _read_due_deliveries(connection, claimed, after, now, limit)


async def _read_due_deliveries(
    connection: Connection,
    claimed: Sequence[WebhookEndpoint],
    after: Sequence[tuple[datetime, int]],
    now: datetime,
    limit: int,
) -> dict[int, list[DueDelivery]]:
    """The due deliveries of each endpoint; of first attempts only those after the given place in
    the queue."""
    due_by_endpoint: dict[int, list[DueDelivery]] = {endpoint.id: [] for endpoint in claimed}
    rows = await connection.fetch_all(
        due_deliveries_statement(limit),
        endpoint_ids=list(due_by_endpoint),
        after_times=[at for at, _ in after],
        after_ids=[number for _, number in after],
        now=now,
    )
    for row in rows:
        delivery = to_delivery(row)
        due_by_endpoint[delivery.endpoint_id].append(
            DueDelivery(delivery, *row[len(DELIVERY_COLUMNS) :])
        )
    await _leave_out_waiting(connection, claimed, due_by_endpoint)
    return due_by_endpoint


async def _leave_out_waiting(
    connection: Connection,
    claimed: Sequence[WebhookEndpoint],
    due_by_endpoint: dict[int, list[DueDelivery]],
) -> None:
    """Make deliveries of ordered endpoints wait for earlier ones of their bookings."""
    ordered = [endpoint.id for endpoint in claimed if endpoint.ordered]
    due_ids = [due.delivery.id for number in ordered for due in due_by_endpoint[number]]
    waiting = await make_deliveries_wait(connection, due_ids) if due_ids else set()
    for number in ordered:
        due = due_by_endpoint[number]
        due_by_endpoint[number] = [each for each in due if each.delivery.id not in waiting]


async def renew_claims(connection: Connection, tokens: Sequence[str], until: datetime) -> None:
    await connection.execute(RENEW_ENDPOINT_LEASES, tokens=list(tokens), until=until)


async def lock_claims(
    connection: Connection, claims: Sequence[EndpointClaim]
) -> Mapping[EndpointClaim, EndpointSubscription]:
    ids, tokens = [number for number, _ in claims], [token for _, token in claims]
    rows = await connection.fetch_all(LOCK_LEASED_ENDPOINTS, endpoint_ids=ids, tokens=tokens)
    return {(row[0], row[-1]): to_subscriber(row) for row in rows}
