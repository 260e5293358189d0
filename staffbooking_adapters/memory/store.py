"""The memory store: one writer at a time, on a fork of the state that readers share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from attrs import frozen

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.memory.accounts.admission import MemoryAdmission
from staffbooking_adapters.memory.accounts.store import AccountsReader, AccountsWriter
from staffbooking_adapters.memory.bookings.store import BookingsReader, BookingsWriter
from staffbooking_adapters.memory.bulk_import import ImportsReader, ImportsWriter, drop_imports
from staffbooking_adapters.memory.companions.portfolio import StaffReader, StaffWriter
from staffbooking_adapters.memory.companions.reviews import ReviewsReader, ReviewsWriter
from staffbooking_adapters.memory.companions.store import CompanionsReader, CompanionsWriter
from staffbooking_adapters.memory.messaging.presence import PresenceReader, PresenceWriter
from staffbooking_adapters.memory.messaging.store import MessagesReader, MessagesWriter
from staffbooking_adapters.memory.notifications.store import NoticesReader, NoticesWriter
from staffbooking_adapters.memory.payments.payees import PayeesReader, PayeesWriter
from staffbooking_adapters.memory.payments.store import MoneyReader, MoneyWriter
from staffbooking_adapters.memory.privacy import PeopleReader, PeopleWriter
from staffbooking_adapters.memory.state import Place, Shared, State
from staffbooking_adapters.memory.webhooks.store import (
    WebhooksReader,
    WebhooksWriter,
    drop_deliveries,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Change, Reading, Writing

T = TypeVar("T")

TRIES = 5
"""How often a unit of work may run until its Conflict is the caller's."""


@frozen
class SandboxReader:
    place: Place

    async def clock_offset(self) -> timedelta:
        return self.place.state.clock_offset


@frozen
class SandboxWriter(SandboxReader):
    async def lock_clock(self) -> timedelta:
        return self.place.state.clock_offset

    async def set_clock_offset(self, offset: timedelta) -> None:
        self.place.state.clock_offset = offset


@frozen
class MemoryReading:
    """What readers see: always the state that was committed last."""

    accounts: AccountsReader
    notices: NoticesReader
    people: PeopleReader
    companions: CompanionsReader
    bookings: BookingsReader
    money: MoneyReader
    payees: PayeesReader
    reviews: ReviewsReader
    webhooks: WebhooksReader
    messages: MessagesReader
    presence: PresenceReader
    staff: StaffReader
    imports: ImportsReader
    sandbox: SandboxReader


@frozen
class MemoryWriting:
    accounts: AccountsWriter
    notices: NoticesWriter
    people: PeopleWriter
    companions: CompanionsWriter
    bookings: BookingsWriter
    money: MoneyWriter
    payees: PayeesWriter
    reviews: ReviewsWriter
    webhooks: WebhooksWriter
    messages: MessagesWriter
    presence: PresenceWriter
    staff: StaffWriter
    imports: ImportsWriter
    sandbox: SandboxWriter


class MemoryStore:
    """A Store that lives in the process, on one event loop; `admission` shares its rows.

    References between rows (a session's user, a booking's companion) are taken on trust.
    """

    def __init__(self, policy: Policy) -> None:
        place = self._committed = Place(State(), Shared(), policy)
        self._writer = asyncio.Lock()
        self._reading = MemoryReading(
            AccountsReader(place),
            NoticesReader(place),
            PeopleReader(place),
            CompanionsReader(place),
            BookingsReader(place),
            MoneyReader(place),
            PayeesReader(place),
            ReviewsReader(place),
            WebhooksReader(place),
            MessagesReader(place),
            PresenceReader(place),
            StaffReader(place),
            ImportsReader(place),
            SandboxReader(place),
        )
        self.admission = MemoryAdmission(place)
        self.hints = LocalHints()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reading]:
        yield self._reading

    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        return await self._commit(lambda place: work(_writing(place)))

    async def add_booking(self, change: Change) -> None:
        await self.write(lambda unit: unit.bookings.add(change))

    async def sweep(self, now: datetime, policy: Policy) -> int:
        async def work(place: Place) -> int:
            return _sweep(place, now, policy)

        return await self._commit(work)

    async def _commit(self, work: Callable[[Place], Awaitable[T]]) -> T:
        for _ in range(TRIES - 1):
            try:
                return await self._try(work)
            except Conflict:
                continue
        return await self._try(work)

    async def _try(self, work: Callable[[Place], Awaitable[T]]) -> T:
        async with self._writer:
            committed = self._committed
            place = Place(committed.state.fork(), committed.shared, committed.policy)
            result = await work(place)
            committed.state = place.state
            for hint in place.hints:
                self.hints.give(hint)
            return result


def _writing(place: Place) -> MemoryWriting:
    return MemoryWriting(
        AccountsWriter(place),
        NoticesWriter(place),
        PeopleWriter(place),
        CompanionsWriter(place),
        BookingsWriter(place),
        MoneyWriter(place),
        PayeesWriter(place),
        ReviewsWriter(place),
        WebhooksWriter(place),
        MessagesWriter(place),
        PresenceWriter(place),
        StaffWriter(place),
        ImportsWriter(place),
        SandboxWriter(place),
    )


def _sweep(place: Place, now: datetime, policy: Policy) -> int:
    state, windows = place.state, place.shared.windows
    sessions = [
        session.digest
        for session in state.sessions.values()
        if session.seen_at + policy.session_idle <= now
        or session.created_at + policy.session_lifetime <= now
    ]
    answers = [name for name, answer in state.answers.items() if answer.expires_at <= now]
    done = [
        name
        for name, row in state.nudges.items()
        if row.done and row.received_at + policy.events_kept <= now
    ]
    ended = [scope for scope, window in windows.items() if window.resets_at <= now]
    for digest in sessions:
        state.sessions.discard(digest)
    for name in answers:
        state.answers.discard(name)
    for event in done:
        state.nudges.discard(event)
    for scope in ended:
        del windows[scope]
    dropped = drop_deliveries(state, now - policy.webhook_kept_for)
    dropped += drop_imports(state, now - policy.imports_kept)
    return len(sessions) + len(answers) + len(done) + len(ended) + dropped
