"""Operations, ledger, timers and the processor's inbox in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice

from attrs import evolve, frozen

from staffbooking_adapters.memory.slots import bookings_of
from staffbooking_adapters.memory.state import (
    NudgeRow,
    OperationRow,
    Place,
    State,
    TimerRow,
    is_holder,
    is_running,
)
from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus, PayoutStatus
from staffbooking_core.domain.payments.ledger import Account, Posting, balances
from staffbooking_core.domain.payments.processor import (
    Nudge,
    Operation,
    OpKind,
    OpStatus,
    Order,
    Refund,
    Settlement,
)
from staffbooking_core.domain.reconciliation.statement import CashBook
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import Audited, Backlog, Lease, Timer

POSTING_MADE = "uq_ledger_postings_key"
ORDER_TAKEN = "uq_operations_order"

OPEN_PAYOUTS = frozenset({PayoutStatus.SCHEDULED, PayoutStatus.FAILED, PayoutStatus.FROZEN})
UNPAID = frozenset({PayoutStatus.SCHEDULED, PayoutStatus.FAILED})
UNSETTLED = frozenset(
    {PaymentStatus.REQUIRES_PAYMENT, PaymentStatus.PROCESSING, PaymentStatus.REFUND_PENDING}
)


def add_posting(state: State, posting: Posting) -> None:
    """Append a posting; raises ConstraintViolated where its key was used."""
    if posting.key in state.postings:
        raise ConstraintViolated(POSTING_MADE)
    state.postings[posting.key] = posting
    others = state.postings_of.get(posting.booking_id) or ()
    state.postings_of[posting.booking_id] = (*others, posting.key)


def add_operation(place: Place, booking_id: int, order: Order, at: datetime) -> None:
    """Make an order an operation; raises ConstraintViolated where its number was used."""
    state = place.state
    others = _operations_of(state, booking_id)
    if any(row.operation.n == order.n for row in others):
        raise ConstraintViolated(ORDER_TAKEN)
    operation = Operation(
        id=next(place.shared.operation_ids),
        booking_id=booking_id,
        kind=order.kind,
        n=order.n,
        command=order.command,
        created_at=at,
        next_at=at,
    )
    row = OperationRow(operation)
    state.operations[operation.id] = row
    ordered = sorted((*others, row), key=lambda each: each.operation.n)
    state.operations_of[booking_id] = tuple(each.operation.id for each in ordered)


@frozen
class MoneyReader:
    place: Place

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        return [row.operation for row in _operations_of(self.place.state, booking_id)]

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        state = self.place.state
        return [state.postings[key] for key in state.postings_of.get(booking_id) or ()]

    async def audit(self, after_id: int, limit: int) -> Sequence[Audited]:
        return [
            Audited(
                booking,
                tuple(await self.postings_of(booking.id)),
                tuple(await self.operations_of(booking.id)),
            )
            for booking in self._bookings_after(after_id)[:limit]
        ]

    async def imbalance(self) -> int:
        postings = self.place.state.postings.values()
        return sum(leg.amount for posting in postings for leg in posting.legs)

    async def balance(self, account: Account) -> int:
        return balances(self.place.state.postings.values())[account]

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashBook]:
        state = self.place.state
        nudged = {row.nudge.intent_id for row in state.nudges.values() if not row.done}
        accepted = (each for each in self._bookings_after(after_id) if each.intent is not None)
        return [
            _cash_book(state, booking, is_nudged=booking.id in nudged)
            for booking in islice(accepted, limit)
        ]

    async def payouts(self, limit: int) -> Sequence[Booking]:
        bookings = self.place.state.bookings.values()
        found = [booking for booking in bookings if booking.payout_status in OPEN_PAYOUTS]
        return sorted(found, key=_payout_order)[:limit]

    async def failed_refunds(self, limit: int) -> Sequence[tuple[Booking, Operation]]:
        operations = [row.operation for row in self.place.state.operations.values()]
        replaced = {
            (each.booking_id, each.command.replaces)
            for each in operations
            if isinstance(each.command, Refund)
        }
        failed = [
            each
            for each in operations
            if _is_failed_refund(each) and (each.booking_id, each.n) not in replaced
        ]
        bookings = self.place.state.bookings
        failed.sort(key=lambda operation: operation.id)
        return [(bookings[each.booking_id], each) for each in failed[:limit]]

    async def debts_of(self, companion_id: int) -> Sequence[int]:
        return sorted(
            booking.id
            for booking in bookings_of(self.place.state, companion_id)
            if booking.owed_by_staff > 0
        )

    async def unsettled(self, after_id: int, limit: int) -> Sequence[Booking]:
        later = self._bookings_after(after_id)
        nudged = {row.nudge.intent_id for row in self.place.state.nudges.values() if not row.done}
        return [
            booking
            for booking in later
            if booking.payment_status in UNSETTLED and booking.id not in nudged
        ][:limit]

    def _bookings_after(self, after_id: int) -> list[Booking]:
        bookings = self.place.state.bookings
        return [bookings[number] for number in sorted(bookings) if number > after_id]

    async def cursor(self, provider: str) -> tuple[str, datetime] | None:
        return self.place.state.cursors.get(provider)

    async def pending(self, now: datetime) -> int:
        return sum(1 for _ in _due_work(self.place.state, now))

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        state, due = self.place.state, defaultdict[str, list[timedelta]](list)
        for kind, age in chain(_due_work(state, now), _due_payouts(state, now)):
            due[kind].append(age)
        return [
            Backlog(kind, len(ages), max(ages).total_seconds())
            for kind, ages in sorted(due.items())
        ]

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        alerts = self.place.state.alerts
        newest = sorted(alerts, key=lambda number: (alerts[number].at, number), reverse=True)
        rows = (alerts[number] for number in newest[:limit])
        return [(row.at, row.booking_id, row.text) for row in rows]


@frozen
class MoneyWriter(MoneyReader):
    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OpKind] = frozenset(OpKind),
    ) -> Sequence[Operation]:
        state = self.place.state
        heads = _heads(state, state.operations_of if booking_id is None else [booking_id], now)
        due = [
            head
            for head in heads
            if head.kind in kinds and (booking_id is not None or head.next_at <= now)
        ]
        due.sort(key=lambda operation: (operation.next_at, operation.id))
        for operation in due[:limit]:
            state.operations[operation.id] = OperationRow(operation, lease)
        return due[:limit]

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        row = self.place.state.operations.get(operation_id)
        if row is None or not is_holder(row.lease, lease):
            raise Conflict("operation")
        return row.operation

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        if lease is not None:
            await self.lock_operation(operation.id, lease)
        self.place.state.operations[operation.id] = OperationRow(operation, lease)

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        state = self.place.state
        waiting = [
            row
            for booking in bookings_of(state, companion_id)
            for row in _operations_of(state, booking.id)
            if row.operation.kind is OpKind.PAY_OUT
            and row.operation.status is OpStatus.PENDING
            and row.operation.next_at > now
        ]
        for row in waiting:
            woken = evolve(row, operation=evolve(row.operation, next_at=now))
            state.operations[row.operation.id] = woken
        return len(waiting)

    async def save_cursor(self, provider: str, cursor: str, now: datetime) -> None:
        self.place.state.cursors[provider] = (cursor, now)

    async def claim_timers(
        self, business: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        timers = self.place.state.timers
        due = [
            (row.due_at, number)
            for number, row in timers.items()
            if _is_due(row, business, now) and not is_running(row.lease, now)
        ]
        claimed = []
        for _, number in sorted(due)[:limit]:
            row = timers[number]
            row = timers[number] = evolve(row, lease=lease, attempts=row.attempts + 1)
            claimed.append(Timer(number, row.kind, row.due_at, row.attempts))
        return claimed

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        timers = self.place.state.timers
        row = timers.get(booking_id)
        if row is not None and is_holder(row.lease, lease):
            timers[booking_id] = evolve(row, lease=None, not_before=until)

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        alerts = self.place.state.alerts
        untold = [number for number in sorted(alerts) if not alerts[number].is_told][:limit]
        for number in untold:
            alerts[number] = evolve(alerts[number], is_told=True)
        return [(alerts[number].booking_id, alerts[number].text) for number in untold]

    async def add_nudge(self, provider: str, nudge: Nudge, now: datetime) -> bool:
        nudges, name = self.place.state.nudges, (provider, nudge.event_id)
        if name in nudges:
            return False
        nudges[name] = NudgeRow(nudge, received_at=now, next_at=now)
        return True

    async def claim_nudges(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, Nudge]]:
        nudges = self.place.state.nudges
        due = [
            name
            for name, row in nudges.items()
            if not row.done and row.next_at <= now and not is_running(row.lease, now)
        ]
        due.sort(key=lambda name: nudges[name].next_at)
        for name in due[:limit]:
            nudges[name] = evolve(nudges[name], lease=lease)
        return [(name[0], nudges[name].nudge) for name in due[:limit]]

    async def finish_nudge(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        nudges, name = self.place.state.nudges, (provider, event_id)
        row = nudges.get(name)
        if row is not None and is_holder(row.lease, lease):
            next_at = row.next_at if retry_at is None else retry_at
            nudges[name] = evolve(row, lease=None, next_at=next_at, done=retry_at is None)


def _operations_of(state: State, booking_id: int) -> list[OperationRow]:
    return [state.operations[number] for number in state.operations_of.get(booking_id) or ()]


def _heads(state: State, booking_ids: Iterable[int], now: datetime) -> Iterator[Operation]:
    """The one operation of each booking that may be claimed: the first unfinished one,
    while nobody is at work on any of the booking."""
    for booking_id in booking_ids:
        rows = _operations_of(state, booking_id)
        if not any(is_running(row.lease, now) for row in rows):
            yield from [row.operation for row in rows if not row.operation.is_finished][:1]


def _cash(postings: Iterable[Posting]) -> Iterator[tuple[str, int]]:
    """The postings' legs of the account `processor_balance`, each with its posting's key."""
    for posting in postings:
        for leg in posting.legs:
            if leg.account is Account.PROCESSOR_BALANCE:
                yield posting.key, leg.amount


def _cash_book(state: State, booking: Booking, is_nudged: bool) -> CashBook:
    operations = [row.operation for row in _operations_of(state, booking.id)]
    refs = {
        each.id: each.result_ref
        for each in operations
        if each.status is OpStatus.DONE and each.result_ref is not None
    }
    is_sent = any(not each.is_finished and each.first_sent_at is not None for each in operations)
    postings = [state.postings[key] for key in state.postings_of.get(booking.id) or ()]
    cash = tuple(_cash(postings))
    named = {key for key, _ in cash}
    changed_at = max((each.at for each in postings if each.key in named), default=None)
    return CashBook(booking.id, booking.code, cash, refs, is_sent or is_nudged, changed_at)


def _is_failed_refund(operation: Operation) -> bool:
    failed = operation.status in (OpStatus.REFUSED, OpStatus.DEAD)
    came_back = operation.settlement is Settlement.FAILED and operation.status is not OpStatus.VOID
    return operation.kind is OpKind.REFUND and (failed or came_back)


def _due_work(state: State, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """The kind of each thing that is due (`Backlog`), and for how long it has been."""
    business = now + state.clock_offset
    for operation in (row.operation for row in state.operations.values()):
        if not operation.is_finished and operation.next_at <= now:
            yield operation.kind, now - operation.next_at
    for timer in state.timers.values():
        if _is_due(timer, business, now):
            yield "timer", business - timer.due_at
    for nudge in state.nudges.values():
        if not nudge.done and nudge.next_at <= now:
            yield "event", now - nudge.next_at
    for payee in (row.payee for row in state.payees.values()):
        if payee.next_at is not None and payee.next_at <= now:
            yield "payee", now - payee.next_at


def _due_payouts(state: State, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Payouts not made yet that were due, or were released before that."""
    business = now + state.clock_offset
    for booking in state.bookings.values():
        if booking.payout_status in UNPAID:
            due_at = booking.payout_due_at
            is_due = due_at is not None and due_at <= business
            since = due_at if is_due else booking.payout_released_at
            if since is not None:
                yield "payout", business - since


def _is_due(row: TimerRow, business: datetime, now: datetime) -> bool:
    return row.due_at <= business and (row.not_before is None or row.not_before <= now)


def _payout_order(booking: Booking) -> tuple[bool, datetime, int]:
    """The earliest due first, those without a date last."""
    due_at = booking.payout_due_at
    return due_at is None, due_at or booking.created_at, booking.id
