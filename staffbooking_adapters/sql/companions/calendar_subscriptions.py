"""Calendar subscriptions: reads, claims and writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import evolve, fields, frozen
from sqlalchemy import ColumnElement, bindparam, delete, insert, select, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.leases import (
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.companions import calendar_subscriptions
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarSubscription,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease


def _parse_busy_times(text: str) -> tuple[Interval, ...]:
    return codec.load(text, tuple[Interval, ...])


_COLUMNS = tuple(calendar_subscriptions.c[field.name] for field in fields(CalendarSubscription))
_to_subscription = RowMapper(
    CalendarSubscription, _COLUMNS, fault=CalendarReadFault, busy=_parse_busy_times
)

_VALUES = {column.name: bindparam(column.name, type_=column.type) for column in _COLUMNS[1:]}
_FIELD_NAMES = [field.name for field in fields(CalendarSubscription)][1:]
_ID = bindparam("subscription_id", type_=calendar_subscriptions.c.id.type)
_IS_SUBSCRIPTION = calendar_subscriptions.c.id == _ID
_IS_DUE = calendar_subscriptions.c.next_read_at <= NOW_PARAM

SUBSCRIPTIONS_OF = Statement(
    select(*_COLUMNS)
    .where(calendar_subscriptions.c.companion_id == bindparam("companion"))
    .order_by(calendar_subscriptions.c.id)
)
ADD_SUBSCRIPTION = Statement(
    insert(calendar_subscriptions).values(_VALUES).returning(calendar_subscriptions.c.id)
)
LOCK_SUBSCRIPTION = Statement(
    select(*_COLUMNS)
    .where(_IS_SUBSCRIPTION, is_held_by_caller(calendar_subscriptions))
    .with_for_update()
)
SAVE_SUBSCRIPTION = Statement(
    update(calendar_subscriptions)
    .values(_VALUES)
    .values(RELEASED_LEASE_VALUES)
    .where(_IS_SUBSCRIPTION)
)
RESEAL_SUBSCRIPTION = Statement(
    update(calendar_subscriptions)
    .values(address=_VALUES["address"])
    .where(_IS_SUBSCRIPTION, calendar_subscriptions.c.address == bindparam("before"))
)
DELETE_SUBSCRIPTION = Statement(
    delete(calendar_subscriptions).where(
        _IS_SUBSCRIPTION, calendar_subscriptions.c.companion_id == bindparam("companion")
    )
)


@cache
def subscriptions_after(size: int) -> Statement:
    """Subscriptions of all companions by id."""
    after = calendar_subscriptions.c.id > bindparam("after_id")
    return Statement(
        select(*_COLUMNS).where(after).order_by(calendar_subscriptions.c.id).limit(size)
    )


@cache
def claim_subscriptions_statement(limit: int, is_single: bool) -> Statement:
    is_due: ColumnElement[bool] = _IS_SUBSCRIPTION if is_single else _IS_DUE
    return claim_with_lease(
        calendar_subscriptions,
        is_due,
        (calendar_subscriptions.c.next_read_at, calendar_subscriptions.c.id),
        limit,
        returning=_COLUMNS,
    )


@frozen
class CalendarSubscriptionsReader:
    """Reads calendar subscriptions."""

    connection: Connection

    async def subscriptions_of(self, companion_id: int) -> Sequence[CalendarSubscription]:
        rows = await self.connection.fetch_all(SUBSCRIPTIONS_OF, companion=companion_id)
        return [_to_subscription(row) for row in rows]

    async def subscriptions(self, after_id: int, limit: int) -> Sequence[CalendarSubscription]:
        statement = subscriptions_after(page_size(limit))
        rows = await self.connection.fetch_all(statement, after_id=after_id)
        return [_to_subscription(row) for row in rows[:limit]]


@frozen
class CalendarSubscriptionsWriter(CalendarSubscriptionsReader):
    """Claims, locks and writes calendar subscriptions."""

    async def add_subscription(self, subscription: CalendarSubscription) -> CalendarSubscription:
        new_id = await self.connection.fetch_value(ADD_SUBSCRIPTION, **_to_row(subscription))
        return evolve(subscription, id=new_id)

    async def claim_subscriptions(
        self, now: datetime, lease: Lease, limit: int, subscription_id: int | None = None
    ) -> Sequence[CalendarSubscription]:
        is_single = subscription_id is not None
        statement = claim_subscriptions_statement(min(limit, MAX_CLAIM_SIZE), is_single)
        single = {"subscription_id": subscription_id} if is_single else {}
        rows = await self.connection.fetch_all(
            statement, now=now, **lease_parameters(lease), **single
        )
        claimed = [_to_subscription(row) for row in rows]
        return sorted(claimed, key=lambda each: (each.next_read_at or now, each.id))

    async def lock_subscription(self, subscription_id: int, lease: Lease) -> CalendarSubscription:
        row = await self.connection.fetch_one(
            LOCK_SUBSCRIPTION, subscription_id=subscription_id, held_by=lease.token
        )
        if row is None:
            raise Conflict("calendar subscription")
        return _to_subscription(row)

    async def save_subscription(self, subscription: CalendarSubscription) -> None:
        await self.connection.execute(
            SAVE_SUBSCRIPTION, subscription_id=subscription.id, **_to_row(subscription)
        )

    async def reseal_subscription(self, subscription_id: int, before: bytes, after: bytes) -> bool:
        changed = await self.connection.execute(
            RESEAL_SUBSCRIPTION, subscription_id=subscription_id, before=before, address=after
        )
        return bool(changed)

    async def remove_subscription(self, companion_id: int, subscription_id: int) -> bool:
        removed = await self.connection.execute(
            DELETE_SUBSCRIPTION, companion=companion_id, subscription_id=subscription_id
        )
        return bool(removed)


def _to_row(subscription: CalendarSubscription) -> dict[str, object]:
    row = {name: getattr(subscription, name) for name in _FIELD_NAMES}
    return {**row, "busy": codec.dump(subscription.busy, tuple[Interval, ...])}
