"""Operations, ledger, timers and the processor's inbox in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import (
    NudgeRow,
    OperationRow,
    Place,
    State,
    TimerRow,
    is_running,
)
from staffbooking_core.domain.bookings import Booking, PayoutStatus
from staffbooking_core.domain.ledger import Posting
from staffbooking_core.domain.payments import Nudge, Operation, Order
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import Audited, Lease, Timer

POSTING_MADE = "uq_ledger_postings_key"
ORDER_TAKEN = "uq_operations_order"

OPEN_PAYOUTS = frozenset({PayoutStatus.SCHEDULED, PayoutStatus.FAILED, PayoutStatus.FROZEN})


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
        bookings = self.place.state.bookings
        numbers = [number for number in sorted(bookings) if number > after_id][:limit]
        return [
            Audited(
                bookings[number],
                tuple(await self.postings_of(number)),
                tuple(await self.operations_of(number)),
            )
            for number in numbers
        ]

    async def imbalance(self) -> int:
        postings = self.place.state.postings.values()
        return sum(leg.amount for posting in postings for leg in posting.legs)

    async def payouts(self, limit: int) -> Sequence[Booking]:
        bookings = self.place.state.bookings.values()
        found = [booking for booking in bookings if booking.payout_status in OPEN_PAYOUTS]
        return sorted(found, key=_payout_order)[:limit]

    async def pending(self, now: datetime) -> int:
        state = self.place.state
        operations = (row.operation for row in state.operations.values())
        return (
            sum(not each.is_finished and each.next_at <= now for each in operations)
            + sum(_is_due(row, now + state.clock_offset, now) for row in state.timers.values())
            + sum(not row.done and row.next_at <= now for row in state.nudges.values())
        )

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        alerts = self.place.state.alerts
        newest = sorted(alerts, key=lambda number: (alerts[number].at, number), reverse=True)
        rows = (alerts[number] for number in newest[:limit])
        return [(row.at, row.booking_id, row.text) for row in rows]


@frozen
class MoneyWriter(MoneyReader):
    async def claim_operations(
        self, now: datetime, lease: Lease, limit: int, booking_id: int | None = None
    ) -> Sequence[Operation]:
        state = self.place.state
        heads = _heads(state, state.operations_of if booking_id is None else [booking_id], now)
        due = [each for each in heads if booking_id is not None or each.next_at <= now]
        due.sort(key=lambda operation: (operation.next_at, operation.id))
        for operation in due[:limit]:
            state.operations[operation.id] = OperationRow(operation, lease)
        return due[:limit]

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        row = self.place.state.operations.get(operation_id)
        if row is None or not _holds(row.lease, lease):
            raise Conflict("operation")
        return row.operation

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        if lease is not None:
            await self.lock_operation(operation.id, lease)
        self.place.state.operations[operation.id] = OperationRow(operation, lease)

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
        if row is not None and _holds(row.lease, lease):
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
        due.sort(key=lambda name: nudges[name].received_at)
        for name in due[:limit]:
            nudges[name] = evolve(nudges[name], lease=lease)
        return [(name[0], nudges[name].nudge) for name in due[:limit]]

    async def finish_nudge(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        nudges, name = self.place.state.nudges, (provider, event_id)
        row = nudges.get(name)
        if row is not None and _holds(row.lease, lease):
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


def _holds(kept: Lease | None, shown: Lease) -> bool:
    """Whether a claim is still the holder's: one that ran out is, until another claims."""
    return kept is not None and kept.token == shown.token


def _is_due(row: TimerRow, business: datetime, now: datetime) -> bool:
    return row.due_at <= business and (row.not_before is None or row.not_before <= now)


def _payout_order(booking: Booking) -> tuple[bool, datetime, int]:
    """The earliest due first, those without a date last."""
    due_at = booking.payout_due_at
    return due_at is None, due_at or booking.created_at, booking.id
