"""A staff member who wants to be paid, and a processor that asks for details first."""

from __future__ import annotations

import anyio.lowlevel
from attrs import evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeBook
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import payees
from tests.support.builders import add_companion
from tests.support.memory_deployment import Scene, actor_of, make_scene, memory_ports


class Wrapped:
    """The fake processor, with every call to it noted; a call may be made to fail."""

    def __init__(self, inner):
        self.inner, self.calls, self.errors = inner, [], {}

    def __getattr__(self, name):
        real = getattr(self.inner, name)
        if name not in ("open_payee", "payee", "onboarding_link"):
            return real

        async def call(*given):
            self.calls.append((name, *given))
            await anyio.lowlevel.checkpoint()
            if error := self.errors.get(name):
                raise error
            return await real(*given)

        return call

    def made(self, name):
        """What was given with each call of a name, without the time that it may take."""
        return [given[:-1] for called, *given in self.calls if called == name]


def wrapped_ports() -> Ports:
    """Ports in memory, whose payees are completed by hand."""
    ports = memory_ports()
    fake = FakeProcessor(
        MemoryFakeBook(),
        ports.clock,
        base_url=ports.policy.base_url,
        secret=b"events",
        manual_payees=True,
    )
    return evolve(ports, payments=Wrapped(fake), sandbox=fake)


@frozen
class Desk:
    """What the staff member does, and the worker."""

    scene: Scene
    staff: Actor

    @property
    def ports(self):
        return self.scene.ports

    @property
    def processor(self):
        return self.ports.payments

    async def ask(self, country=None):
        """The page, as the staff member asks for it."""
        return await payees.open_page(self.ports, self.staff, country)

    async def account(self):
        return await payees.account(self.ports, self.staff)

    async def status(self):
        found = await self.account()
        return PayeeStatus.NONE if found is None else found.status

    async def complete(self):
        """What the staff member does on the page; no event of it has come yet."""
        await self.ports.sandbox.complete_payee((await self.account()).ref)

    async def work(self):
        """What a worker does until nothing is due."""
        while await payees.run_due(self.ports):
            pass


async def make_desk() -> Desk:
    """The staff member has a profile, and no payout account."""
    scene = await make_scene(ports=wrapped_ports())
    staff = actor_of(await add_companion(scene.ports.store, payout_account=None))
    return Desk(evolve(scene, staff=staff), staff)
