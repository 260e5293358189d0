"""A staff member without a payout account, and a processor that requires an onboarding page."""

from __future__ import annotations

import anyio.lowlevel
from attrs import evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import add_companion
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import payees
from tests.support.memory_deployment import (
    BookingScenario,
    actor_of,
    make_booking_scenario,
    memory_ports,
)


class RecordingProcessor:
    """The fake processor; records the calls for payees, and raises an error set in `errors`."""

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

    def calls_of(self, name):
        """The arguments of each call of this name, without the timeout."""
        return [given[:-1] for called, *given in self.calls if called == name]


def ports_with_manual_payees() -> Ports:
    """Ports in memory whose payees must complete the onboarding page."""
    ports = memory_ports()
    fake = FakeProcessor(
        MemoryFakeDocumentStore(),
        ports.clock,
        base_url=ports.policy.base_url,
        secret=b"events",
        manual_payees=True,
    )
    return evolve(ports, payments=RecordingProcessor(fake), sandbox=fake.sandbox)


@frozen
class PayeeScenario:
    """A staff member, whose payout account the worker keeps up to date."""

    scene: BookingScenario
    staff: Actor

    @property
    def ports(self):
        return self.scene.ports

    @property
    def processor(self):
        return self.ports.payments

    async def open_onboarding(self, country=None):
        """Open the onboarding page as the staff member."""
        return await payees.open_onboarding(self.ports, self.staff, country)

    async def payee(self):
        return await payees.get_payee(self.ports, self.staff)

    async def status(self):
        found = await self.payee()
        return PayeeStatus.NONE if found is None else found.status

    async def complete(self):
        """Complete the page as the staff member; its events are not delivered yet."""
        await self.ports.sandbox.complete_payee((await self.payee()).ref)

    async def run_payees(self):
        """Run the worker until nothing is due."""
        while await payees.run_due_payee(self.ports):
            pass


async def make_payee_scenario() -> PayeeScenario:
    """A scenario whose staff member has a profile and no payout account."""
    scene = await make_booking_scenario(ports=ports_with_manual_payees())
    staff = actor_of(await add_companion(scene.ports.store, payout_account=None))
    return PayeeScenario(evolve(scene, staff=staff), staff)
