"""The store on PostgreSQL or SQLite, with admission and whatever else shares its database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from attrs import define, field, frozen
from sqlalchemy import bindparam, delete, make_url, or_, select, true

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.sql.accounts import rate_limits
from staffbooking_adapters.sql.accounts.admission import SqlAdmission
from staffbooking_adapters.sql.accounts.api_key_usage import KeyUses
from staffbooking_adapters.sql.accounts.rate_limits import windows_metadata
from staffbooking_adapters.sql.accounts.store import AccountsReader, AccountsWriter
from staffbooking_adapters.sql.bookings.ids import BookingNumbers
from staffbooking_adapters.sql.bookings.reader import BookingsReader
from staffbooking_adapters.sql.bookings.writer import BookingsWriter, save_step
from staffbooking_adapters.sql.bulk_import import ImportsReader, ImportsWriter, drop_imports
from staffbooking_adapters.sql.companions.portfolio import StaffReader, StaffWriter
from staffbooking_adapters.sql.companions.reader import CompanionsReader, CompanionsWriter
from staffbooking_adapters.sql.companions.reviews import ReviewsReader, ReviewsWriter
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.open import open_database, open_sqlite
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.hints import hints_of
from staffbooking_adapters.sql.messaging.presence import PresenceReader, PresenceWriter
from staffbooking_adapters.sql.messaging.reader import MessagesReader
from staffbooking_adapters.sql.messaging.writer import MessagesWriter
from staffbooking_adapters.sql.notifications.store import NoticesReader, NoticesWriter
from staffbooking_adapters.sql.payments.payees import PayeesReader, PayeesWriter
from staffbooking_adapters.sql.payments.reader import MoneyReader
from staffbooking_adapters.sql.payments.writer import MoneyWriter
from staffbooking_adapters.sql.privacy import PeopleReader, PeopleWriter
from staffbooking_adapters.sql.sandbox.clock import SandboxReader, SandboxWriter
from staffbooking_adapters.sql.schema.bookings import answers, sessions
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.schema.payments import processor_inbox
from staffbooking_adapters.sql.schema.webhooks import deliveries, is_done
from staffbooking_adapters.sql.webhooks.reader import WebhooksReader
from staffbooking_adapters.sql.webhooks.writer import WebhooksWriter
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Change, Hint, Reading, Writing

T = TypeVar("T")

END_SESSIONS = Statement(
    delete(sessions).where(
        or_(
            sessions.c.seen_at <= bindparam("idle_since", type_=Instant),
            sessions.c.created_at <= bindparam("old_since", type_=Instant),
        )
    )
)
DROP_ANSWERS = Statement(
    delete(answers).where(answers.c.expires_at <= bindparam("now", type_=Instant))
)
DROP_EVENTS = Statement(
    delete(processor_inbox).where(
        processor_inbox.c.done == true(),
        processor_inbox.c.received_at <= bindparam("old_since", type_=Instant),
    )
)
"""For so long a processor's event that is done is still known as a duplicate."""

BITE = 100
"""Deliveries that are deleted at a time, with their attempts."""

_OLD_DELIVERIES = (
    select(deliveries.c.id)
    .where(is_done, deliveries.c.next_at <= bindparam("old_since", type_=Instant))
    .order_by(deliveries.c.next_at, deliveries.c.id)
    .limit(BITE)
    .with_for_update(skip_locked=True)
    .cte("old")
)
DROP_DELIVERIES = Statement(
    delete(deliveries)
    .where(deliveries.c.id.in_(select(_OLD_DELIVERIES.c.id)))
    .returning(deliveries.c.id)
)


@frozen
class SqlReading:
    accounts: AccountsReader
    notices: NoticesReader
    people: PeopleReader
    companions: CompanionsReader
    bookings: BookingsReader
    money: MoneyReader
    payees: PayeesReader
    webhooks: WebhooksReader
    reviews: ReviewsReader
    messages: MessagesReader
    presence: PresenceReader
    staff: StaffReader
    imports: ImportsReader
    sandbox: SandboxReader


@frozen
class SqlWriting:
    accounts: AccountsWriter
    notices: NoticesWriter
    people: PeopleWriter
    companions: CompanionsWriter
    bookings: BookingsWriter
    money: MoneyWriter
    payees: PayeesWriter
    webhooks: WebhooksWriter
    reviews: ReviewsWriter
    messages: MessagesWriter
    presence: PresenceWriter
    staff: StaffWriter
    imports: ImportsWriter
    sandbox: SandboxWriter
    hints: set[Hint]
    """What it will be worth a hint for, once it is committed."""


@define
class SqlStore:
    """A Store in one database, of one event loop. The schema must be there (`schema`)."""

    database: Database
    admission: SqlAdmission
    policy: Policy
    hints: LocalHints
    _uses: Mapping[int, datetime]
    _numbers: BookingNumbers = field(factory=BookingNumbers)
    _view: SqlReading = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._view = SqlReading(
            AccountsReader(self.database, self._uses),
            NoticesReader(self.database),
            PeopleReader(self.database),
            CompanionsReader(self.database),
            BookingsReader(self.database, self._numbers),
            MoneyReader(self.database),
            PayeesReader(self.database),
            WebhooksReader(self.database),
            ReviewsReader(self.database),
            MessagesReader(self.database),
            PresenceReader(self.database),
            StaffReader(self.database),
            ImportsReader(self.database),
            SandboxReader(self.database),
        )

    def reading(self) -> AbstractAsyncContextManager[Reading]:
        return nullcontext(self._view)

    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        async def unit(connection: Connection) -> tuple[T, set[Hint]]:
            writing = self._writing(connection)
            return await work(writing), writing.hints

        result, hints = await self.database.write(unit)
        for hint in hints:
            self.hints.give(hint)
        return result

    def _writing(self, connection: Connection) -> SqlWriting:
        hints: set[Hint] = set()
        return SqlWriting(
            AccountsWriter(connection, self._uses, self.policy),
            NoticesWriter(connection),
            PeopleWriter(connection),
            CompanionsWriter(connection, self.policy),
            BookingsWriter(connection, self._numbers, self.policy, hints),
            MoneyWriter(connection),
            PayeesWriter(connection),
            WebhooksWriter(connection, hints),
            ReviewsWriter(connection),
            MessagesWriter(connection),
            PresenceWriter(connection),
            StaffWriter(connection),
            ImportsWriter(connection, self.policy),
            SandboxWriter(connection),
            hints,
        )

    async def add_booking(self, change: Change) -> None:
        if self.database.dialect == "postgresql" and not change.postings:
            await save_step(self.database, change, self.policy, is_new=True)
            if change.event is not None:
                self.hints.give(Hint.EVENTS)
        else:
            await self.write(lambda unit: unit.bookings.add(change))

    async def sweep(self, now: datetime, policy: Policy) -> int:
        idle, old = now - policy.session_idle, now - policy.session_lifetime
        ended = await self.database.run(END_SESSIONS, idle_since=idle, old_since=old)
        dropped = await self.database.run(DROP_ANSWERS, now=now)
        forgotten = await self.database.run(DROP_EVENTS, old_since=now - policy.events_kept)
        gone = await self._drop_deliveries(now - policy.webhook_kept_for)
        left = await drop_imports(self.database, now - policy.imports_kept)
        return ended + dropped + forgotten + gone + left + await self.admission.sweep(now)

    async def _drop_deliveries(self, old_since: datetime) -> int:
        gone = 0
        while bite := await self.database.all(DROP_DELIVERIES, old_since=old_since):
            gone += len(bite)
        return gone

    async def close(self) -> None:
        """Finish what is under way, and close every connection."""
        await self.hints.close()
        await self.admission.close()
        await self.admission.counter.close()
        await self.database.close()


async def open_store(url: str, policy: Policy) -> SqlStore:
    """Open the store of a database's address (`engine.open_database`)."""
    async with AsyncExitStack() as stack:
        database = await open_database(url, metadata)
        stack.push_async_callback(database.close)
        counter = await _open_counter(url)
        uses = KeyUses(database if database.dialect == "sqlite" else counter)
        admission = SqlAdmission(database, counter, policy, uses)
        stack.pop_all()
        return SqlStore(database, admission, policy, hints_of(counter), uses.unwritten)


async def _open_counter(url: str) -> Database:
    """Where windows are counted, by connections that don't wait for the disk."""
    address = make_url(url)
    if address.get_backend_name() == "postgresql":
        return await open_database(url, windows_metadata, pool_size=2, synchronous="OFF")
    path = Path(f"{address.database}-windows")
    counter = await open_sqlite(path, windows_metadata, synchronous="OFF")
    await counter.run(rate_limits.CREATE)
    return counter
