"""Backlog figures of all pending work in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from attrs import frozen

from staffbooking_adapters.memory.bookings.timers import is_timer_due
from staffbooking_adapters.memory.payments.inbox import is_event_due
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.ports import Backlog


@frozen
class MetricsReader:
    """Reads backlog figures."""

    tx: MemoryTransaction

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        state, due = self.tx.state, defaultdict[str, list[timedelta]](list)
        for kind, age in chain(_due_ages(state, now), _due_payout_ages(state, now)):
            due[kind].append(age)
        return [
            Backlog(kind, len(ages), max(ages).total_seconds())
            for kind, ages in sorted(due.items())
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


def _due_payout_ages(state: MemoryState, now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Payouts not made yet, with the time since they were due or released."""
    business = now + state.clock_offset
    for booking in state.bookings.values():
        if (since := booking.payout_due_since(business)) is not None:
            yield "payout", business - since
