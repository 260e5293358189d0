"""The deployment that a history happens to: in memory, on virtual time, and mortal.

A process may die wherever it does something that outlives it: before and after a call to the
processor, before and after a commit. What it leaves behind is all that the next one has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, TypeVar

from attrs import define, evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeBook
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.payments.processor import ChargebackStatus, OpKey, PayOut, PayoutState
from staffbooking_core.ports import Audited, Change, Ports, Reading, Writing
from staffbooking_core.usecases.payments import payees
from tests.simulation.webhook_endpoints import Mail, make_mail
from tests.support.builders import POLICY, add_companion, add_subscriber, add_user
from tests.support.memory_deployment import Scene, actor_of, memory_ports

T = TypeVar("T")

CALLS = ("open_checkout", "close_checkout", "refund", "pay_out", "reverse_payout", "open_payee")
POINTS = ("before a call", "after a call", "before a commit", "after a commit")


class Crash(BaseException):
    """The process dies here."""


@define
class Fate:
    """Where the process dies next, and how often it gets past that point before."""

    point: str = ""
    spared: int = 0

    def reach(self, point: str) -> None:
        if point != self.point:
            return
        if self.spared:
            self.spared -= 1
            return
        self.point = ""
        raise Crash


@frozen
class MortalStore:
    """The store of a process that may die at its commits."""

    real: MemoryStore
    fate: Fate

    def reading(self) -> AbstractAsyncContextManager[Reading]:
        return self.real.reading()

    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        async def unit(tx: Writing) -> T:
            result = await work(tx)
            self.fate.reach("before a commit")
            return result

        result = await self.real.write(unit)
        self.fate.reach("after a commit")
        return result

    async def add_booking(self, change: Change) -> None:
        await self.write(lambda unit: unit.bookings.add(change))

    async def sweep(self, now: datetime, policy: Any) -> int:
        return await self.real.sweep(now, policy)


@frozen
class MortalProcessor:
    """The processor as a process sees it that may die at its calls, and which sees that no
    payout is ever asked for that the booking does not owe at that moment."""

    real: FakeProcessor
    store: MemoryStore
    fate: Fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name not in CALLS:
            return found

        async def call(*args: Any) -> Any:
            self.fate.reach("before a call")
            result = await found(*args)
            self.fate.reach("after a call")
            return result

        return call

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        async with self.store.reading() as view:
            booking = await view.bookings.booking(key.intent_id)
        assert booking is not None
        assert booking.status in (Status.COMPLETED, Status.CANCELLED)
        assert booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED)
        assert booking.status is Status.CANCELLED or not _is_contested(booking)
        assert booking.payout_released_at is not None
        assert command.amount == booking.payout_left
        state: PayoutState = await self.__getattr__("pay_out")(command, key, within)
        return state


def _is_contested(booking: Booking) -> bool:
    return booking.chargeback_status is ChargebackStatus.OPEN


class SimulatedScene(Scene):
    """One customer and one companion of the world, with what a history asks of them."""

    @property
    def fake(self) -> FakeProcessor:
        assert isinstance(self.ports.sandbox, FakeProcessor)
        return self.ports.sandbox

    async def audited(self) -> list[Audited]:
        async with self.ports.store.reading() as view:
            return list(await view.money.audit(0, 10_000))

    async def onboard(self) -> None:
        """The companion opens an account at the processor and completes it."""
        _, link = await payees.open_page(self.ports, self.staff, None)
        await self.fake.complete_payee(link.url.rpartition("/")[2])


@frozen
class World:
    """The people of a history, the processor's own book, and where events go."""

    scenes: tuple[SimulatedScene, ...]
    """One for each pair of a customer and a companion."""
    fate: Fate
    book: MemoryFakeBook
    mail: Mail

    @property
    def scene(self) -> SimulatedScene:
        """Where it does not matter who acts."""
        return self.scenes[0]

    @property
    def companions(self) -> tuple[SimulatedScene, ...]:
        """One scene for each companion."""
        return tuple({scene.staff: scene for scene in self.scenes}.values())

    def scene_of(self, booking: Booking) -> SimulatedScene:
        return next(
            scene
            for scene in self.scenes
            if scene.customer.user_id == booking.customer_id
            and scene.staff.user_id == booking.companion_id
        )


async def make_world(manual_payees: bool, fee_ppm: int) -> World:
    """Two customers, the first with a subscription, and two companions; `manual_payees` have to
    complete an account first."""
    ports, book, fate = memory_ports(POLICY), MemoryFakeBook(), Fate()
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
        store=MortalStore(store, fate),
        payments=MortalProcessor(fake, store, fate),
        sandbox=fake,
    )
    scenes = await _people(ports)
    mail = await make_mail(ports, scenes[0].customer, scenes[1].customer, scenes[0].admin)
    return World(scenes, fate, book, mail)


async def _people(ports: Ports) -> tuple[SimulatedScene, ...]:
    staff = [await add_companion(ports.store, payout_account=None) for _ in range(2)]
    people = await add_subscriber(ports.store), await add_user(ports.store)
    customers: list[Actor] = [actor_of(customer) for customer in people]
    admin = actor_of(await add_user(ports.store, role=Role.ADMIN))
    return tuple(
        SimulatedScene(ports, customer, actor_of(companion), admin)
        for companion in staff
        for customer in customers
    )
