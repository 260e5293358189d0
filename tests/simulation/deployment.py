"""Parts that the processes of a history share besides their store: people, processor, receivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from attrs import evolve, frozen

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import DAY, POLICY
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    OperationKey,
    PayOut,
    PayoutState,
)
from staffbooking_core.ports import AuditedBooking, Ports, Transaction
from staffbooking_core.usecases.payments import operations, payees
from tests.simulation.webhook_endpoints import WebhookEndpoints
from tests.simulation.world import World
from tests.support.memory_deployment import BookingScenario

LONG_RETENTION = evolve(
    POLICY,
    webhook_held_retention=10_000 * DAY,
    webhook_delivery_retention=10_000 * DAY,
    processor_event_retention=10_000 * DAY,
)
"""Keeps deliveries and processor events, since the end of a history checks all of them."""


@contextmanager
def watch_payouts() -> Iterator[dict[int, str]]:
    """The faults of each payout that is claimed in order to be sent, by operation; empty if there
    are none. A payout is checked in the transaction of its claim, since nothing that is committed
    later can stop it."""
    faults: dict[int, str] = {}
    prepare = operations._prepare

    async def prepare_and_check(
        tx: Transaction, ports: Ports, operation: Operation, *given: Any
    ) -> Any:
        claimed = await prepare(tx, ports, operation, *given)
        command = operation.command
        if claimed is not None and not claimed.look_up and isinstance(command, PayOut):
            booking = await tx.bookings.booking(operation.booking_id)
            user = await tx.accounts.user(command.companion_id)
            assert booking is not None
            assert user is not None
            is_disabled = user.disabled_at is not None
            faults[operation.id] = _payout_fault(booking, command, is_disabled=is_disabled)
        return claimed

    with mock.patch.object(operations, "_prepare", prepare_and_check):
        yield faults


@frozen
class CheckedProcessor:
    """The processor; reports a violation for payouts that the booking did not owe when they were
    claimed."""

    inner: FakeProcessor
    world: World
    payout_faults: Mapping[int, str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        if fault := self.payout_faults.get(key.op_id, "nobody claimed it"):
            self.world.report_violation(
                f"booking {key.intent_id}: a payout of {command.amount} while {fault}"
            )
        return await self.inner.pay_out(command, key, timeout_seconds)


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
class SimulatedScenarios:
    """The scenarios of a history, the fake processor's documents, and the webhook endpoints."""

    by_pair: tuple[SimulatedScenario, ...]
    """One for each pair of a customer and a companion."""
    fake_store: MemoryFakeDocumentStore
    webhooks: WebhookEndpoints

    @property
    def scene(self) -> SimulatedScenario:
        """The scenario for actions that any person may take."""
        return self.by_pair[0]

    @property
    def companions(self) -> tuple[SimulatedScenario, ...]:
        """One scenario for each companion."""
        return tuple({scene.staff: scene for scene in self.by_pair}.values())
