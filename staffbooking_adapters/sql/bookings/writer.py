"""Bookings: writes each transition with all its rows atomically."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Delete,
    FromClause,
    Insert,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings.postings import add_postings
from staffbooking_adapters.sql.bookings.reader import (
    LOCK_BOOKING,
    LOCK_CONTENDERS,
    BookingsReader,
    booking_row,
    to_booking,
)
from staffbooking_adapters.sql.engine.composite import CompositeStatement, ConditionalWrite
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, upsert
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.idempotency import (
    RESPONSE_WRITES,
    SQLITE_RESPONSE_WRITES,
    stored_response_params,
)
from staffbooking_adapters.sql.notifications.store import insert_notifications, notification_params
from staffbooking_adapters.sql.schema.accounts import users
from staffbooking_adapters.sql.schema.bookings import (
    alerts,
    bookings,
    events,
    rebooking_credits,
    timers,
)
from staffbooking_adapters.sql.schema.payments import payment_operations
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import DAY
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    CALENDAR_CHANGED,
    PARTY_DISABLED,
    BookingWrite,
    Hint,
    RebookingCredit,
)
from staffbooking_core.request_id import CURRENT_REQUEST_ID

_BOOKING_VALUES = {column.name: bindparam(column.name, type_=column.type) for column in bookings.c}
_BOOKING_ID = bindparam("id", type_=BigInt)

# Serializes a new booking with disabling or erasing its parties, with making its customer an
# operator, and with acceptances of its companion: an earlier change is visible here, and a later
# one sees the booking. The lock is shared, so that bookings do not wait for each other.
_IS_PARTY = users.c.id.in_(
    [_BOOKING_VALUES[side] for side in ("customer_id", "companion_id", "booked_by")]
)
_LOCKED_PARTIES = (
    select(users.c.id, users.c.role, users.c.disabled_at, users.c.acceptances)
    .where(_IS_PARTY)
    .order_by(users.c.id)
    .with_for_update(read=True)
    .cte("parties", nesting=True)
)


def _is_lost(party: FromClause) -> ColumnElement[bool]:
    """Whether a party can no longer be booked: disabled, or a customer with another role."""
    return or_(
        party.c.disabled_at.is_not(None),
        and_(party.c.id == _BOOKING_VALUES["customer_id"], party.c.role != Role.CUSTOMER),
    )


_INSERT_BOOKING = insert(bookings).from_select(
    list(_BOOKING_VALUES),
    select(*_BOOKING_VALUES.values()).where(
        ~exists()
        .select_from(_LOCKED_PARTIES)
        .where(
            or_(
                _is_lost(_LOCKED_PARTIES),
                and_(
                    _LOCKED_PARTIES.c.id == _BOOKING_VALUES["companion_id"],
                    _LOCKED_PARTIES.c.acceptances
                    != bindparam("seen_acceptances", type_=BigInt),  # Null is not compared.
                ),
            )
        )
    ),
)
FIND_LOST_PARTY = Statement(select(users.c.id).where(_IS_PARTY, _is_lost(users)))
COUNT_ACCEPTANCE = Statement(
    update(users)
    .values(acceptances=users.c.acceptances + 1)
    .where(users.c.id == bindparam("companion_id", type_=BigInt))
)
_UPDATE_BOOKING = (
    update(bookings)
    .values({name: value for name, value in _BOOKING_VALUES.items() if name != "id"})
    .where(bookings.c.id == _BOOKING_ID, bookings.c.revision == _BOOKING_VALUES["revision"] - 1)
)

_TIMER_VALUES = {
    "kind": bindparam("timer_kind", type_=Text()),
    "due_at": bindparam("timer_due_at", type_=Instant),
    "attempts": literal_column("0"),
}


def _upsert_timer(condition: ColumnElement[bool]) -> Insert:
    return (
        upsert(timers)
        .from_select(
            ["booking_id", *_TIMER_VALUES],
            select(_BOOKING_ID, *_TIMER_VALUES.values()).where(condition),
        )
        .on_conflict_do_update(
            index_elements=["booking_id"],
            set_={**_TIMER_VALUES, "not_before": None, "lease_token": None, "lease_until": None},
        )
    )


def _delete_timer(condition: ColumnElement[bool]) -> Delete:
    return delete(timers).where(timers.c.booking_id == _BOOKING_ID, condition)


_REQUEST_ID_PARAM = bindparam("request_id", type_=Text())
_EVENT_VALUES = {
    **{
        column.name: bindparam(f"event_{column.name}", type_=column.type)
        for column in events.c
        if column.name not in ("booking_id", "position", "request_id")
    },
    "request_id": _REQUEST_ID_PARAM,
}


def _insert_event(condition: ColumnElement[bool]) -> Insert:
    return insert(events).from_select(
        ["booking_id", *_EVENT_VALUES],
        select(_BOOKING_ID, *_EVENT_VALUES.values()).where(condition),
    )


_AT_PARAM = bindparam("at", type_=Instant)
_NEW_OPERATION_ROWS = array_rows(
    "given", n=("order_numbers", BigInt), kind=("order_kinds", Text()), command=("commands", Text())
)


def _insert_operations(condition: ColumnElement[bool]) -> Insert:
    return insert(payment_operations).from_select(
        [
            *"booking_id n kind command created_at next_at request_id".split(),
            *"generation status attempts".split(),
        ],
        select(
            *(
                _BOOKING_ID,
                _NEW_OPERATION_ROWS.c.n,
                _NEW_OPERATION_ROWS.c.kind,
                _NEW_OPERATION_ROWS.c.command,
                _AT_PARAM,
                _AT_PARAM,
                _REQUEST_ID_PARAM,
            ),
            *(
                literal_column("1"),
                literal(OperationStatus.PENDING.value, Text()),
                literal_column("0"),
            ),
        ).where(condition),
    )


_ALERT_ROWS = array_rows("given", text=("alert_texts", Text()), alarmed_at=("alert_times", Instant))


def _insert_alerts(condition: ColumnElement[bool]) -> Insert:
    return insert(alerts).from_select(
        ["at", "booking_id", "text", "alarmed_at", "told"],
        select(_AT_PARAM, _BOOKING_ID, *_ALERT_ROWS.c, literal(False)).where(condition),
    )


def _insert_credit(condition: ColumnElement[bool]) -> Insert:
    return insert(rebooking_credits).from_select(
        ["booking_id", "customer_id", "expires_at"],
        select(
            _BOOKING_ID,
            bindparam("credit_customer", type_=BigInt),
            bindparam("credit_expires_at", type_=Instant),
        ).where(condition),
    )


USE_CREDIT = Statement(
    update(rebooking_credits)
    .values(used_by=bindparam("used_by_booking_id"))
    .where(
        rebooking_credits.c.booking_id == bindparam("booking_id"),
        rebooking_credits.c.used_by.is_(None),
    )
)


TAKE_BACK_CREDIT = Statement(
    delete(rebooking_credits).where(
        rebooking_credits.c.booking_id == bindparam("booking_id"),
        rebooking_credits.c.used_by.is_(None),
    )
)


@frozen
class _BookingWriteVariant:
    """The kinds of rows in a booking write. Each variant is one statement."""

    is_new: bool
    has_timer: bool
    has_event: bool
    has_operations: bool
    has_alerts: bool
    has_notifications: bool
    has_credit: bool
    has_response: bool


@cache
def _booking_write_statement(variant: _BookingWriteVariant) -> CompositeStatement:
    writes: list[ConditionalWrite] = []
    if variant.has_timer:
        writes.append(_upsert_timer)
    elif not variant.is_new:
        writes.append(_delete_timer)
    for is_there, write in (
        (variant.has_event, _insert_event),
        (variant.has_operations, _insert_operations),
        (variant.has_alerts, _insert_alerts),
        (variant.has_notifications, insert_notifications),
        (variant.has_credit, _insert_credit),
    ):
        if is_there:
            writes.append(write)
    return CompositeStatement(
        _INSERT_BOOKING if variant.is_new else _UPDATE_BOOKING,
        if_touched=[*writes, *(RESPONSE_WRITES if variant.has_response else ())],
        sqlite_if_touched=[*writes, *(SQLITE_RESPONSE_WRITES if variant.has_response else ())],
    )


async def save_booking_write(
    connection: Connection, booking_write: BookingWrite, policy: Policy, is_new: bool
) -> None:
    """Save a transition with its rows; without postings it is one statement on PostgreSQL.

    Raises ConstraintViolated for a new booking with a disabled party or for who is no customer, or
    whose companion has accepted another since it was decided, and Conflict for a changed revision.
    """
    variant = _BookingWriteVariant(
        is_new=is_new,
        has_timer=booking_write.due is not None,
        has_event=booking_write.event is not None,
        has_operations=bool(booking_write.orders),
        has_alerts=bool(booking_write.alerts),
        has_notifications=bool(booking_write.notifications),
        has_credit=booking_write.rebooking_credit is not None,
        has_response=booking_write.response is not None,
    )
    params = _booking_write_params(booking_write, policy)
    if is_new:
        params["seen_acceptances"] = booking_write.seen_acceptances
    if not await _booking_write_statement(variant).execute(connection, params):
        if not is_new:
            raise Conflict("booking")
        raise await _insert_error(connection, booking_write.booking)
    if booking_write.postings:
        await add_postings(connection, booking_write.postings)


async def _insert_error(connection: Connection, booking: Booking) -> ConstraintViolated:
    """The error of a new booking that was not stored."""
    lost = await connection.fetch_value(
        FIND_LOST_PARTY,
        customer_id=booking.customer_id,
        companion_id=booking.companion_id,
        booked_by=booking.booked_by,
    )
    return ConstraintViolated(CALENDAR_CHANGED if lost is None else PARTY_DISABLED)


def _booking_write_params(booking_write: BookingWrite, policy: Policy) -> dict[str, Any]:
    """The parameters of all rows of a booking write."""
    rows = {
        **booking_row(booking_write.booking),
        "at": booking_write.operations_due_at,
        "request_id": CURRENT_REQUEST_ID.get(),
    }
    if (due := booking_write.due) is not None:
        rows |= {"timer_kind": due.kind, "timer_due_at": due.at}
    if (event := booking_write.event) is not None:
        rows |= {
            "event_sequence": event.sequence,
            "event_id": event.id,
            "event_name": event.name,
            "event_created_at": event.created_at,
            "event_parties": codec.encode(event.parties).decode(),
            "event_body": codec.encode(event.envelope),
        }
    if booking_write.alerts:
        rows |= {
            "alert_texts": [alert.text for alert in booking_write.alerts],
            "alert_times": [alert.alarmed_at for alert in booking_write.alerts],
        }
    if booking_write.orders:
        rows |= {
            "order_numbers": [order.n for order in booking_write.orders],
            "order_kinds": [order.kind for order in booking_write.orders],
            "commands": [codec.dump(order.command) for order in booking_write.orders],
        }
    if booking_write.notifications:
        rows |= notification_params(booking_write.notifications)
    if (credit := booking_write.rebooking_credit) is not None:
        rows |= {"credit_customer": credit.customer_id, "credit_expires_at": credit.expires_at}
    if booking_write.response is not None:
        rows |= stored_response_params(booking_write.response, policy)
    return rows


@frozen
class BookingsWriter(BookingsReader):
    """Locks and writes bookings with all their rows."""

    policy: Policy
    hints: set[Hint]
    """Hints to send after the transaction commits."""

    async def lock_booking(self, booking_id: int) -> Booking | None:
        return to_booking.map_optional(
            await self.connection.fetch_one(LOCK_BOOKING, booking_id=booking_id)
        )

    async def count_acceptance(self, companion_id: int) -> None:
        await self.connection.execute(COUNT_ACCEPTANCE, companion_id=companion_id)

    async def lock_competing_bookings(
        self, booking_id: int, buffer: timedelta
    ) -> Sequence[Booking]:
        params = {"booking_id": booking_id, "buffer": buffer, "longest": DAY}
        rows = await self.connection.fetch_all(LOCK_CONTENDERS, **params)
        return [to_booking(row) for row in rows]

    async def save_booking(self, booking_write: BookingWrite) -> None:
        await self._save_booking_write(booking_write, is_new=False)

    async def add_booking(self, booking_write: BookingWrite) -> None:
        await self._save_booking_write(booking_write, is_new=True)

    async def _save_booking_write(self, booking_write: BookingWrite, is_new: bool) -> None:
        await save_booking_write(self.connection, booking_write, self.policy, is_new)
        if booking_write.event is not None:
            self.hints.add(Hint.EVENTS)

    async def use_rebooking_credit(self, credit: RebookingCredit, used_by_booking_id: int) -> bool:
        params = {"booking_id": credit.booking_id, "used_by_booking_id": used_by_booking_id}
        return bool(await self.connection.execute(USE_CREDIT, **params))

    async def take_back_rebooking_credit(self, booking_id: int) -> bool:
        return bool(await self.connection.execute(TAKE_BACK_CREDIT, booking_id=booking_id))
