"""The store on PostgreSQL or SQLite, with admission and everything else in its database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from attrs import define, field
from sqlalchemy import bindparam, make_url

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.sql.accounts import rate_limits
from staffbooking_adapters.sql.accounts.admission import SqlAdmission
from staffbooking_adapters.sql.accounts.api_key_usage import (
    ApiKeyUsageRecorder,
    UnwrittenUsage,
)
from staffbooking_adapters.sql.accounts.audit import AuditReader, AuditWriter
from staffbooking_adapters.sql.accounts.rate_limits import rate_windows_metadata
from staffbooking_adapters.sql.accounts.store import AccountsReader, AccountsWriter
from staffbooking_adapters.sql.bookings.alerts import AlertsReader, AlertsWriter
from staffbooking_adapters.sql.bookings.disputes import DisputesReader, DisputesWriter
from staffbooking_adapters.sql.bookings.ids import BookingIdAllocator
from staffbooking_adapters.sql.bookings.reader import BookingsReader
from staffbooking_adapters.sql.bookings.timers import TimersWriter
from staffbooking_adapters.sql.bookings.writer import BookingsWriter, save_booking_write
from staffbooking_adapters.sql.bulk_import import ImportsReader, ImportsWriter
from staffbooking_adapters.sql.companions.calendar_subscriptions import (
    CalendarSubscriptionsReader,
    CalendarSubscriptionsWriter,
)
from staffbooking_adapters.sql.companions.portfolio import PortfolioReader, PortfolioWriter
from staffbooking_adapters.sql.companions.reader import CompanionsReader
from staffbooking_adapters.sql.companions.reviews import ReviewsReader, ReviewsWriter
from staffbooking_adapters.sql.companions.saved import SavedReader, SavedWriter
from staffbooking_adapters.sql.companions.writer import CompanionsWriter
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.open import open_database, open_sqlite
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.hints import create_hints
from staffbooking_adapters.sql.idempotency import IdempotencyReader, IdempotencyWriter
from staffbooking_adapters.sql.messaging.presence import PresenceReader, PresenceWriter
from staffbooking_adapters.sql.messaging.reader import MessagesReader
from staffbooking_adapters.sql.messaging.writer import MessagesWriter
from staffbooking_adapters.sql.metrics import MetricsReader
from staffbooking_adapters.sql.notifications.store import NotificationsReader, NotificationsWriter
from staffbooking_adapters.sql.payments.cursors import CursorsReader, CursorsWriter
from staffbooking_adapters.sql.payments.inbox import InboxWriter
from staffbooking_adapters.sql.payments.ledger import LedgerReader
from staffbooking_adapters.sql.payments.operations import OperationsReader, OperationsWriter
from staffbooking_adapters.sql.payments.payees import PayeesReader, PayeesWriter
from staffbooking_adapters.sql.payments.reconciliations import (
    ReconciliationsReader,
    ReconciliationsWriter,
)
from staffbooking_adapters.sql.privacy import PersonalDataReader, PersonalDataWriter
from staffbooking_adapters.sql.pruning import prune
from staffbooking_adapters.sql.sandbox.store import SandboxReader, SandboxWriter
from staffbooking_adapters.sql.schema.bookings import counters
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.schema.upgrade import HAS_VERSION_TABLE
from staffbooking_adapters.sql.webhooks.reader import WebhooksReader
from staffbooking_adapters.sql.webhooks.writer import WebhooksWriter
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.policy import Policy
from staffbooking_core.ports import BookingWrite, Hint, OpenTransaction, ReadView, Transaction

T = TypeVar("T")

_READINESS_ROW = {"name": "readiness", "value": bindparam("second", type_=BigInt)}
SAVE_READINESS = Statement(
    upsert(counters)
    .values(_READINESS_ROW)
    .on_conflict_do_update(
        index_elements=["name"], set_={"value": bindparam("second", type_=BigInt)}
    )
)
"""Writes the row of readiness checks: the Unix time of the newest one."""


@define
class SqlStore:
    """A store in one database, for one event loop. The schema must be up to date
    (`schema.upgrade`)."""

    database: Database
    admission: SqlAdmission
    policy: Policy
    hints: LocalHints
    _unwritten_usage: UnwrittenUsage
    _booking_ids: BookingIdAllocator = field(factory=BookingIdAllocator)
    _read_view: ReadView = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._read_view = self._view_of(self.database)

    def _view_of(self, connection: Connection) -> ReadView:
        return ReadView(
            accounts=AccountsReader(connection, self._unwritten_usage),
            audit=AuditReader(connection),
            companions=CompanionsReader(connection),
            reviews=ReviewsReader(connection),
            portfolio=PortfolioReader(connection),
            calendar_subscriptions=CalendarSubscriptionsReader(connection),
            imports=ImportsReader(connection),
            bookings=BookingsReader(connection, self._booking_ids),
            disputes=DisputesReader(connection),
            alerts=AlertsReader(connection),
            idempotency=IdempotencyReader(connection),
            operations=OperationsReader(connection),
            ledger=LedgerReader(connection),
            cursors=CursorsReader(connection),
            reconciliations=ReconciliationsReader(connection),
            payees=PayeesReader(connection),
            metrics=MetricsReader(connection),
            webhooks=WebhooksReader(connection),
            notifications=NotificationsReader(connection),
            messages=MessagesReader(connection),
            presence=PresenceReader(connection),
            personal_data=PersonalDataReader(connection),
            saved=SavedReader(connection),
            sandbox=SandboxReader(connection),
        )

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return nullcontext(self._read_view)

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def run_in_transaction(connection: Connection) -> tuple[T, set[Hint]]:
            hints: set[Hint] = set()
            return await work(self._begin_transaction(connection, hints)), hints

        result, hints = await self.database.run_transaction(run_in_transaction)
        for hint in hints:
            self.hints.give(hint)
        return result

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        hints: set[Hint] = set()

        async def run_in_transaction(connection: Connection) -> OpenTransaction[T]:
            hints.clear()
            transaction = self._begin_transaction(connection, hints)
            return OpenTransaction(await work(transaction), transaction, self._view_of(connection))

        async with self.database.open_transaction(run_in_transaction) as (opened, _):
            yield opened
        for hint in hints:
            self.hints.give(hint)

    def _begin_transaction(self, connection: Connection, hints: set[Hint]) -> Transaction:
        """The ports of a transaction; `hints` collects the hints to give after its commit."""
        return Transaction(
            accounts=AccountsWriter(connection, self._unwritten_usage, self.policy),
            audit=AuditWriter(connection),
            companions=CompanionsWriter(connection, self.policy),
            reviews=ReviewsWriter(connection),
            portfolio=PortfolioWriter(connection),
            calendar_subscriptions=CalendarSubscriptionsWriter(connection),
            imports=ImportsWriter(connection, self.policy),
            bookings=BookingsWriter(connection, self._booking_ids, self.policy, hints),
            disputes=DisputesWriter(connection),
            timers=TimersWriter(connection),
            alerts=AlertsWriter(connection),
            idempotency=IdempotencyWriter(connection, self.policy),
            operations=OperationsWriter(connection),
            ledger=LedgerReader(connection),
            inbox=InboxWriter(connection),
            cursors=CursorsWriter(connection),
            reconciliations=ReconciliationsWriter(connection),
            payees=PayeesWriter(connection),
            webhooks=WebhooksWriter(connection, hints),
            notifications=NotificationsWriter(connection),
            messages=MessagesWriter(connection),
            presence=PresenceWriter(connection),
            personal_data=PersonalDataWriter(connection),
            saved=SavedWriter(connection),
            sandbox=SandboxWriter(connection),
        )

    async def add_booking(self, booking_write: BookingWrite) -> None:
        if self.database.dialect == "postgresql" and not booking_write.postings:
            await save_booking_write(self.database, booking_write, self.policy, is_new=True)
            if booking_write.event is not None:
                self.hints.give(Hint.EVENTS)
        else:
            await self.run_transaction(lambda unit: unit.bookings.add_booking(booking_write))

    async def check_writable(self, now: datetime) -> None:
        if not await self.database.fetch_value(HAS_VERSION_TABLE):
            raise StoreUnavailable("the database has no schema yet")
        await self.database.execute(SAVE_READINESS, second=int(now.timestamp()))

    def filling(self) -> AbstractAsyncContextManager[None]:
        """As `Database.filling`."""
        return self.database.filling()

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        return await prune(self.database, self.admission.counter_database, now, policy)

    async def close(self) -> None:
        """Finish what is running, and close every connection, also after an error."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.database.close)
            stack.push_async_callback(self.admission.counter_database.close)
            stack.push_async_callback(self.admission.close)
            stack.push_async_callback(self.hints.close)


async def open_store(url: str, policy: Policy) -> SqlStore:
    """Open the store at a database URL (`engine.open.open_database`)."""
    async with AsyncExitStack() as stack:
        database = await open_database(url, metadata)
        stack.push_async_callback(database.close)
        counter_database = await open_counter_database(url)
        stack.pop_all()
        return make_store(database, counter_database, policy)


def make_store(database: Database, counter_database: Database, policy: Policy) -> SqlStore:
    """The store on open databases, which its `close` closes."""
    key_usage = ApiKeyUsageRecorder(database if database.dialect == "sqlite" else counter_database)
    admission = SqlAdmission(database, counter_database, policy, key_usage)
    hints = create_hints(counter_database)
    return SqlStore(database, admission, policy, hints, key_usage.unwritten)


async def open_counter_database(url: str) -> Database:
    """The database of rate windows; its commits do not wait for the disk."""
    address = make_url(url)
    if address.get_backend_name() == "postgresql":
        return await open_database(url, rate_windows_metadata, pool_size=2, synchronous="OFF")
    path = Path(f"{address.database}-windows")
    async with AsyncExitStack() as stack:
        counter_database = await open_sqlite(path, rate_windows_metadata, synchronous="OFF")
        stack.push_async_callback(counter_database.close)
        for statement in rate_limits.CREATE_RATE_WINDOWS:
            await counter_database.execute(statement)
        stack.pop_all()
    return counter_database
