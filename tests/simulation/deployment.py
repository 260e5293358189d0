"""The simulated deployment: in memory, on virtual time, with crashes.

A process may crash before and after each call to the processor and each commit. The next
process starts from the stored state only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from attrs import define, evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import (
    DAY,
    POLICY,
    add_companion,
    add_subscriber,
    add_user,
)
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    OperationKey,
    PayOut,
    PayoutState,
)
from staffbooking_core.ports import (
    AuditedBooking,
    BookingWrite,
    OpenTransaction,
    Ports,
    ReadView,
    Transaction,
)
from staffbooking_core.usecases.payments import payees
from tests.simulation.webhook_endpoints import WebhookEndpoints, add_webhook_endpoints
from tests.support.memory_deployment import BookingScenario, actor_of, memory_ports

T = TypeVar("T")

PROCESSOR_CALLS = (
    "open_checkout",
    "close_checkout",
    "refund",
    "pay_out",
    "reverse_payout",
    "open_payee",
)
LONG_RETENTION = evolve(
    POLICY,
    webhook_held_retention=10_000 * DAY,
    webhook_delivery_retention=10_000 * DAY,
    processor_event_retention=10_000 * DAY,
)
"""Deliveries and processor events are kept: at its end a history is checked as a whole."""
CRASH_POINTS = ("before a call", "after a call", "before a commit", "after a commit")


class Crash(BaseException):
    """The process crashes."""


@define
class CrashPlan:
    """The next crash point, and the number of passes before the crash."""

    point: str = ""
    remaining_passes: int = 0

    def crash_if_due(self, point: str) -> None:
        if point != self.point:
            return
        if self.remaining_passes:
            self.remaining_passes -= 1
            return
        self.point = ""
        raise Crash


@frozen
class CrashingStore:
    """A store whose commits may crash the process."""

    inner: MemoryStore
    fate: CrashPlan

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return self.inner.read_view()

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def unit(tx: Transaction) -> T:
            result = await work(tx)
            self.fate.crash_if_due("before a commit")
            return result

        result = await self.inner.run_transaction(unit)
        self.fate.crash_if_due("after a commit")
        return result

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        async with self.inner.open_transaction(work) as opened:
            yield opened
            self.fate.crash_if_due("before a commit")
        self.fate.crash_if_due("after a commit")

    async def add_booking(self, booking_write: BookingWrite) -> None:
        await self.run_transaction(lambda unit: unit.bookings.add_booking(booking_write))

    async def check_writable(self, now: datetime) -> None:
        await self.inner.check_writable(now)

    async def delete_expired(self, now: datetime, policy: Any) -> int:
        return await self.inner.delete_expired(now, policy)


@frozen
class CrashingProcessor:
    """A processor whose calls may crash the process. It asserts that each requested payout
    is owed by the booking at that moment."""

    inner: FakeProcessor
    store: MemoryStore
    fate: CrashPlan

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in PROCESSOR_CALLS:
            return found

        async def call(*args: Any) -> Any:
            self.fate.crash_if_due("before a call")
            result = await found(*args)
            self.fate.crash_if_due("after a call")
            return result

        return call

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        async with self.store.read_view() as view:
            booking = await view.bookings.booking(key.intent_id)
        assert booking is not None
        assert booking.status in (BookingStatus.COMPLETED, BookingStatus.CANCELLED)
        assert booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED)
        assert booking.status is BookingStatus.CANCELLED or not _has_open_chargeback(booking)
        assert booking.payout_released_at is not None
        assert booking.payout_hold_lifted or not await self._is_disabled(booking.companion_id)
        assert command.amount == booking.payout_left
        state: PayoutState = await self.__getattr__("pay_out")(command, key, timeout_seconds)
        return state

    async def _is_disabled(self, user_id: int) -> bool:
        async with self.store.read_view() as view:
            user = await view.accounts.user(user_id)
        return user is not None and user.disabled_at is not None


def _has_open_chargeback(booking: Booking) -> bool:
    return booking.chargeback_status is ChargebackStatus.OPEN


class SimulatedScenario(BookingScenario):
    """One customer and one companion of the world, with the operations that histories use."""

    @property
    def fake(self) -> FakeProcessor:
        assert isinstance(self.ports.payments, CrashingProcessor)
        return self.ports.payments.inner

    async def audited_bookings(self) -> list[AuditedBooking]:
        async with self.ports.store.read_view() as view:
            return list(await view.ledger.audited_bookings(0, 10_000))

    async def onboard_payee(self) -> None:
        """The companion opens an account at the processor and completes it."""
        _, link = await payees.open_onboarding(self.ports, self.staff, None)
        await self.fake.sandbox.complete_payee(link.url.rpartition("/")[2])


@frozen
class SimulationWorld:
    """The users of a history, the processor's book, and the webhook endpoints."""

    scenes: tuple[SimulatedScenario, ...]
    """One for each pair of a customer and a companion."""
    fate: CrashPlan
    book: MemoryFakeDocumentStore
    webhooks: WebhookEndpoints

    @property
    def scene(self) -> SimulatedScenario:
        """The scenario for actions that any person may take."""
        return self.scenes[0]

    @property
    def companions(self) -> tuple[SimulatedScenario, ...]:
        """One scene for each companion."""
        return tuple({scene.staff: scene for scene in self.scenes}.values())

    def scenario_of(self, booking: Booking) -> SimulatedScenario:
        return next(
            scene
            for scene in self.scenes
            if scene.customer.user_id == booking.customer_id
            and scene.staff.user_id == booking.companion_id
        )


async def make_simulation_world(manual_payees: bool, fee_ppm: int) -> SimulationWorld:
    """Two customers, the first with a subscription, and two companions; `manual_payees` have to
    complete an account first."""
    ports, book, fate = memory_ports(LONG_RETENTION), MemoryFakeDocumentStore(), CrashPlan()
    fake = FakeProcessor(
        book,
        ports.clock,
        base_url=POLICY.base_url,
        secret=b"events",
        manual_payees=manual_payees,
        fee_ppm=fee_ppm,
    )
    store = ports.store
    assert isinstance(store, MemoryStore)
    ports = evolve(
        ports,
        store=CrashingStore(store, fate),
        payments=CrashingProcessor(fake, store, fate),
        sandbox=fake.sandbox,
    )
    scenes = await _add_people(ports)
    mail = await add_webhook_endpoints(
        ports, scenes[0].customer, scenes[1].customer, scenes[0].admin
    )
    return SimulationWorld(scenes, fate, book, mail)


async def _add_people(ports: Ports) -> tuple[SimulatedScenario, ...]:
    staff = [await add_companion(ports.store, payout_account=None) for _ in range(2)]
    people = await add_subscriber(ports.store), await add_user(ports.store)
    customers: list[Actor] = [actor_of(customer) for customer in people]
    admin = actor_of(await add_user(ports.store, role=Role.ADMIN))
    return tuple(
        SimulatedScenario(ports, customer, actor_of(companion), admin)
        for companion in staff
        for customer in customers
    )
