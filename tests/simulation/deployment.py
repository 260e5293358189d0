"""What the processes of a history share besides their store: people, the processor, receivers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from attrs import evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import DAY, POLICY
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    OperationKey,
    PayOut,
    PayoutState,
)
from staffbooking_core.ports import AuditedBooking, Store
from staffbooking_core.usecases.payments import payees
from tests.simulation.webhook_endpoints import WebhookEndpoints
from tests.simulation.world import MAX_SLOW_SECONDS, World
from tests.support.memory_deployment import BookingScenario

LONG_RETENTION = evolve(
    POLICY,
    webhook_held_retention=10_000 * DAY,
    webhook_delivery_retention=10_000 * DAY,
    processor_event_retention=10_000 * DAY,
)
"""Deliveries and processor events are kept: at its end a history is checked as a whole."""


@frozen
class CheckedProcessor:
    """The processor, which finds fault with payouts that a booking does not owe at that moment."""

    inner: FakeProcessor
    store: Store
    world: World

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        async with self.store.read_view() as view:
            booking = await view.bookings.booking(key.intent_id)
            user = None if booking is None else await view.accounts.user(booking.companion_id)
        if booking is None or user is None:
            self.world.accuse(f"a payout of booking {key.intent_id}, which does not exist")
        elif (
            fault := _payout_fault(booking, command, is_disabled=user.disabled_at is not None)
        ) and not await self._changed_on_the_way(key, user):
            self.world.accuse(f"booking {booking.id}: a payout of {command.amount} while {fault}")
        return await self.inner.pay_out(command, key, timeout_seconds)

    async def _changed_on_the_way(self, key: OperationKey, staff: User) -> bool:
        """Whether money was booked, or the staff member disabled, after the payout was sent:
        nothing could stop it then."""
        async with self.store.read_view() as view:
            [sent] = [
                one.last_sent_at
                for one in await view.operations.operations_of(key.intent_id)
                if one.id == key.op_id
            ]
            postings = await view.ledger.postings_of(key.intent_id)
        if sent is None:
            return False
        # A change has the time at which its transaction began, and may have waited for the payout.
        # What was booked has its business time.
        since = sent - timedelta(seconds=MAX_SLOW_SECONDS)
        return (staff.disabled_at is not None and staff.disabled_at >= since) or any(
            one.at >= since + self.world.offset_at(sent) for one in postings
        )


def _payout_fault(booking: Booking, command: PayOut, *, is_disabled: bool) -> str:
    """Why this payout must not be made now; empty if it may."""
    faults = {
        f"it is {booking.status}": booking.status
        not in (BookingStatus.COMPLETED, BookingStatus.CANCELLED),
        f"the payout is {booking.payout_status}": booking.payout_status
        not in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED),
        "a chargeback is open": booking.status is not BookingStatus.CANCELLED
        and booking.chargeback_status is ChargebackStatus.OPEN,
        "it is not released": booking.payout_released_at is None,
        "the staff member is disabled": is_disabled and not booking.payout_hold_lifted,
        f"{booking.payout_left} is left": command.amount != booking.payout_left,
    }
    return ", ".join(text for text, is_so in faults.items() if is_so)


class SimulatedScenario(BookingScenario):
    """One customer and one companion of the world, with the operations that histories use."""

    @property
    def fake(self) -> FakeProcessor:
        assert isinstance(self.ports.payments, CheckedProcessor)
        return self.ports.payments.inner

    async def audited_bookings(self) -> list[AuditedBooking]:
        async with self.ports.store.read_view() as view:
            return list(await view.ledger.audited_bookings(0, 10_000))

    async def onboard_payee(self) -> None:
        """The companion opens an account at the processor and completes it."""
        _, link = await payees.open_onboarding(self.ports, self.staff, None)
        await self.fake.sandbox.complete_payee(link.url.rpartition("/")[2])


@frozen
class Scenes:
    """The users of a history, the processor's book, and the webhook endpoints."""

    scenes: tuple[SimulatedScenario, ...]
    """One for each pair of a customer and a companion."""
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
