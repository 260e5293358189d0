"""Events on their way to webhook endpoints: placed, fanned out, claimed, settled, held.

An endpoint's next turn is computed by a statement of its own, after the one that locked its
row: so it sees what others committed before, and nothing that is pending is left without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import (
    BinaryExpression,
    Boolean,
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    union,
    union_all,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.accounts.store import USER, to_user
from staffbooking_adapters.sql.engine.dialect import claim, in_array, rowset, upsert
from staffbooking_adapters.sql.engine.leases import MOST, NOW, RELEASED, claiming, terms
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import events, users
from staffbooking_adapters.sql.schema.webhooks import (
    attempts,
    deliveries,
    endpoints,
    is_admin,
    is_first_try,
    is_kept,
    is_retry,
    is_waiting,
)
from staffbooking_adapters.sql.webhooks import feed
from staffbooking_adapters.sql.webhooks.reader import (
    ATTEMPT,
    DELIVERY,
    ENDPOINT,
    SUBSCRIBER,
    WebhooksReader,
    first_pending,
    to_delivery,
    to_endpoint,
    to_subscriber,
)
from staffbooking_core.domain.webhooks.deliveries import (
    Attempt,
    Delivery,
    DeliveryStatus,
    Endpoint,
    NewDelivery,
    Secrets,
    Subscriber,
    Told,
)
from staffbooking_core.ports import Claim, Hint, Lease, NewEndpoint, Parcel, Turn

# Endpoints --------------------------------------------------------------------------------

_FIELDS = {column.name: bindparam(column.name, type_=column.type) for column in ENDPOINT[1:]}
_IS_IT = endpoints.c.id == bindparam("endpoint_id", type_=BigInt)
ADD_ENDPOINT = Statement(insert(endpoints).values(_FIELDS).returning(endpoints.c.id))
LOCK_ENDPOINT = Statement(select(*ENDPOINT).where(_IS_IT).with_for_update(key_share=True))
SAVE_ENDPOINT = Statement(update(endpoints).values(_FIELDS).where(_IS_IT))

# Fanning out ------------------------------------------------------------------------------

_ASKED = rowset("asked", id=("user_ids", BigInt))
_OWNERS = union(select(_ASKED.c.id), select(users.c.id).where(is_admin))
SUBSCRIBERS = Statement(
    SUBSCRIBER.where(is_kept, endpoints.c.owner_id.in_(_OWNERS))
    .order_by(endpoints.c.id)
    .with_for_update(of=endpoints, key_share=True)
)

_NEW = "endpoint_id event_id event created_at status next_at held_at attempts tries counts".split()
_MADE = rowset("made", **{name: (f"each_{name}", deliveries.c[name].type) for name in _NEW[:-3]})
_MADE_ROW = {**_MADE.c, "next_at": func.coalesce(_MADE.c.next_at, _MADE.c.created_at)}
_NO_TRIES = (literal(0), literal(0), literal(True))
ADD_DELIVERIES = Statement(
    upsert(deliveries)
    .from_select(_NEW, select(*_MADE_ROW.values(), *_NO_TRIES).where(true()))
    .on_conflict_do_nothing(index_elements=["endpoint_id", "event_id"])
    .returning(deliveries.c.endpoint_id, deliveries.c.status, deliveries.c.next_at)
)
_ONE = {column.name: bindparam(column.name, type_=column.type) for column in deliveries.c[1:]}
ADD_TEST = Statement(insert(deliveries).values(_ONE).returning(deliveries.c.id))

# Turns ------------------------------------------------------------------------------------


@cache
def claim_turns(limit: int) -> Statement:
    return claiming(
        endpoints,
        and_(
            endpoints.c.troubled == bindparam("troubled", type_=Boolean()),
            endpoints.c.due_at <= NOW,
        ),
        (endpoints.c.due_at, endpoints.c.id),
        limit,
        returning=(*ENDPOINT, endpoints.c.due_at),
    )


OWNERS = Statement(select(*USER).where(in_array(users.c.id, "owner_ids")))

_CLAIMED = rowset("claimed", id=("endpoint_ids", BigInt))


def _first_due(kind: ColumnElement[bool], place: int, batch: int) -> Select[Any]:
    its = (deliveries.c.endpoint_id == _CLAIMED.c.id, kind, deliveries.c.next_at <= NOW)
    in_line = (deliveries.c.next_at, deliveries.c.id)
    first = select(*in_line).where(*its).order_by(*in_line).limit(batch).correlate(_CLAIMED)
    return select(literal_column(str(place)).label("place"), *first.subquery().c)


@cache
def due_deliveries(batch: int) -> Statement:
    """Of each endpoint those that are first in line, with their bytes."""
    kinds = enumerate((is_retry, is_first_try))
    either = union_all(*(_first_due(kind, place, batch) for place, kind in kinds)).subquery("due")
    in_line = (either.c.place, either.c.next_at, either.c.id)
    due = select(either.c.id).order_by(*in_line).limit(batch).correlate(_CLAIMED)
    beside = due.lateral("beside")
    body = func.coalesce(deliveries.c.body, events.c.body, type_=events.c.body.type)

    def written(joined: Any) -> Select[Any]:
        told = joined.outerjoin(events, events.c.id == deliveries.c.event_id)
        return select(*DELIVERY, body).select_from(told).order_by(*in_order)

    in_order = (deliveries.c.tries == 0, deliveries.c.next_at, deliveries.c.id)
    return Statement(
        postgresql=written(
            _CLAIMED.join(beside, true()).join(deliveries, deliveries.c.id == beside.c.id)
        ),
        sqlite=written(_CLAIMED.join(deliveries, deliveries.c.id.in_(due))),
    )


_HELD = select(endpoints.c.id).where(in_array(endpoints.c.lease_token, "tokens"))
_HELD_IN_ORDER = _HELD.order_by(endpoints.c.id).with_for_update(key_share=True).cte("held")
RENEW_TURNS = Statement(
    update(endpoints)
    .values(lease_until=bindparam("until", type_=Instant))
    .where(endpoints.c.id.in_(select(_HELD_IN_ORDER.c.id)))
)

_CLAIMS = rowset("claims", id=("endpoint_ids", BigInt), token=("tokens", Text()))
LOCK_TURNS = Statement(
    SUBSCRIBER.add_columns(endpoints.c.lease_token)
    .join(
        _CLAIMS,
        and_(_CLAIMS.c.id == endpoints.c.id, _CLAIMS.c.token == endpoints.c.lease_token),
    )
    .order_by(endpoints.c.id)
    .with_for_update(of=endpoints, key_share=True)
)

_TAKE_TURN = (
    update(endpoints)
    .values(due_at=first_pending(endpoints.c.id, no_earlier=True))
    .where(in_array(endpoints.c.id, "endpoint_ids"))
    .returning(endpoints.c.due_at)
)
TAKE_TURN = Statement(_TAKE_TURN)
END_TURNS = Statement(_TAKE_TURN.values(RELEASED))

_WOKEN = rowset("woken", id=("endpoint_ids", BigInt), at=("times", Instant))
WAKE = Statement(
    update(endpoints)
    .values(due_at=_WOKEN.c.at)
    .where(
        endpoints.c.id == _WOKEN.c.id,
        or_(endpoints.c.due_at.is_(None), endpoints.c.due_at > _WOKEN.c.at),
    )
)

# Deliveries -------------------------------------------------------------------------------

LOCK_DELIVERIES = Statement(
    select(*DELIVERY)
    .where(in_array(deliveries.c.id, "delivery_ids"))
    .order_by(deliveries.c.id)
    .with_for_update(key_share=True)
)

_PROGRESS = "id status next_at attempts tries counts held_at".split()
_DONE = rowset("done", **{name: (f"each_{name}", deliveries.c[name].type) for name in _PROGRESS})
_SAVED = {name: _DONE.c[name] for name in _PROGRESS[1:]}
SAVE_DELIVERIES = Statement(
    update(deliveries)
    .values({**_SAVED, "next_at": func.coalesce(_DONE.c.next_at, deliveries.c.next_at)})
    .where(deliveries.c.id == _DONE.c.id)
)

_TRIED = rowset("tried", **{c.name: (f"each_{c.name}", c.type) for c in attempts.c})
ADD_ATTEMPTS = Statement(
    insert(attempts).from_select(list(attempts.c.keys()), select(*_TRIED.c).where(true()))
)

_ITS = deliveries.c.endpoint_id == bindparam("endpoint_id")


BITE = 1_000
"""So many deliveries are moved by a statement, which has its time limit."""


def _some_of(*kinds: ColumnElement[bool]) -> BinaryExpression[bool]:
    """Those of an endpoint, up to a bite of each kind, which has its own index."""
    some = (select(deliveries.c.id).where(_ITS, kind).limit(BITE).subquery() for kind in kinds)
    return deliveries.c.id.in_(union_all(*(select(each.c.id) for each in some)))


_CANCELLED = {"status": DeliveryStatus.CANCELLED, "held_at": None}
HOLD = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.HELD, held_at=NOW)
    .where(_some_of(is_retry, is_first_try))
)
RESUME = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.PENDING, held_at=None)
    .where(_some_of(is_waiting))
)
CANCEL = Statement(
    update(deliveries).values(_CANCELLED).where(_some_of(is_retry, is_first_try, is_waiting))
)


@cache
def cancel_held(limit: int) -> Statement:
    return Statement(
        claim(
            deliveries,
            due=and_(is_waiting, deliveries.c.held_at <= bindparam("before", type_=Instant)),
            order_by=(deliveries.c.held_at, deliveries.c.id),
            limit=limit,
            values=_CANCELLED,
            returning=(deliveries.c.id,),
        )
    )


@frozen
class WebhooksWriter(WebhooksReader):
    hints: set[Hint]
    """What the unit of work will be worth a hint for, once it is committed."""

    async def add_endpoint(self, new: NewEndpoint) -> Endpoint:
        fields = asdict(new, recurse=False)
        endpoint = Endpoint(id=0, secrets=Secrets(b""), **fields)
        added = await self.connection.value(ADD_ENDPOINT, **_to_fields(endpoint))
        return Endpoint(id=added, secrets=Secrets(b""), **fields)

    async def lock_endpoint(self, endpoint_id: int) -> Endpoint | None:
        row = await self.connection.one(LOCK_ENDPOINT, endpoint_id=endpoint_id)
        return None if row is None else to_endpoint(row)

    async def save_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        rows = [{**_to_fields(endpoint), "endpoint_id": endpoint.id} for endpoint in endpoints]
        await self.connection.many(SAVE_ENDPOINT, rows)

    # Placing ----------------------------------------------------------------------------

    async def lock_feed(self) -> int:
        return await feed.lock_feed(self.connection)

    async def place(self, placed: Sequence[tuple[Told, int]]) -> None:
        await feed.place_events(self.connection, placed)

    async def subscribers(self, user_ids: Sequence[int]) -> Sequence[Subscriber]:
        rows = await self.connection.all(SUBSCRIBERS, user_ids=list(user_ids))
        return [to_subscriber(row) for row in rows]

    async def add_deliveries(self, new: Sequence[NewDelivery]) -> None:
        rows = await self.connection.all(ADD_DELIVERIES, **_columns(_NEW[:-3], new))
        first: dict[int, datetime] = {}
        for endpoint_id, status, next_at in rows:
            if status == DeliveryStatus.PENDING:
                first[endpoint_id] = min(next_at, first.get(endpoint_id, next_at))
        await self._wake(first)

    async def add_test(self, new: NewDelivery, envelope: dict[str, Any]) -> Parcel:
        body = codec.encode(envelope)
        given = asdict(new, recurse=False)
        begun = {**given, "attempts": 0, "tries": 0, "counts": True}
        kept = {**begun, "next_at": new.next_at or new.created_at, "body": body}
        added = await self.connection.value(ADD_TEST, **kept)
        return Parcel(Delivery(id=added, **begun), body)

    # Sending ----------------------------------------------------------------------------

    async def claim_turns(
        self, now: datetime, lease: Lease, limit: int, batch: int, *, troubled: bool
    ) -> Sequence[Turn]:
        rows = await self.connection.all(
            claim_turns(min(limit, MOST)), now=now, troubled=troubled, **terms(lease)
        )
        if not rows:
            return []
        rows.sort(key=lambda row: (row[-1], row[0]))
        claimed = [to_endpoint(row) for row in rows]
        parcels = await self._due(claimed, batch, now)
        owners = {endpoint.owner_id for endpoint in claimed}
        found = await self.connection.all(OWNERS, owner_ids=sorted(owners))
        users = {user.id: user for user in map(to_user, found)}
        return [
            Turn(endpoint, users[endpoint.owner_id], lease, tuple(parcels[endpoint.id]))
            for endpoint in claimed
        ]

    async def _due(
        self, claimed: Sequence[Endpoint], batch: int, now: datetime
    ) -> dict[int, list[Parcel]]:
        parcels: dict[int, list[Parcel]] = {endpoint.id: [] for endpoint in claimed}
        rows = await self.connection.all(due_deliveries(batch), endpoint_ids=list(parcels), now=now)
        for row in rows:
            delivery = to_delivery(row)
            parcels[delivery.endpoint_id].append(Parcel(delivery, row[len(DELIVERY)]))
        return parcels

    async def renew_turns(self, tokens: Sequence[str], until: datetime) -> None:
        await self.connection.run(RENEW_TURNS, tokens=list(tokens), until=until)

    async def lock_turns(self, claims: Sequence[Claim]) -> Mapping[Claim, Subscriber]:
        ids, tokens = [number for number, _ in claims], [token for _, token in claims]
        rows = await self.connection.all(LOCK_TURNS, endpoint_ids=ids, tokens=tokens)
        return {(row[0], row[-1]): to_subscriber(row) for row in rows}

    async def end_turns(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        await self._take_turns(END_TURNS, endpoint_ids, now)

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        rows = await self.connection.all(LOCK_DELIVERIES, delivery_ids=list(delivery_ids))
        return [to_delivery(row) for row in rows]

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        await self.connection.run(SAVE_DELIVERIES, **_columns(_PROGRESS, deliveries))

    async def add_attempts(self, made: Sequence[tuple[int, Attempt]]) -> None:
        ids, tried = [number for number, _ in made], [attempt for _, attempt in made]
        columns = _columns([column.name for column in ATTEMPT], tried)
        await self.connection.run(ADD_ATTEMPTS, each_delivery_id=ids, **columns)

    async def wake(self, endpoint_id: int, at: datetime) -> None:
        await self._wake({endpoint_id: at})

    async def _wake(self, woken: dict[int, datetime]) -> None:
        if woken:
            times = list(woken.values())
            await self.connection.run(WAKE, endpoint_ids=list(woken), times=times)
            self.hints.add(Hint.DELIVERIES)

    async def _take_turns(
        self, statement: Statement, endpoint_ids: Sequence[int], now: datetime
    ) -> None:
        rows = await self.connection.all(statement, endpoint_ids=list(endpoint_ids), now=now)
        if any(due_at is not None and due_at <= now for (due_at,) in rows):
            self.hints.add(Hint.DELIVERIES)

    # Holding ----------------------------------------------------------------------------

    async def hold(self, endpoint_id: int, now: datetime) -> int:
        held = await self.connection.run(HOLD, endpoint_id=endpoint_id, now=now)
        await self._take_turns(TAKE_TURN, [endpoint_id], now)
        return held

    async def resume(self, endpoint_id: int, now: datetime) -> int:
        resumed = await self.connection.run(RESUME, endpoint_id=endpoint_id)
        await self._take_turns(TAKE_TURN, [endpoint_id], now)
        return resumed

    async def cancel(self, endpoint_id: int, now: datetime) -> int:
        cancelled = await self.connection.run(CANCEL, endpoint_id=endpoint_id)
        await self._take_turns(TAKE_TURN, [endpoint_id], now)
        return cancelled

    async def cancel_held(self, before: datetime, limit: int) -> int:
        return len(await self.connection.all(cancel_held(min(limit, MOST)), before=before))


def _to_fields(endpoint: Endpoint) -> dict[str, Any]:
    """The parameters of _FIELDS."""
    row = asdict(endpoint, recurse=False)
    del row["id"]
    secrets = row.pop("secrets")
    row["events"] = ",".join(sorted(endpoint.events))
    return {
        **row,
        "secret": secrets.current,
        "next_secret": secrets.next,
        "next_secret_from": secrets.next_from,
    }


def _columns(names: Sequence[str], values: Sequence[Any]) -> dict[str, list[Any]]:
    """The parameters of a rowset, a list for each name."""
    return {f"each_{name}": [getattr(value, name) for value in values] for name in names}
