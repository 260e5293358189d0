"""Backlog figures of all pending work in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from attrs import frozen

from staffbooking_adapters.memory.bookings.timers import is_timer_due
from staffbooking_adapters.memory.payments.inbox import is_event_due
from staffbooking_adapters.memory.payments.operations import operation_rows_of
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.reconciliation.refunds import failed_refunds
from staffbooking_core.ports import MAX_COUNTED_WAITING, Backlog, Waiting, WaitingKind


@frozen
class MetricsReader:
    """Reads backlog figures."""

    tx: MemoryTransaction

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        state, due = self.tx.state, defaultdict[str, list[timedelta]](list)
        for kind, age in chain(
            _due_ages(state, now),
            _due_notification_ages(state, now),
            _due_payout_ages(state, now),
        ):
            due[kind].append(age)
        return [
            Backlog(kind, len(ages), max(ages).total_seconds())
            for kind, ages in sorted(due.items())
        ]

    async def waiting(self, now: datetime) -> Sequence[Waiting]:
        found = defaultdict[WaitingKind, list[datetime | None]](list)
        for kind, since in _waiting_since(self.tx.state, now):
            found[kind].append(since)
        return [
            Waiting(
                kind,
                min(len(found[kind]), MAX_COUNTED_WAITING),
                min(filter(None, found[kind]), default=None),
            )
            for kind in WaitingKind
            if kind in found
        ]


def _due_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """The kind (see `Backlog`) and the time since due of each due item."""
    business = now + state.clock_offset
    for operation in (row.operation for row in state.operations.values()):
        if operation.is_due(now):
            yield operation.kind, now - operation.next_at
    for timer in state.timers.values():
        if is_timer_due(timer, business, now):
            yield "timer", business - timer.due_at
    for row in state.processor_events.values():
        if is_event_due(row, now):
            yield "event", now - row.next_at
    for payee in (row.payee for row in state.payees.values()):
        if payee.next_at is not None and payee.is_due(now):
            yield "payee", now - payee.next_at


def _due_notification_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    for notice in state.notices.values():
        if notice.due_at <= now:
            yield "notification", now - notice.due_at


def _due_payout_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Payouts not made yet, with the time since they were due or released."""
    business = now + state.clock_offset
    for booking in state.bookings.values():
        if (since := booking.payout_due_since(business)) is not None:
            yield "payout", business - since


def _waiting_since(
    state: MemoryState, now: datetime
) -> Iterator[tuple[WaitingKind, datetime | None]]:
    """Each thing that waits for an operator: its kind and since when; `now` is business time."""
    for booking in state.bookings.values():
        operations = [row.operation for row in operation_rows_of(state, booking.id)]
        yield from _waiting_of_booking(booking, operations, now)
    for row in state.companions.values():
        if row.companion.approval is Approval.PENDING:
            yield WaitingKind.COMPANION, row.companion.member_since
    for item in state.portfolio.values():
        if item.status is PortfolioItemStatus.PENDING:
            yield WaitingKind.PORTFOLIO_ITEM, item.created_at
    for inquiry in state.inquiries.values():
        if inquiry.answered_at is None:
            yield WaitingKind.INQUIRY, inquiry.created_at
    for endpoint in (each.endpoint for each in state.endpoints.values()):
        if endpoint.deleted_at is None and endpoint.is_silent:
            yield WaitingKind.SILENT_ENDPOINT, endpoint.disabled_at


def _waiting_of_booking(
    booking: Booking, operations: Sequence[Operation], now: datetime
) -> Iterator[tuple[WaitingKind, datetime | None]]:
    respond_by = booking.dispute_respond_by
    if booking.status is BookingStatus.DISPUTED:
        yield WaitingKind.DISPUTE, booking.disputed_at
        if respond_by is not None and respond_by <= now:
            yield WaitingKind.OVERDUE_DISPUTE, respond_by
    elif booking.payout_status is PayoutStatus.FROZEN:
        yield WaitingKind.HELD_PAYOUT, booking.payout_due_at
    if booking.payout_status is PayoutStatus.FAILED:
        yield WaitingKind.FAILED_PAYOUT, booking.payout_due_at
    for refund in failed_refunds(operations):
        yield WaitingKind.FAILED_REFUND, refund.created_at
