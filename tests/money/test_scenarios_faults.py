"""Whole bookings with failed calls, an unreachable processor, and lost or reordered events.

On each processor all money moves once, and the ledger ends equal to the processor's statement.
"""

from __future__ import annotations

from datetime import date

import pytest

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import HOUR, MINUTE
from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.ledger import MovementKind as Moved
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.errors import ProcessorUnavailable
from staffbooking_core.usecases.payments import operations
from tests.money.payment_scenarios import (
    CALL_FAULTS,
    LATER_DATE,
    PAYOUT_AMOUNT,
    TOTAL_AMOUNT,
    PaymentScenario,
)

pytestmark = pytest.mark.anyio


# Calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CALL_FAULTS)
async def test_faults_of_each_call_are_recovered(scenario: PaymentScenario, kind: str) -> None:
    """All money moves once if the first call of each kind fails."""
    await scenario.fault_all(kind)
    unpaid = await scenario.accepted()
    await scenario.settle()
    await scenario.cancel(unpaid)
    refunded = await scenario.accepted()
    await scenario.settle()
    await scenario.simulate_checkout(refunded)
    await scenario.drain()
    await scenario.cancel(refunded)
    await scenario.settle()
    earned = await scenario.paid_out(event_date=LATER_DATE)
    await scenario.settle()
    await scenario.charge_back(earned)
    await scenario.charge_back(earned, "lost")

    for booking in (unpaid, refunded, earned):
        await scenario.finish(booking)

    assert await scenario.moved_by_kind(unpaid) == {}
    assert await scenario.moved_by_kind(refunded) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT,
    }
    assert await scenario.moved_by_kind(earned) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
        Moved.REVERSAL: PAYOUT_AMOUNT,
    }


@pytest.mark.parametrize("kind", ["timeout_before", "timeout_after"])
async def test_a_key_expires(scenario: PaymentScenario, kind: str) -> None:
    """A refund whose answer was lost is made once, even after its key expired."""
    booking = await scenario.paid()
    await scenario.jump_to(booking.starts_at - 30 * HOUR)
    await scenario.fault(OperationKind.REFUND, kind)
    await scenario.cancel(booking)
    assert await operations.run_due_operation(scenario.ports) == 1
    await scenario.lose_events()
    scenario.pass_time(25 * HOUR)
    await scenario.lose_events()

    booking = await scenario.finish(booking)

    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT // 2,
        Moved.PAYOUT: -PAYOUT_AMOUNT // 2,
    }


async def test_the_processor_is_down_for_a_day(scenario: PaymentScenario) -> None:
    """During an outage a checkout raises `ProcessorUnavailable`, and due work is done later."""
    completed, cancelled = await scenario.completed(), await scenario.paid(event_date=LATER_DATE)
    unreachable = scenario.with_unreachable_processor()
    waiting = await unreachable.accepted(event_date=date(2027, 3, 20))
    with pytest.raises(ProcessorUnavailable):
        await unreachable.checkout(waiting)
    await unreachable.cancel(cancelled, scenario.staff)
    for _ in range(25):
        scenario.pass_time(HOUR)
        await unreachable.drain()
    assert await scenario.moved_by_kind(completed) == {Moved.PAYMENT: TOTAL_AMOUNT}

    await scenario.settle()

    assert (await scenario.moved_by_kind(await scenario.finish(completed)))[
        Moved.PAYOUT
    ] == -PAYOUT_AMOUNT
    assert (await scenario.moved_by_kind(await scenario.finish(cancelled)))[
        Moved.REFUND
    ] == -TOTAL_AMOUNT
    await scenario.simulate_checkout(waiting)
    await scenario.settle()
    assert (await scenario.booking(waiting)).status is BookingStatus.PAID
    await scenario.check()


@pytest.mark.parametrize("op", [OperationKind.REFUND, OperationKind.REVERSE_PAYOUT])
async def test_operators_are_told_once_of_a_refusal(
    scenario: PaymentScenario, op: OperationKind
) -> None:
    """Retries that are refused for the same reason alert nobody and leave the booking as it is."""
    reversed_ = op is OperationKind.REVERSE_PAYOUT
    booking = await (scenario.paid_out() if reversed_ else scenario.paid())
    await scenario.settle()
    await scenario.fault(op, "refuse:insufficient_funds", 100)
    await (scenario.charge_back(booking, "lost") if reversed_ else scenario.cancel(booking))
    await scenario.drain()
    refused = await scenario.booking(booking)
    for _ in range(10):
        scenario.pass_time(HOUR + MINUTE)
        await scenario.drain()
    notifier = scenario.ports.notifier
    assert isinstance(notifier, RecordingNotifier)
    told = [text for _, text in notifier.alerts if text.startswith(f"{op} of")]
    assert len(told) == 1
    assert (await scenario.booking(booking)).revision == refused.revision


# Events -------------------------------------------------------------------------------------


async def test_a_lost_event_is_recovered(scenario: PaymentScenario) -> None:
    """A payment whose event was lost is found by reconciliation."""
    booking = await scenario.accepted()
    await scenario.simulate_checkout(booking)
    await scenario.lose_events()
    assert (await scenario.booking(booking)).status is BookingStatus.ACCEPTED

    await scenario.settle()

    assert (await scenario.booking(booking)).status is BookingStatus.PAID
    await scenario.check()


async def test_events_are_redelivered(scenario: PaymentScenario) -> None:
    """A redelivered event has no effect."""
    booking = await scenario.accepted()
    await scenario.simulate_checkout(booking)
    events = await scenario.events_due()
    assert await scenario.receive_events(events) > 0
    await scenario.drain()

    assert await scenario.receive_events(events) == 0
    await scenario.drain()

    assert await scenario.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}
    await scenario.check()


async def test_events_are_reordered(scenario: PaymentScenario) -> None:
    """Events in reverse order lead to the same result."""
    booking = await scenario.accepted()
    await scenario.simulate_checkout(booking)
    await scenario.bench.outside_world.charge_back(booking.id, "open")
    await scenario.bench.outside_world.charge_back(booking.id, "lost")
    for event in reversed(await scenario.events_due()):
        await scenario.receive_events([event])
        await scenario.drain()

    booking = await scenario.finish(booking)

    assert (booking.status, booking.payment_status) == (
        BookingStatus.CANCELLED,
        PaymentStatus.CHARGED_BACK,
    )


async def test_a_forged_event_is_refused(scenario: PaymentScenario) -> None:
    """An event with an invalid signature is not stored."""
    booking = await scenario.accepted()
    await scenario.simulate_checkout(booking)
    forged = [(headers, body + b" ") for headers, body in await scenario.events_due()]

    assert await scenario.receive_events(forged) == 0

    await scenario.drain()
    assert (await scenario.booking(booking)).status is BookingStatus.ACCEPTED
