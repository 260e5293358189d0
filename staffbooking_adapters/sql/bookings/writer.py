"""Steps of bookings as they are saved: each with all its rows, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    Text,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    true,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings import reader as reading
from staffbooking_adapters.sql.bookings.ledger import add_postings
from staffbooking_adapters.sql.bookings.reader import BookingsReader, to_booking
from staffbooking_adapters.sql.engine.composite import Part, Together, needed
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import rowset, upsert
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.notifications.store import add_told, told_rows
from staffbooking_adapters.sql.schema.bookings import (
    alerts,
    answers,
    bookings,
    events,
    rebooking_credits,
    timers,
    users,
)
from staffbooking_adapters.sql.schema.payments import payment_operations
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.processor import OpStatus
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.policy import Policy
from staffbooking_core.ports import PARTY_DISABLED, Answer, Change, Credit, Hint

_FIELDS = {column.name: bindparam(column.name, type_=column.type) for column in bookings.c}
_ID = bindparam("id", type_=BigInt)

# Whoever disables or erases a party of a new booking came before, and is waited for and seen
# here, or comes after, and sees the booking. The lock is shared: bookings don't wait for each
# other.
_PARTIES = (
    select(users.c.disabled_at)
    .where(users.c.id.in_([_FIELDS[side] for side in ("customer_id", "companion_id", "booked_by")]))
    .order_by(users.c.id)
    .with_for_update(read=True)
    .cte("parties", nesting=True)
)
_ADD_BOOKING = insert(bookings).from_select(
    list(_FIELDS),
    select(*_FIELDS.values()).where(
        ~exists().select_from(_PARTIES).where(_PARTIES.c.disabled_at.is_not(None))
    ),
)
_SAVE_BOOKING = (
    update(bookings)
    .values({name: value for name, value in _FIELDS.items() if name != "id"})
    .where(bookings.c.id == _ID, bookings.c.version == _FIELDS["version"] - 1)
)

_TIMER = {
    "kind": bindparam("timer_kind", type_=Text()),
    "due_at": bindparam("timer_due_at", type_=Instant),
    "attempts": literal_column("0"),
}
_SET_TIMER = (
    upsert(timers)
    .from_select(["booking_id", *_TIMER], select(_ID, *_TIMER.values()).where(true()))
    .on_conflict_do_update(
        index_elements=["booking_id"],
        set_={**_TIMER, "not_before": None, "lease_token": None, "lease_until": None},
    )
)
_CLEAR_TIMER = delete(timers).where(timers.c.booking_id == _ID)

_EVENT = {
    column.name: bindparam(f"event_{column.name}", type_=column.type)
    for column in events.c
    if column.name not in ("booking_id", "position")
}
_ADD_EVENT = insert(events).from_select(
    ["booking_id", *_EVENT], select(_ID, *_EVENT.values()).where(true())
)

_AT = bindparam("at", type_=Instant)
_ORDERS = rowset(
    "given", n=("order_numbers", BigInt), kind=("order_kinds", Text()), command=("commands", Text())
)
_ADD_OPERATIONS = insert(payment_operations).from_select(
    "booking_id n kind command created_at next_at generation status attempts".split(),
    select(
        *(_ID, _ORDERS.c.n, _ORDERS.c.kind, _ORDERS.c.command, _AT, _AT),
        *(literal_column("1"), literal(OpStatus.PENDING.value, Text()), literal_column("0")),
    ).where(true()),
)

_TOLD = rowset("given", text=("alert_texts", Text()))
_ADD_ALERTS = insert(alerts).from_select(
    ["at", "booking_id", "text", "told"],
    select(_AT, _ID, _TOLD.c.text, literal(False)).where(true()),
)

_ADD_CREDIT = insert(rebooking_credits).from_select(
    ["booking_id", "customer_id", "expires_at"],
    select(
        _ID,
        bindparam("credit_customer", type_=BigInt),
        bindparam("credit_expires_at", type_=Instant),
    ).where(true()),
)
USE_CREDIT = Statement(
    update(rebooking_credits)
    .values(used_by=bindparam("user"))
    .where(
        rebooking_credits.c.booking_id == bindparam("cancelled"),
        rebooking_credits.c.used_by.is_(None),
    )
)

_ANSWER = {c.name: bindparam(f"answer_{c.name}", type_=c.type) for c in answers.c}
_DROP_EXPIRED = delete(answers).where(
    answers.c.scope == _ANSWER["scope"],
    answers.c.key == _ANSWER["key"],
    answers.c.expires_at <= bindparam("answer_made_at", type_=Instant),
)
_KEEP = insert(answers).values(_ANSWER)


def _drop_and_keep() -> Part:
    """PostgreSQL's: the insertion waits for the deletion, since it is made from its count."""
    dropped = _DROP_EXPIRED.returning(literal_column("1").label("one")).cte("dropped")
    then = select(func.count().label("rows")).select_from(dropped).subquery("then")
    return insert(answers).from_select(
        list(_ANSWER), select(*_ANSWER.values()).select_from(then).where(then.c.rows >= 0)
    )


DROP_EXPIRED = Statement(sqlite=_DROP_EXPIRED)
KEEP_ANSWER = Statement(postgresql=_drop_and_keep(), sqlite=_KEEP)


@frozen
class _Shape:
    """Which rows come with a step; each shape is one statement."""

    is_new: bool
    due: bool
    event: bool
    orders: bool
    alerts: bool
    notices: bool
    credit: bool
    answer: bool


@cache
def _step(shape: _Shape) -> Together:
    parts: list[Part] = [_ADD_BOOKING if shape.is_new else _SAVE_BOOKING]
    if shape.due:
        parts.append(_SET_TIMER)
    elif not shape.is_new:
        parts.append(_CLEAR_TIMER)
    for is_there, part in (
        (shape.event, _ADD_EVENT),
        (shape.orders, _ADD_OPERATIONS),
        (shape.alerts, _ADD_ALERTS),
        (shape.notices, add_told),
        (shape.credit, _ADD_CREDIT),
    ):
        if is_there:
            parts.append(part)
    if shape.answer:
        return Together(*parts, _drop_and_keep(), sqlite=(*parts, _DROP_EXPIRED, _KEEP))
    return Together(*parts)


async def save_step(connection: Connection, change: Change, policy: Policy, is_new: bool) -> None:
    """Save a step; without postings it is one statement on PostgreSQL."""
    shape = _Shape(
        is_new=is_new,
        due=change.due is not None,
        event=change.event is not None,
        orders=bool(change.orders),
        alerts=bool(change.alerts),
        notices=bool(change.notices),
        credit=change.credit is not None,
        answer=change.answer is not None,
    )
    if not await _step(shape).run(connection, _to_rows(change, policy)):
        raise ConstraintViolated(PARTY_DISABLED) if is_new else Conflict("booking")
    if change.postings:
        await add_postings(connection, change.postings)


def _to_rows(change: Change, policy: Policy) -> dict[str, Any]:
    """The parameters of every row that comes with a step."""
    rows = {**reading.to_row(change.booking), "at": change.at, "alert_texts": list(change.alerts)}
    if (due := change.due) is not None:
        rows |= {"timer_kind": due.kind, "timer_due_at": due.at}
    if (event := change.event) is not None:
        rows |= {
            "event_sequence": event.sequence,
            "event_id": event.id,
            "event_name": event.name,
            "event_created_at": event.created_at,
            "event_parties": codec.encode(event.parties).decode(),
            "event_body": codec.encode(event.envelope),
        }
    if change.orders:
        rows |= {
            "order_numbers": [order.n for order in change.orders],
            "order_kinds": [order.kind for order in change.orders],
            "commands": [codec.dump(order.command) for order in change.orders],
        }
    if change.notices:
        rows |= told_rows(change.notices)
    if (credit := change.credit) is not None:
        rows |= {"credit_customer": credit.customer_id, "credit_expires_at": credit.expires_at}
    if change.answer is not None:
        rows |= _to_answer(change.answer, policy)
    return rows


def _to_answer(answer: Answer, policy: Policy) -> dict[str, Any]:
    row = {f"answer_{name}": getattr(answer, name) for name in _ANSWER}
    return {**row, "answer_made_at": answer.expires_at - policy.idempotency_lifetime}


@frozen
class BookingsWriter(BookingsReader):
    policy: Policy
    hints: set[Hint]
    """What the unit of work will be worth a hint for, once it is committed."""

    async def lock_booking(self, booking_id: int) -> Booking | None:
        return to_booking.optional(await self.connection.one(reading.LOCK, booking_id=booking_id))

    async def lock_contenders(self, booking_id: int) -> Sequence[Booking]:
        rows = await self.connection.all(reading.LOCK_CONTENDERS, booking_id=booking_id)
        return [to_booking(row) for row in rows]

    async def save(self, change: Change) -> None:
        await self._save(change, is_new=False)

    async def add(self, change: Change) -> None:
        await self._save(change, is_new=True)

    async def _save(self, change: Change, is_new: bool) -> None:
        await save_step(self.connection, change, self.policy, is_new)
        if change.event is not None:
            self.hints.add(Hint.EVENTS)

    async def use_credit(self, credit: Credit, used_by: int) -> bool:
        used = {"cancelled": credit.booking_id, "user": used_by}
        return bool(await self.connection.run(USE_CREDIT, **used))

    async def keep_answer(self, answer: Answer) -> None:
        row = _to_answer(answer, self.policy)
        for statement in (DROP_EXPIRED, KEEP_ANSWER):
            await self.connection.run(statement, **needed(statement, self.connection, row))
