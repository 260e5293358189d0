"""Whole bookings while calls fail, the processor is away, and events go astray: on each
processor all money moves once, and the ledger ends as its book.
"""

from __future__ import annotations

from datetime import date

import pytest

from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.payments.ledger import MovementKind as Moved
from staffbooking_core.domain.payments.processor import OpKind
from staffbooking_core.errors import ProcessorUnavailable
from staffbooking_core.usecases.payments import operations
from tests.money.payment_scenarios import CALL_FAULTS, LATER, PAYOUT, TOTAL, Play
from tests.support.builders import HOUR

pytestmark = pytest.mark.anyio


# Calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CALL_FAULTS)
async def test_a_fault_of_each_call_heals(play: Play, kind: str) -> None:
    """Whatever befalls the first call of each kind, all money moves once."""
    await play.fault_all(kind)
    unpaid = await play.accepted()
    await play.rest()
    await play.cancel(unpaid)
    refunded = await play.accepted()
    await play.rest()
    await play.play(refunded)
    await play.drain()
    await play.cancel(refunded)
    await play.rest()
    earned = await play.paid_out(event_date=LATER)
    await play.rest()
    await play.charge_back(earned)
    await play.charge_back(earned, "lost")

    for booking in (unpaid, refunded, earned):
        await play.end(booking)

    assert await play.moved(unpaid) == {}
    assert await play.moved(refunded) == {Moved.PAYMENT: TOTAL, Moved.REFUND: -TOTAL}
    assert await play.moved(earned) == {
        Moved.PAYMENT: TOTAL,
        Moved.PAYOUT: -PAYOUT,
        Moved.CHARGEBACK: -TOTAL,
        Moved.REVERSAL: PAYOUT,
    }


@pytest.mark.parametrize("kind", ["timeout_before", "timeout_after"])
async def test_a_key_is_forgotten(play: Play, kind: str) -> None:
    """A refund whose answer was lost, and with it a day, is looked up and made once."""
    booking = await play.paid()
    await play.jump_to(booking.starts_at - 30 * HOUR)
    await play.fault(OpKind.REFUND, kind)
    await play.cancel(booking)
    assert await operations.run_due(play.ports) == 1
    await play.lose_events()
    play.pass_time(25 * HOUR)
    await play.lose_events()

    booking = await play.end(booking)

    assert await play.moved(booking) == {
        Moved.PAYMENT: TOTAL,
        Moved.REFUND: -TOTAL // 2,
        Moved.PAYOUT: -PAYOUT // 2,
    }


async def test_the_processor_is_down_for_a_day(play: Play) -> None:
    """People hear that it is out of reach, nothing is lost, and all of it is done afterwards."""
    completed, cancelled = await play.completed(), await play.paid(event_date=LATER)
    away = play.cut_off()
    waiting = await away.accepted(event_date=date(2027, 3, 20))
    with pytest.raises(ProcessorUnavailable):
        await away.checkout(waiting)
    await away.cancel(cancelled, play.staff)
    for _ in range(25):
        play.pass_time(HOUR)
        await away.drain()
    assert await play.moved(completed) == {Moved.PAYMENT: TOTAL}

    await play.rest()

    assert (await play.moved(await play.end(completed)))[Moved.PAYOUT] == -PAYOUT
    assert (await play.moved(await play.end(cancelled)))[Moved.REFUND] == -TOTAL
    await play.play(waiting)
    await play.rest()
    assert (await play.booking(waiting)).status is Status.PAID
    await play.check()


# Events -------------------------------------------------------------------------------------


async def test_a_lost_event_is_caught_up_with(play: Play) -> None:
    """That the client paid is known within minutes, though no event told of it."""
    booking = await play.accepted()
    await play.play(booking)
    await play.lose_events()
    assert (await play.booking(booking)).status is Status.ACCEPTED

    await play.rest()

    assert (await play.booking(booking)).status is Status.PAID
    await play.check()


async def test_events_come_twice(play: Play) -> None:
    """An event that comes again is known, and does nothing."""
    booking = await play.accepted()
    await play.play(booking)
    events = await play.events_due()
    assert await play.bring(events) > 0
    await play.drain()

    assert await play.bring(events) == 0
    await play.drain()

    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL}
    await play.check()


async def test_events_come_in_any_order(play: Play) -> None:
    """What was told last may come first: it is looked up, so nothing depends on it."""
    booking = await play.accepted()
    await play.play(booking)
    await play.bench.world.charge_back(booking.id, "open")
    await play.bench.world.charge_back(booking.id, "lost")
    for event in reversed(await play.events_due()):
        await play.bring([event])
        await play.drain()

    booking = await play.end(booking)

    assert (booking.status, booking.payment_status) == (
        Status.CANCELLED,
        PaymentStatus.CHARGED_BACK,
    )


async def test_a_forged_event_is_refused(play: Play) -> None:
    """A body that was not signed as it is, is not even noted."""
    booking = await play.accepted()
    await play.play(booking)
    forged = [(headers, body + b" ") for headers, body in await play.events_due()]

    assert await play.bring(forged) == 0

    await play.drain()
    assert (await play.booking(booking)).status is Status.ACCEPTED
