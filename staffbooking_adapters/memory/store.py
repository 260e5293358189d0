"""The memory store: one writer at a time on a fork; readers share the committed state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from datetime import datetime
from typing import TypeVar

from attrs import evolve

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.memory.accounts.admission import MemoryAdmission
from staffbooking_adapters.memory.accounts.audit import AuditReader, AuditWriter
from staffbooking_adapters.memory.accounts.store import AccountsReader, AccountsWriter
from staffbooking_adapters.memory.bookings.alerts import AlertsReader, AlertsWriter
from staffbooking_adapters.memory.bookings.disputes import DisputesReader, DisputesWriter
from staffbooking_adapters.memory.bookings.store import BookingsReader, BookingsWriter
from staffbooking_adapters.memory.bookings.timers import TimersWriter
from staffbooking_adapters.memory.bulk_import import ImportsReader, ImportsWriter, drop_imports
from staffbooking_adapters.memory.companions.calendar_subscriptions import (
    CalendarSubscriptionsReader,
    CalendarSubscriptionsWriter,
)
from staffbooking_adapters.memory.companions.portfolio import PortfolioReader, PortfolioWriter
from staffbooking_adapters.memory.companions.reviews import ReviewsReader, ReviewsWriter
from staffbooking_adapters.memory.companions.saved import SavedReader, SavedWriter
from staffbooking_adapters.memory.companions.store import CompanionsReader, CompanionsWriter
from staffbooking_adapters.memory.idempotency import IdempotencyReader, IdempotencyWriter
from staffbooking_adapters.memory.messaging.presence import PresenceReader, PresenceWriter
from staffbooking_adapters.memory.messaging.store import MessagesReader, MessagesWriter
from staffbooking_adapters.memory.metrics import MetricsReader
from staffbooking_adapters.memory.notifications.store import (
    NotificationsReader,
    NotificationsWriter,
)
from staffbooking_adapters.memory.payments.cursors import CursorsReader, CursorsWriter
from staffbooking_adapters.memory.payments.inbox import InboxWriter
from staffbooking_adapters.memory.payments.ledger import LedgerReader
from staffbooking_adapters.memory.payments.operations import OperationsReader, OperationsWriter
from staffbooking_adapters.memory.payments.payees import PayeesReader, PayeesWriter
from staffbooking_adapters.memory.payments.reconciliations import (
    ReconciliationsReader,
    ReconciliationsWriter,
)
from staffbooking_adapters.memory.privacy import PersonalDataReader, PersonalDataWriter
from staffbooking_adapters.memory.sandbox.store import SandboxReader, SandboxWriter
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction, SharedState
from staffbooking_adapters.memory.webhooks.store import (
    WebhooksReader,
    WebhooksWriter,
    drop_deliveries,
)
from staffbooking_core.domain.accounts.users import is_session_expired
from staffbooking_core.errors import Conflict
from staffbooking_core.policy import Policy
from staffbooking_core.ports import BookingWrite, Hint, OpenTransaction, ReadView, Transaction

T = TypeVar("T")

MAX_WRITE_ATTEMPTS = 5
"""How often a transaction runs before its Conflict is raised to the caller."""


class MemoryStore:
    """A Store for one process and one event loop; `admission` shares its rows.

    References between rows (a session's user, a booking's companion) are not checked.
    """

    def __init__(self, policy: Policy) -> None:
        self._committed = MemoryTransaction(MemoryState(), SharedState(), policy)
        self._read_view = _view_of(self._committed)
        self._write_lock = asyncio.Lock()
        self._writing = evolve(self._committed)
        """The state of the one transaction that holds the lock."""
        self._transaction = _transaction_of(self._writing)
        self._transaction_view = _view_of(self._writing)
        self.admission = MemoryAdmission(self._committed)
        self.hints = LocalHints()

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return nullcontext(self._read_view)

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def attempt() -> T:
            async with self._begin():
                return await work(self._transaction)

        return await _run_with_retries(attempt)

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        async with AsyncExitStack() as stack:

            async def attempt() -> OpenTransaction[T]:
                async with AsyncExitStack() as attempt_stack:
                    await attempt_stack.enter_async_context(self._begin())
                    result = await work(self._transaction)
                    stack.push_async_exit(attempt_stack.pop_all())
                return OpenTransaction(result, self._transaction, self._transaction_view)

            yield await _run_with_retries(attempt)

    async def add_booking(self, booking_write: BookingWrite) -> None:
        await self.run_transaction(lambda unit: unit.bookings.add_booking(booking_write))

    async def check_writable(self, now: datetime) -> None:
        """Nothing to check: memory takes every change."""

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        async def work(_: Transaction) -> int:
            return _sweep_expired(self._writing, now, policy)

        return await self.run_transaction(work)

    def _begin(self) -> _Attempt:
        return _Attempt(self._write_lock, self._committed, self._writing, self.hints)


class _Attempt:
    """One attempt of a transaction: committed at the end of the context, unless it raises."""

    def __init__(
        self,
        lock: asyncio.Lock,
        committed: MemoryTransaction,
        writing: MemoryTransaction,
        hints: LocalHints,
    ) -> None:
        self._lock, self._committed, self._writing, self._hints = lock, committed, writing, hints

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._fork = self._writing.state = self._committed.state.fork()
        self._given: set[Hint] = set()
        self._writing.hints = self._given

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._fork.commit()
                for hint in self._given:
                    self._hints.give(hint)
        finally:
            self._lock.release()


async def _run_with_retries(attempt: Callable[[], Awaitable[T]]) -> T:
    for _ in range(MAX_WRITE_ATTEMPTS - 1):
        try:
            return await attempt()
        except Conflict:
            continue
    return await attempt()


def _view_of(tx: MemoryTransaction) -> ReadView:
    return ReadView(
        accounts=AccountsReader(tx),
        audit=AuditReader(tx),
        companions=CompanionsReader(tx),
        reviews=ReviewsReader(tx),
        portfolio=PortfolioReader(tx),
        calendar_subscriptions=CalendarSubscriptionsReader(tx),
        imports=ImportsReader(tx),
        bookings=BookingsReader(tx),
        disputes=DisputesReader(tx),
        alerts=AlertsReader(tx),
        idempotency=IdempotencyReader(tx),
        operations=OperationsReader(tx),
        ledger=LedgerReader(tx),
        cursors=CursorsReader(tx),
        reconciliations=ReconciliationsReader(tx),
        payees=PayeesReader(tx),
        metrics=MetricsReader(tx),
        webhooks=WebhooksReader(tx),
        notifications=NotificationsReader(tx),
        messages=MessagesReader(tx),
        presence=PresenceReader(tx),
        personal_data=PersonalDataReader(tx),
        saved=SavedReader(tx),
        sandbox=SandboxReader(tx),
    )


def _transaction_of(tx: MemoryTransaction) -> Transaction:
    return Transaction(
        accounts=AccountsWriter(tx),
        audit=AuditWriter(tx),
        companions=CompanionsWriter(tx),
        reviews=ReviewsWriter(tx),
        portfolio=PortfolioWriter(tx),
        calendar_subscriptions=CalendarSubscriptionsWriter(tx),
        imports=ImportsWriter(tx),
        bookings=BookingsWriter(tx),
        disputes=DisputesWriter(tx),
        timers=TimersWriter(tx),
        alerts=AlertsWriter(tx),
        idempotency=IdempotencyWriter(tx),
        operations=OperationsWriter(tx),
        ledger=LedgerReader(tx),
        inbox=InboxWriter(tx),
        cursors=CursorsWriter(tx),
        reconciliations=ReconciliationsWriter(tx),
        payees=PayeesWriter(tx),
        webhooks=WebhooksWriter(tx),
        notifications=NotificationsWriter(tx),
        messages=MessagesWriter(tx),
        presence=PresenceWriter(tx),
        personal_data=PersonalDataWriter(tx),
        saved=SavedWriter(tx),
        sandbox=SandboxWriter(tx),
    )


def _sweep_expired(tx: MemoryTransaction, now: datetime, policy: Policy) -> int:
    state, windows = tx.state, tx.shared.rate_limit_windows
    sessions = [
        session.digest
        for session in state.sessions.values()
        if is_session_expired(
            session, now, idle_timeout=policy.session_idle, lifetime=policy.session_lifetime
        )
    ]
    answers = [
        name for name, row in state.stored_responses.items() if row.response.expires_at <= now
    ]
    done = [
        name
        for name, row in state.processor_events.items()
        if row.is_done and row.received_at + policy.processor_event_retention <= now
    ]
    ended = [scope for scope, window in windows.items() if window.resets_at <= now]
    for digest in sessions:
        state.sessions.discard(digest)
    for name in answers:
        state.stored_responses.discard(name)
    for event in done:
        state.processor_events.discard(event)
    for scope in ended:
        del windows[scope]
    dropped = drop_deliveries(state, now - policy.webhook_delivery_retention)
    dropped += _drop_inquiries(state, now - policy.inquiry_retention)
    dropped += _drop_key_calls(tx, now - policy.key_calls_retention)
    dropped += drop_imports(state, now - policy.import_retention)
    dropped += _drop_alerts(state, now - policy.alert_retention)
    dropped += _drop_reconciliations(state, now - policy.reconciliation_retention)
    return len(sessions) + len(answers) + len(done) + len(ended) + dropped


def _drop_inquiries(state: MemoryState, older_than: datetime) -> int:
    old = [
        each.id
        for each in state.inquiries.values()
        if max(each.created_at, each.answered_at or each.created_at) <= older_than
    ]
    for inquiry_id in old:
        state.inquiries.discard(inquiry_id)
    return len(old)


def _drop_alerts(state: MemoryState, older_than: datetime) -> int:
    old = [
        alert_id
        for alert_id, row in state.alerts.items()
        if row.is_sent and row.alert.at <= older_than
    ]
    for alert_id in old:
        state.alerts.discard(alert_id)
    return len(old)


def _drop_reconciliations(state: MemoryState, older_than: datetime) -> int:
    old = [
        run_id
        for run_id, row in state.reconciliations.items()
        if row.run.finished_at is not None and row.run.finished_at <= older_than
    ]
    for run_id in old:
        state.reconciliations.discard(run_id)
    return len(old)


def _drop_key_calls(tx: MemoryTransaction, older_than: datetime) -> int:
    old = [key_and_hour for key_and_hour in tx.shared.key_calls if key_and_hour[1] <= older_than]
    for key_and_hour in old:
        del tx.shared.key_calls[key_and_hour]
    return len(old)
