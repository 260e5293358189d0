"""The ports of one simulated process, with faults and delays before the shared adapters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

from attrs import define, evolve, field, fields, frozen

from staffbooking_adapters.guarded_store import GuardedStore
from staffbooking_adapters.memory.doubles import SeededIds
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import (
    Admission,
    BookingWrite,
    Email,
    Hint,
    Hints,
    Notifier,
    OpenTransaction,
    Ports,
    ReadView,
    Store,
    Subscriber,
    Transaction,
    WebhookSender,
)
from staffbooking_core.representations.channel import Broadcast
from tests.simulation.plan import Fault
from tests.simulation.processes import Process
from tests.simulation.promises import MAX_CLOCK_SKEW
from tests.simulation.stores import AnyStore
from tests.simulation.world import World

T = TypeVar("T")


READ_SECONDS = (0.0, 0.0, 0.0, 0.1)
"""Seconds from the end of a read until the process has its result. Others may write meanwhile."""


ANSWER_SECONDS = (0.0, 0.0, 0.0, 0.0, 0.2, 3.0)
"""Seconds from the effect of a call of the processor until the process has its response. A state in
the response may be outdated by then."""


MAX_REQUEST_AGE = timedelta(minutes=1)
"""Requests that time jumps keep longer than this from the processor never reach it."""


def _store_fails() -> NoReturn:
    raise StoreUnavailable("simulated")


def _mail_fails() -> NoReturn:
    raise OSError("simulated: the mail server is gone")


@frozen
class WorldClock:
    """The clock of a process, or with `process` None the world's own.

    Where the store has a clock, real time is the store's, and only `skew` shows that the process's
    own is wrong. A SQLite file has none: its processes have the clock of their machine."""

    world: World
    store: AnyStore
    process: Process | None = None

    def wall(self) -> datetime:
        if self.process is None or isinstance(self.store, MemoryStore):
            return self.world.now()
        return self.world.now() + self.process.skew

    async def business(self) -> datetime:
        async with self.store.read_view() as view:
            return self.business_at(await view.sandbox.clock_offset())

    def business_at(self, clock_offset: timedelta) -> datetime:
        return self.wall() + clock_offset

    def skew(self) -> timedelta | None:
        if self.process is None or not isinstance(self.store, MemoryStore):
            return timedelta()
        return self.process.skew

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def advance(self, by: timedelta) -> None:
        self.world.advance(by)


class _Interleaved:
    """A reader of the store that lets other tasks run before each read."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def read(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            return await found(*args, **named)

        setattr(self, name, read)
        return read


@define(eq=False)
class FaultyStore:
    process: Process
    inner: AnyStore
    _view: ReadView | None = None

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return _Reading(self)

    async def begin_reading(self) -> ReadView:
        self.process.check_connection()
        faults = (Fault.CRASH, Fault.FAIL, Fault.SLOW)
        await self.process.call("reads", _nothing, _store_fails, faults)
        if self._view is None:
            async with self.inner.read_view() as view:
                readers = {each.name: getattr(view, each.name) for each in fields(ReadView)}
            self._view = ReadView(**{name: _Interleaved(one) for name, one in readers.items()})
        return self._view

    async def end_reading(self) -> None:
        await asyncio.sleep(self.process.world.pick(f"{self.process.name} has read", READ_SECONDS))

    def run_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> Coroutine[Any, Any, T]:
        async def unit(tx: Transaction) -> T:
            result = await work(tx)
            await self._before_commit()
            return result

        self._check_write()
        return self.process.call("writes", lambda: self.inner.run_transaction(unit), _store_fails)

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        self._check_write()
        await self.process.call("writes", _nothing, _store_fails, (Fault.CRASH, Fault.FAIL))
        async with self.inner.open_transaction(work) as opened:
            yield opened
            await self._before_commit()
        faults = (Fault.CRASH, Fault.FAIL)
        await self.process.call("has committed", _nothing, _store_fails, faults)

    def _check_write(self) -> None:
        self.process.check_connection()
        if abs(self.process.skew) > MAX_CLOCK_SKEW:
            self.process.world.report_violation(
                f"{self.process.name} writes, though its clock is wrong"
            )

    async def _before_commit(self) -> None:
        """Let time pass before the commit, in which the process may die; the commit may fail."""
        faults = (Fault.CRASH, Fault.FAIL)
        fault, seconds = self.process.world.decide(f"{self.process.name} commits", faults)
        await asyncio.sleep(seconds)
        if fault is Fault.FAIL:
            _store_fails()
        self.process.die_if(fault is Fault.CRASH)
        self.process.check_connection()

    async def add_booking(self, booking_write: BookingWrite) -> None:
        await self.run_transaction(lambda unit: unit.bookings.add_booking(booking_write))

    async def check_writable(self, now: datetime) -> None:
        self.process.check_connection()

    async def delete_expired(self, now: datetime, policy: Any) -> int:
        self.process.check_connection()
        return await self.inner.delete_expired(now, policy)


class _Reading(AbstractAsyncContextManager[ReadView]):
    """The context of a read. It is a class, which is faster than a generator: a history has a
    thousand reads."""

    def __init__(self, store: FaultyStore) -> None:
        self._store = store

    async def __aenter__(self) -> ReadView:
        return await self._store.begin_reading()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._store.end_reading()


async def _nothing() -> None:
    """The effect of a call that only takes time."""


@frozen
class FaultyAdmission:
    """Lookups of credentials fail as the store does; counts of rate limits never fail."""

    process: Process
    inner: Admission

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        is_lookup = name.startswith("authenticate")
        faults = (Fault.CRASH, Fault.FAIL) if is_lookup else (Fault.CRASH,)

        async def call(*args: Any) -> Any:
            if is_lookup:
                self.process.check_connection()
            return await self.process.call(name, lambda: found(*args), _store_fails, faults)

        return call


@frozen
class FaultyProcessor:
    """The processor over a slow network, called by a process that may die. The fake has further
    faults of its own (`FakeProcessor.sandbox`)."""

    process: Process
    inner: Any

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **named: Any) -> Any:
            began = self.process.world.now()

            async def answer() -> Any:
                if self.process.world.now() - began > MAX_REQUEST_AGE:
                    raise OutcomeUnknown(
                        "simulated: the connection ended while the machine was off"
                    )
                result = await _run_outside(found(*args, **named))
                point = f"{self.process.name} hears of {name}"
                await asyncio.sleep(self.process.world.pick(point, ANSWER_SECONDS))
                return result

            faults = (Fault.CRASH, Fault.CRASH_AFTER)
            return await self.process.call(name, answer, _refuse, faults)

        return call


async def _run_outside(work: Coroutine[Any, Any, T]) -> T:
    """Run work of the called side, which goes on if the calling process dies."""
    task = asyncio.get_running_loop().create_task(work, context=Context())
    # The calling process may be dead, and would leave an exception unread.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def _refuse() -> NoReturn:
    raise AssertionError("these calls do not fail by the network")


@frozen
class FaultySender:
    process: Process
    inner: WebhookSender

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        return await self.process.call(
            "sends a webhook",
            lambda: self.inner.send(url, headers, body, timeout_seconds),
            lambda: DeliveryFailure.TIMEOUT,
        )

    async def resolves_to_unsafe(self, host: str) -> bool:
        return False


@frozen
class FaultyNotifier:
    process: Process
    inner: Notifier

    async def alert_operators(self, booking_id: int, text: str) -> None:
        await self.process.call(
            "alerts", lambda: self.inner.alert_operators(booking_id, text), _mail_fails
        )

    async def send_email(self, email: Email) -> None:
        await self.process.call("mails", lambda: self.inner.send_email(email), _mail_fails)


@frozen
class LossyHints:
    """Hints that may be lost: a wait then takes its whole timeout."""

    process: Process
    inner: Hints

    def count(self, hint: Hint) -> int:
        return self.inner.count(hint)

    async def wait(self, hint: Hint, seen_count: int, timeout_seconds: float) -> None:
        fault, _ = self.process.world.decide(f"{self.process.name} waits", (Fault.DROP,))
        if fault is Fault.DROP:
            await asyncio.sleep(timeout_seconds)
        else:
            await self.inner.wait(hint, seen_count, timeout_seconds)


@define(eq=False)
class Bus:
    """Carries broadcasts between the servers: late, twice, or never."""

    world: World
    is_joined: bool
    """Whether broadcasts reach other servers: those on a SQLite file poll it instead."""
    subscribers: list[tuple[Process, Subscriber]] = field(factory=list)

    def send(self, sender: Process, deliver: Callable[[Subscriber], None]) -> None:
        for process, subscriber in list(self.subscribers):
            if process is sender:
                deliver(subscriber)
                continue
            if not self.is_joined:
                continue
            fault, seconds = self.world.decide(
                f"{sender.name} to {process.name}", (Fault.DROP, Fault.REPEAT)
            )
            times = {Fault.DROP: 0, Fault.REPEAT: 2}.get(fault, 1) if fault else 1
            for number in range(times):
                self.world.loop.call_later(
                    seconds * (1 + number), self._arrive, process, deliver, subscriber
                )

    def _arrive(
        self, process: Process, deliver: Callable[[Subscriber], None], subscriber: Subscriber
    ) -> None:
        if process.is_alive:
            deliver(subscriber)


@frozen
class SimulatedPubSub:
    process: Process
    bus: Bus

    def publish_messages_stored(self) -> None:
        if self.process.is_alive:
            self.bus.send(self.process, lambda subscriber: subscriber.on_messages_stored())

    def publish(self, broadcast: Broadcast) -> None:
        if self.process.is_alive:
            self.bus.send(self.process, lambda subscriber: subscriber.on_broadcast(broadcast))

    @asynccontextmanager
    async def subscribe(self, subscriber: Subscriber) -> AsyncIterator[None]:
        entry = (self.process, subscriber)
        self.bus.subscribers.append(entry)
        try:
            yield
        finally:
            self.bus.subscribers.remove(entry)


def ports_of_process(
    process: Process, shared: Ports, store: AnyStore, bus: Bus, number: int
) -> Ports:
    """The ports of a process. `number` makes its ids differ from those of other processes."""
    clock = WorldClock(process.world, store, process)
    faulty: Store = FaultyStore(process, store)
    if isinstance(store, MemoryStore):  # It stands for PostgreSQL, which has a clock.
        faulty = GuardedStore(faulty, clock, shared.policy.max_clock_skew)
    return evolve(
        shared,
        store=faulty,
        admission=FaultyAdmission(process, store.admission),
        payments=FaultyProcessor(process, shared.payments),
        sandbox=FaultyProcessor(process, shared.sandbox),
        clock=clock,
        ids=SeededIds(process.world.plan.seed * 1000 + number),
        notifier=FaultyNotifier(process, shared.notifier),
        hints=LossyHints(process, store.hints),
        webhook_sender=FaultySender(process, shared.webhook_sender),
        pubsub=SimulatedPubSub(process, bus),
    )
