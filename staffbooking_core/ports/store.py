"""The store: the ports of every noun, bundled for queries and for transactions.

Reading and writing are different types, so that a query can't write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from attrs import frozen

from staffbooking_core.policy import Policy
from staffbooking_core.ports.accounts import AccountsReadPort, AccountsWritePort
from staffbooking_core.ports.alerts import AlertsReadPort, AlertsWritePort
from staffbooking_core.ports.audit import AuditReadPort, AuditWritePort
from staffbooking_core.ports.bookings import BookingsReadPort, BookingsWritePort, BookingWrite
from staffbooking_core.ports.calendar_subscriptions import (
    CalendarSubscriptionsReadPort,
    CalendarSubscriptionsWritePort,
)
from staffbooking_core.ports.companions import CompanionsReadPort, CompanionsWritePort
from staffbooking_core.ports.cursors import CursorsReadPort, CursorsWritePort
from staffbooking_core.ports.disputes import DisputesReadPort, DisputesWritePort
from staffbooking_core.ports.idempotency import IdempotencyReadPort, IdempotencyWritePort
from staffbooking_core.ports.imports import ImportsReadPort, ImportsWritePort
from staffbooking_core.ports.inbox import InboxWritePort
from staffbooking_core.ports.ledger import LedgerReadPort
from staffbooking_core.ports.messages import MessagesReadPort, MessagesWritePort
from staffbooking_core.ports.metrics import MetricsReadPort
from staffbooking_core.ports.notifications import NotificationsReadPort, NotificationsWritePort
from staffbooking_core.ports.operations import OperationsReadPort, OperationsWritePort
from staffbooking_core.ports.payees import PayeesReadPort, PayeesWritePort
from staffbooking_core.ports.personal_data import PersonalDataReadPort, PersonalDataWritePort
from staffbooking_core.ports.portfolio import PortfolioReadPort, PortfolioWritePort
from staffbooking_core.ports.presence import PresenceReadPort, PresenceWritePort
from staffbooking_core.ports.reconciliations import (
    ReconciliationsReadPort,
    ReconciliationsWritePort,
)
from staffbooking_core.ports.reviews import ReviewsReadPort, ReviewsWritePort
from staffbooking_core.ports.sandbox import SandboxReadPort, SandboxWritePort
from staffbooking_core.ports.saved import SavedReadPort, SavedWritePort
from staffbooking_core.ports.timers import TimersWritePort
from staffbooking_core.ports.webhooks import WebhooksReadPort, WebhooksWritePort

__all__ = ["OpenTransaction", "ReadView", "Store", "Transaction"]

T = TypeVar("T")


@frozen
class ReadView:
    """The ports of queries. Several reads in one view need not be of one moment."""

    accounts: AccountsReadPort
    audit: AuditReadPort
    companions: CompanionsReadPort
    reviews: ReviewsReadPort
    portfolio: PortfolioReadPort
    calendar_subscriptions: CalendarSubscriptionsReadPort
    imports: ImportsReadPort
    bookings: BookingsReadPort
    disputes: DisputesReadPort
    alerts: AlertsReadPort
    idempotency: IdempotencyReadPort
    operations: OperationsReadPort
    ledger: LedgerReadPort
    cursors: CursorsReadPort
    reconciliations: ReconciliationsReadPort
    payees: PayeesReadPort
    metrics: MetricsReadPort
    webhooks: WebhooksReadPort
    notifications: NotificationsReadPort
    messages: MessagesReadPort
    presence: PresenceReadPort
    personal_data: PersonalDataReadPort
    saved: SavedReadPort
    sandbox: SandboxReadPort


@frozen
class Transaction:
    """The ports of one transaction.

    Locks are taken in this order: users, bookings by id, companion, feed, webhook endpoints by id,
    deliveries by id, conversations by id, the ids of messages, all others.
    """

    accounts: AccountsWritePort
    audit: AuditWritePort
    companions: CompanionsWritePort
    reviews: ReviewsWritePort
    portfolio: PortfolioWritePort
    calendar_subscriptions: CalendarSubscriptionsWritePort
    imports: ImportsWritePort
    bookings: BookingsWritePort
    disputes: DisputesWritePort
    timers: TimersWritePort
    alerts: AlertsWritePort
    idempotency: IdempotencyWritePort
    operations: OperationsWritePort
    ledger: LedgerReadPort
    inbox: InboxWritePort
    cursors: CursorsWritePort
    reconciliations: ReconciliationsWritePort
    payees: PayeesWritePort
    webhooks: WebhooksWritePort
    notifications: NotificationsWritePort
    messages: MessagesWritePort
    presence: PresenceWritePort
    personal_data: PersonalDataWritePort
    saved: SavedWritePort
    sandbox: SandboxWritePort


@frozen
class OpenTransaction(Generic[T]):
    """A transaction whose unit of work has run, and which is not committed yet."""

    result: T
    """The result of the unit of work."""
    transaction: Transaction
    view: ReadView
    """Queries that see what the transaction has written."""


class Store(Protocol):
    """The store of one deployment. Every method may raise StoreUnavailable."""

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        """A view for queries, open as long as the context."""
        ...

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit of work in one transaction: committed when it returns, rolled back when it
        raises or is cancelled.

        The work is repeated a few times where transactions collide (`Conflict`, deadlocks): it
        must decide anew from what it reads, and have no effect outside the store. Raises what
        the work raises.
        """
        ...

    def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AbstractAsyncContextManager[OpenTransaction[T]]:
        """Run a unit of work as `run_transaction` does, but commit at the end of the context: what
        follows from its result can be saved with it. Rolled back where the context raises or is
        cancelled. Inside the context nothing may wait for other transactions or the network.
        """
        ...

    async def add_booking(self, booking_write: BookingWrite) -> None:
        """`Transaction.bookings.add_booking` as a transaction of its own, in one round trip."""
        ...

    async def check_writable(self, now: datetime) -> None:
        """Make one small change in a row of its own. `now` is wall time.

        Raises StoreUnavailable where the store takes no changes: it is out of reach, has no
        schema, is read-only or full.
        """
        ...

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        """Delete a batch of what has expired of each kind: sessions, stored responses, rate-limit
        windows, done processor events, done deliveries, inquiries, counts of key calls, told
        alerts, finished runs of the reconciliation, abandoned imports. Returns the number of rows,
        0 where nothing is left. `now` is wall time. An import of which only a part is deleted is
        at line 0 with all counts 0."""
        ...
