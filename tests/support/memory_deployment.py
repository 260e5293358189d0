"""A deployment in memory, and the actions of the users of one booking.

`memory_ports` gives the ports with a clock that stands still until it is moved. `BookingScenario`
has the actions of one customer, one companion and one admin.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve, frozen

from staffbooking_adapters import wiring
from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, POLICY, add_companion, add_user
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_core.domain.accounts.users import Actor, Role, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.inputs import CancelBooking, DisputeBooking
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import due_work, idempotency, sandbox
from staffbooking_core.usecases.bookings import actions, disputes, requests
from staffbooking_core.usecases.idempotency import IdempotentCall, Response
from staffbooking_core.usecases.payments import ledger_check


def memory_ports(policy: Policy = POLICY, now: datetime = NOW, **adapters: Any) -> Ports:
    """All ports in memory, with a clock that stands still; given adapters replace them."""
    return wiring.memory_ports(policy, now, **adapters)


def actor_of(user: User | Companion) -> Actor:
    """The actor of a user, or of a companion's user."""
    return Actor(user.id, user.role if isinstance(user, User) else Role.STAFF)


@frozen
class BookingScenario:
    """A customer, a companion, an admin, and ports."""

    ports: Ports
    customer: Actor
    staff: Actor
    admin: Actor

    # Time -----------------------------------------------------------------------------------

    async def now(self) -> datetime:
        return await self.ports.clock.business()

    async def jump_to(self, at: datetime) -> None:
        """Move business time, as the sandbox does, without running the work that becomes due."""
        await sandbox.set_clock(self.ports, at)

    def pass_time(self, by: timedelta) -> None:
        """Advance wall time."""
        self.ports.clock.advance(by)  # type: ignore[attr-defined]

    async def drain(self) -> int:
        return await due_work.run_all_due(self.ports)

    async def settle_down(self) -> None:
        """Advance wall time by the hour until no operation is unfinished, for 84 hours at most."""
        for _ in range(84):
            await self.drain()
            if not await self.unfinished():
                return
            self.pass_time(HOUR)
        raise AssertionError(f"still unfinished: {await self.unfinished()}")

    # Reading --------------------------------------------------------------------------------

    async def booking(self, booking: Booking) -> Booking:
        async with self.ports.store.read_view() as view:
            found = await view.bookings.booking(booking.id)
        assert found is not None
        return found

    async def operations(self, booking: Booking) -> list[Operation]:
        async with self.ports.store.read_view() as view:
            return list(await view.operations.operations_of(booking.id))

    async def unfinished(self) -> list[Operation]:
        async with self.ports.store.read_view() as view:
            every = await view.ledger.audited_bookings(0, 10_000)
        return [op for one in every for op in one.operations if not op.is_finished]

    async def faults(self) -> list[str]:
        """The faults that `ledger check` finds."""
        found = [one async for one in ledger_check.check_ledger(self.ports)]
        return [one.text for one in found if isinstance(one, ledger_check.LedgerFault)]

    async def processor_balance(self) -> int:
        """The platform's balance at the processor."""
        assert self.ports.sandbox is not None
        return await self.ports.sandbox.balance()

    async def events(self, booking: Booking) -> list[str]:
        """The names of a booking's events in their order; asserts that no number is missing."""
        async with self.ports.store.read_view() as view:
            found = await view.bookings.events_of(booking.id)
        assert [sequence for sequence, _ in found] == [*range(1, len(found) + 1)]
        return [json.loads(body)["event"] for _, body in found]

    # Actions --------------------------------------------------------------------------------

    async def fault(self, op: str, kind: str, times: int = 1) -> None:
        assert self.ports.sandbox is not None
        await self.ports.sandbox.add_fault(op, kind, times)

    async def clear_faults(self) -> None:
        assert self.ports.sandbox is not None
        await self.ports.sandbox.clear_faults()

    async def request(self, by: Actor | None = None, **given: Any) -> Booking:
        """Request four hours at noon three days after NOW, unless other fields are given."""
        wanted = make_booking_request(**{"companion_id": self.staff.user_id, **given})
        return await requests.request_booking(self.ports, by or self.customer, wanted)

    async def request_once(self, call: IdempotentCall, **given: Any) -> Response:
        """The response to `request` under an idempotency key: the booking's code. Errors are
        raised, and not stored."""
        wanted = make_booking_request(**{"companion_id": self.staff.user_id, **given})

        async def work(ports: Ports) -> Response:
            return _code_of(await requests.request_booking(ports, self.customer, wanted))

        return await idempotency.run(self.ports, call, work, lambda error: None)

    async def accept(self, booking: Booking, by: Actor | None = None) -> Booking:
        return await actions.accept(self.ports, by or self.staff, booking.id)

    async def accepted(self, **given: Any) -> Booking:
        return await self.accept(await self.request(**given))

    async def checkout(self, booking: Booking) -> str:
        """The address of the hosted page."""
        return (await actions.open_checkout(self.ports, self.customer, booking.id))[1]

    async def simulate_checkout(self, booking: Booking, outcome: str = "succeed") -> None:
        """Act on the hosted page; its events are not delivered yet."""
        page = await self.checkout(booking)
        assert self.ports.sandbox is not None
        await self.ports.sandbox.simulate_checkout(page.rpartition("/")[2], outcome)

    async def paid(self, **given: Any) -> Booking:
        booking = await self.accepted(**given)
        await self.simulate_checkout(booking)
        await self.drain()
        return await self.booking(booking)

    async def completed(self, **given: Any) -> Booking:
        """A booking confirmed by the customer at the end of the event."""
        booking = await self.paid(**given)
        await self.jump_to(booking.ends_at)
        return await self.apply_trigger(booking, Trigger.CONFIRM, self.customer)

    async def paid_out(self, **given: Any) -> Booking:
        booking = await self.completed(**given)
        await self.jump_to(booking.ends_at + DAY)
        await self.drain()
        return await self.booking(booking)

    async def apply_trigger(self, booking: Booking, trigger: Trigger, by: Actor) -> Booking:
        return await actions.apply_trigger(self.ports, by, booking.id, trigger)

    async def cancel(
        self, booking: Booking, by: Actor | None = None, quote: str | None = None
    ) -> Booking:
        given = CancelBooking(reason="rain", quote=quote)
        return await actions.cancel(self.ports, by or self.customer, booking.id, given)

    async def dispute(self, booking: Booking, by: Actor | None = None) -> Booking:
        given = DisputeBooking(reason="nobody came")
        return await disputes.open_dispute(self.ports, by or self.customer, booking.id, given)

    async def resolve(
        self, booking: Booking, outcome: ResolutionOutcome, amount: int = 0
    ) -> Booking:
        return await disputes.resolve_dispute(self.ports, booking.code, outcome, amount)

    async def charge_back(self, booking: Booking, outcome: str = "open") -> Booking:
        """Open a chargeback at the processor and process its events."""
        await sandbox.simulate_chargeback(self.ports, booking.code, outcome)
        return await self.booking(booking)


async def make_booking_scenario(
    policy: Policy = POLICY, ports: Ports | None = None
) -> BookingScenario:
    """A scenario with new users; the companion costs 100.00 an hour and is always free."""
    ports = ports or memory_ports(policy)
    companion = await add_companion(ports.store)
    customer = await add_user(ports.store)
    admin = await add_user(ports.store, role=Role.ADMIN)
    return BookingScenario(ports, actor_of(customer), actor_of(companion), actor_of(admin))


async def with_another_customer(scene: BookingScenario) -> BookingScenario:
    """The same scenario with another customer."""
    return evolve(scene, customer=actor_of(await add_user(scene.ports.store)))


async def with_another_companion(scene: BookingScenario, **given: Any) -> BookingScenario:
    """The same scenario with another companion."""
    return evolve(scene, staff=actor_of(await add_companion(scene.ports.store, **given)))


def make_idempotent_call(**given: Any) -> IdempotentCall:
    """An idempotent call; the response to a booking request is the code of the booking."""
    defaults = {"scope": "key:1", "key": "call", "fingerprint": b"same"}
    return IdempotentCall(**{**defaults, "booking_response": _code_of, **given})


def _code_of(booking: Booking) -> Response:
    return Response(201, booking.code.encode())


async def list_bookings(scene: BookingScenario, actor: Actor | None = None) -> list[Booking]:
    """The first page of an actor's bookings, by default the customer's."""
    by = actor or scene.customer
    return list(
        await actions.list_bookings(scene.ports, by, role=None, status=None, page=1, limit=50)
    )


async def operation_states(scene: BookingScenario, booking: Booking) -> list[tuple[str, str]]:
    """The kind and status of each operation, in order."""
    return [(str(op.kind), str(op.status)) for op in await scene.operations(booking)]
