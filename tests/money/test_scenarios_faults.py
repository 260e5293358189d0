"""Whole bookings with failed calls, an unreachable processor, and lost or reordered events.

On each processor all money moves once, and the ledger ends equal to the processor's book.
"""

from __future__ import annotations

from datetime import date

import pytest

from staffbooking_adapters.testing.builders import HOUR
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
async def test_faults_of_each_call_are_recovered(play: PaymentScenario, kind: str) -> None:
    """All money moves once if the first call of each kind fails."""
    await play.fault_all(kind)
    unpaid = await play.accepted()
    await play.settle()
    await play.cancel(unpaid)
    refunded = await play.accepted()
    await play.settle()
    await play.play(refunded)
    await play.drain()
    await play.cancel(refunded)
    await play.settle()
    earned = await play.paid_out(event_date=LATER_DATE)
    await play.settle()
    await play.charge_back(earned)
    await play.charge_back(earned, "lost")

    for booking in (unpaid, refunded, earned):
        await play.finish(booking)

    assert await play.moved_by_kind(unpaid) == {}
    assert await play.moved_by_kind(refunded) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT,
    }
    assert await play.moved_by_kind(earned) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
        Moved.REVERSAL: PAYOUT_AMOUNT,
    }


@pytest.mark.parametrize("kind", ["timeout_before", "timeout_after"])
async def test_a_key_expires(play: PaymentScenario, kind: str) -> None:
    """A refund whose answer was lost is made once, even after its key expired."""
    booking = await play.paid()
    await play.jump_to(booking.starts_at - 30 * HOUR)
    await play.fault(OperationKind.REFUND, kind)
    await play.cancel(booking)
    assert await operations.run_due_operation(play.ports) == 1
    await play.lose_events()
    play.pass_time(25 * HOUR)
    await play.lose_events()

    booking = await play.finish(booking)

    assert await play.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT // 2,
        Moved.PAYOUT: -PAYOUT_AMOUNT // 2,
    }


async def test_the_processor_is_down_for_a_day(play: PaymentScenario) -> None:
    """During an outage a checkout raises `ProcessorUnavailable`, and due work is done later."""
    completed, cancelled = await play.completed(), await play.paid(event_date=LATER_DATE)
    unreachable = play.with_unreachable_processor()
    waiting = await unreachable.accepted(event_date=date(2027, 3, 20))
    with pytest.raises(ProcessorUnavailable):
        await unreachable.checkout(waiting)
    await unreachable.cancel(cancelled, play.staff)
    for _ in range(25):
        play.pass_time(HOUR)
        await unreachable.drain()
    assert await play.moved_by_kind(completed) == {Moved.PAYMENT: TOTAL_AMOUNT}

    await play.settle()

    assert (await play.moved_by_kind(await play.finish(completed)))[Moved.PAYOUT] == -PAYOUT_AMOUNT
    assert (await play.moved_by_kind(await play.finish(cancelled)))[Moved.REFUND] == -TOTAL_AMOUNT
    await play.play(waiting)
    await play.settle()
    assert (await play.booking(waiting)).status is BookingStatus.PAID
    await play.check()


# Events -------------------------------------------------------------------------------------


async def test_a_lost_event_is_recovered(play: PaymentScenario) -> None:
    """A payment whose event was lost is found by reconciliation."""
    booking = await play.accepted()
    await play.play(booking)
    await play.lose_events()
    assert (await play.booking(booking)).status is BookingStatus.ACCEPTED

    await play.settle()

    assert (await play.booking(booking)).status is BookingStatus.PAID
    await play.check()


async def test_events_are_redelivered(play: PaymentScenario) -> None:
    """A redelivered event has no effect."""
    booking = await play.accepted()
    await play.play(booking)
    events = await play.events_due()
    assert await play.receive_events(events) > 0
    await play.drain()

    assert await play.receive_events(events) == 0
    await play.drain()

    assert await play.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}
    await play.check()


async def test_events_are_reordered(play: PaymentScenario) -> None:
    """Events in reverse order lead to the same result."""
    booking = await play.accepted()
    await play.play(booking)
    await play.bench.outside_world.charge_back(booking.id, "open")
    await play.bench.outside_world.charge_back(booking.id, "lost")
    for event in reversed(await play.events_due()):
        await play.receive_events([event])
        await play.drain()

    booking = await play.finish(booking)

    assert (booking.status, booking.payment_status) == (
        BookingStatus.CANCELLED,
        PaymentStatus.CHARGED_BACK,
    )


async def test_a_forged_event_is_refused(play: PaymentScenario) -> None:
    """An event with an invalid signature is not stored."""
    booking = await play.accepted()
    await play.play(booking)
    forged = [(headers, body + b" ") for headers, body in await play.events_due()]

    assert await play.receive_events(forged) == 0

    await play.drain()
    assert (await play.booking(booking)).status is BookingStatus.ACCEPTED
