"""Operations, ledger, timers and the processor's inbox in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice

from attrs import evolve, frozen

from staffbooking_adapters.memory.slots import bookings_of
from staffbooking_adapters.memory.state import (
    MemoryState,
    MemoryTransaction,
    OperationRow,
    ProcessorEventRow,
    TimerRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    UNSETTLED_PAYMENT_STATUSES,
    Booking,
)
from staffbooking_core.domain.payments.ledger import Account, Posting, account_balances
from staffbooking_core.domain.payments.processor import (
    Operation,
    OperationKind,
    OperationOrder,
    OperationStatus,
    ProcessorEvent,
)
from staffbooking_core.domain.reconciliation.refunds import failed_refunds
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import AuditedBooking, Backlog, Lease, Timer

POSTING_KEY_TAKEN = "uq_ledger_postings_key"
OPERATION_NUMBER_TAKEN = "uq_operations_order"


def add_posting(state: MemoryState, posting: Posting) -> None:
    """Append a posting; raises ConstraintViolated where its key was used."""
    if posting.key in state.postings:
        raise ConstraintViolated(POSTING_KEY_TAKEN)
    state.postings[posting.key] = posting
    others = state.postings_of.get(posting.booking_id) or ()
    state.postings_of[posting.booking_id] = (*others, posting.key)


def add_operation(
    tx: MemoryTransaction, booking_id: int, order: OperationOrder, at: datetime
) -> None:
    """Make an order an operation; raises ConstraintViolated where its number was used."""
    state = tx.state
    others = _operations_of(state, booking_id)
    if any(row.operation.n == order.n for row in others):
        raise ConstraintViolated(OPERATION_NUMBER_TAKEN)
    operation = Operation(
        id=next(tx.shared.operation_ids),
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
    tx: MemoryTransaction

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        return [row.operation for row in _operations_of(self.tx.state, booking_id)]

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        state = self.tx.state
        return [state.postings[key] for key in state.postings_of.get(booking_id) or ()]

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        return [
            AuditedBooking(
                booking,
                tuple(await self.postings_of(booking.id)),
                tuple(await self.operations_of(booking.id)),
            )
            for booking in self._bookings_after(after_id)[:limit]
        ]

    async def ledger_imbalance(self) -> int:
        postings = self.tx.state.postings.values()
        return sum(leg.amount for posting in postings for leg in posting.legs)

    async def account_balance(self, account: Account) -> int:
        return account_balances(self.tx.state.postings.values())[account]

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        state = self.tx.state
        nudged = {row.event.intent_id for row in state.processor_events.values() if not row.is_done}
        accepted = (each for each in self._bookings_after(after_id) if each.intent is not None)
        return [
            _cash_book(state, booking, has_pending_event=booking.id in nudged)
            for booking in islice(accepted, limit)
        ]

    async def payouts(self, limit: int) -> Sequence[Booking]:
        bookings = self.tx.state.bookings.values()
        found = [booking for booking in bookings if booking.payout_status in OPEN_PAYOUT_STATUSES]
        return sorted(found, key=_payout_sort_key)[:limit]

    async def failed_refunds(self, limit: int) -> Sequence[tuple[Booking, Operation]]:
        bookings = self.tx.state.bookings
        failed = [
            each for number in bookings for each in failed_refunds(await self.operations_of(number))
        ]
        failed.sort(key=lambda operation: operation.id)
        return [(bookings[each.booking_id], each) for each in failed[:limit]]

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        return sorted(
            booking.id
            for booking in bookings_of(self.tx.state, companion_id)
            if booking.has_staff_debt
        )

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        later = self._bookings_after(after_id)
        nudged = {
            row.event.intent_id
            for row in self.tx.state.processor_events.values()
            if not row.is_done
        }
        return [
            booking
            for booking in later
            if booking.payment_status in UNSETTLED_PAYMENT_STATUSES and booking.id not in nudged
        ][:limit]

    def _bookings_after(self, after_id: int) -> list[Booking]:
        bookings = self.tx.state.bookings
        return [bookings[number] for number in sorted(bookings) if number > after_id]

    async def event_cursor(self, provider: str) -> tuple[str, datetime] | None:
        return self.tx.state.cursors.get(provider)

    async def count_pending_work(self, now: datetime) -> int:
        return sum(1 for _ in _due_ages(self.tx.state, now))

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        state, due = self.tx.state, defaultdict[str, list[timedelta]](list)
        for kind, age in chain(_due_ages(state, now), _due_payout_ages(state, now)):
            due[kind].append(age)
        return [
            Backlog(kind, len(ages), max(ages).total_seconds())
            for kind, ages in sorted(due.items())
        ]

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        alerts = self.tx.state.alerts
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
        kinds: frozenset[OperationKind] = frozenset(OperationKind),
    ) -> Sequence[Operation]:
        state = self.tx.state
        heads = _claimable_operations(
            state, state.operations_of if booking_id is None else [booking_id], now
        )
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
        row = self.tx.state.operations.get(operation_id)
        if row is None or not holds_lease(row.lease, lease):
            raise Conflict("operation")
        return row.operation

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        if lease is not None:
            await self.lock_operation(operation.id, lease)
        self.tx.state.operations[operation.id] = OperationRow(operation, lease)

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        state = self.tx.state
        waiting = [
            row
            for booking in bookings_of(state, companion_id)
            for row in _operations_of(state, booking.id)
            if row.operation.is_delayed_payout(now)
        ]
        for row in waiting:
            woken = evolve(row, operation=evolve(row.operation, next_at=now))
            state.operations[row.operation.id] = woken
        return len(waiting)

    async def save_event_cursor(self, provider: str, cursor: str, now: datetime) -> None:
        self.tx.state.cursors[provider] = (cursor, now)

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        timers = self.tx.state.timers
        due = [
            (row.due_at, number)
            for number, row in timers.items()
            if _is_timer_due(row, business_now, now) and not is_lease_active(row.lease, now)
        ]
        claimed = []
        for _, number in sorted(due)[:limit]:
            row = timers[number]
            row = timers[number] = evolve(row, lease=lease, attempts=row.attempts + 1)
            claimed.append(Timer(number, row.kind, row.due_at, row.attempts))
        return claimed

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        timers = self.tx.state.timers
        row = timers.get(booking_id)
        if row is not None and holds_lease(row.lease, lease):
            timers[booking_id] = evolve(row, lease=None, not_before=until)

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        alerts = self.tx.state.alerts
        untold = [number for number in sorted(alerts) if not alerts[number].is_sent][:limit]
        for number in untold:
            alerts[number] = evolve(alerts[number], is_sent=True)
        return [(alerts[number].booking_id, alerts[number].text) for number in untold]

    async def add_processor_event(
        self, provider: str, event: ProcessorEvent, now: datetime
    ) -> bool:
        nudges, name = self.tx.state.processor_events, (provider, event.event_id)
        if name in nudges:
            return False
        nudges[name] = ProcessorEventRow(event, received_at=now, next_at=now)
        return True

    async def claim_processor_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        nudges = self.tx.state.processor_events
        due = [
            name
            for name, row in nudges.items()
            if _is_processor_event_due(row, now) and not is_lease_active(row.lease, now)
        ]
        due.sort(key=lambda name: nudges[name].next_at)
        for name in due[:limit]:
            nudges[name] = evolve(nudges[name], lease=lease)
        return [(name[0], nudges[name].event) for name in due[:limit]]

    async def finish_processor_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        nudges, name = self.tx.state.processor_events, (provider, event_id)
        row = nudges.get(name)
        if row is not None and holds_lease(row.lease, lease):
            next_at = row.next_at if retry_at is None else retry_at
            nudges[name] = evolve(row, lease=None, next_at=next_at, is_done=retry_at is None)


def _operations_of(state: MemoryState, booking_id: int) -> list[OperationRow]:
    return [state.operations[number] for number in state.operations_of.get(booking_id) or ()]


def _claimable_operations(
    state: MemoryState, booking_ids: Iterable[int], now: datetime
) -> Iterator[Operation]:
    """The one operation of each booking that may be claimed: the first unfinished one,
    while nobody is at work on any of the booking."""
    for booking_id in booking_ids:
        rows = _operations_of(state, booking_id)
        if not any(is_lease_active(row.lease, now) for row in rows):
            yield from [row.operation for row in rows if not row.operation.is_finished][:1]


def _processor_balance_legs(postings: Iterable[Posting]) -> Iterator[tuple[str, int]]:
    """The postings' legs of the account `processor_balance`, each with its posting's key."""
    for posting in postings:
        for leg in posting.legs:
            if leg.account is Account.PROCESSOR_BALANCE:
                yield posting.key, leg.amount


def _cash_book(state: MemoryState, booking: Booking, has_pending_event: bool) -> CashPostings:
    operations = [row.operation for row in _operations_of(state, booking.id)]
    refs = {
        each.id: each.result_ref
        for each in operations
        if each.status is OperationStatus.DONE and each.result_ref is not None
    }
    is_in_flight = has_pending_event or any(each.is_in_flight for each in operations)
    postings = [state.postings[key] for key in state.postings_of.get(booking.id) or ()]
    cash = tuple(_processor_balance_legs(postings))
    named = {key for key, _ in cash}
    changed_at = max((each.at for each in postings if each.key in named), default=None)
    return CashPostings(booking.id, booking.code, cash, refs, is_in_flight, changed_at)


def _due_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """The kind of each thing that is due (`Backlog`), and for how long it has been."""
    business = now + state.clock_offset
    for operation in (row.operation for row in state.operations.values()):
        if operation.is_due(now):
            yield operation.kind, now - operation.next_at
    for timer in state.timers.values():
        if _is_timer_due(timer, business, now):
            yield "timer", business - timer.due_at
    for nudge in state.processor_events.values():
        if _is_processor_event_due(nudge, now):
            yield "event", now - nudge.next_at
    for payee in (row.payee for row in state.payees.values()):
        if payee.next_at is not None and payee.is_due(now):
            yield "payee", now - payee.next_at


def _due_payout_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Payouts not made yet that were due, or were released before that."""
    business = now + state.clock_offset
    for booking in state.bookings.values():
        if (since := booking.payout_due_since(business)) is not None:
            yield "payout", business - since


def _is_timer_due(row: TimerRow, business: datetime, now: datetime) -> bool:
    return row.due_at <= business and (row.not_before is None or row.not_before <= now)


def _is_processor_event_due(row: ProcessorEventRow, now: datetime) -> bool:
    return not row.is_done and row.next_at <= now


def _payout_sort_key(booking: Booking) -> tuple[bool, datetime, int]:
    """The earliest due first, those without a date last."""
    due_at = booking.payout_due_at
    return due_at is None, due_at or booking.created_at, booking.id
