"""Races for money in two processes on each database: a booking is paid or refunded, never both.

The processor's documents are in the same database, in transactions of their own, as those of a
real processor would be. `RACE_ROUNDS` and `RACE_CALLERS` make the races longer (`make soak`).
"""

from __future__ import annotations

from functools import partial

import pytest

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.sql.sandbox.fake_documents import SqlFakeDocumentStore
from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, POLICY
from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.usecases.payments import reconciliation
from tests.contract.test_races import (
    ROUNDS,
    alternate,
    at_once,
    new_scenarios,
    processes,
    statuses,
    successes,
)
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

__all__ = ["processes"]


@pytest.fixture
async def ports(processes):
    """The ports of each process, with the processor's documents in the database."""
    made = []
    for store in processes:
        clock = VirtualClock(NOW, store=store)
        book = SqlFakeDocumentStore(store.database)
        processor = FakeProcessor(book, clock, base_url=POLICY.base_url, secret=b"events")
        made.append(
            memory_ports(
                store=store,
                admission=store.admission,
                clock=clock,
                payments=processor,
                sandbox=processor.sandbox,
            )
        )
    return made


async def accepted(ports):
    """A booking with an open payment page in each process, and the page's reference."""
    scenes = await new_scenarios(ports)
    booking = await scenes[0].accepted()
    page = await scenes[0].checkout(booking)
    return scenes, booking, page.rpartition("/")[2]


async def settled(scenes, booking):
    """The booking after all pending work is done."""
    for scene in scenes:
        await scene.settle_down()
    assert await scenes[0].faults() == []
    return await scenes[0].booking(booking)


async def test_a_booking_is_paid_once(ports):
    """Concurrent payments and syncs of one page give one payment and one event."""
    for _ in range(ROUNDS):
        scenes, booking, ref = await accepted(ports)
        calls = []
        for n, each in enumerate(alternate(ports)):
            pay = partial(each.sandbox.simulate_checkout, ref, "succeed")
            look = partial(reconciliation.sync_intent, each, booking.id, HOUR)
            calls.append(look if n % 2 else pay)
        await at_once(calls)
        paid = await settled(scenes, booking)
        assert (paid.status, paid.escrow) == (BookingStatus.PAID, paid.total_amount)
        assert paid.intent.extra_payments == ()
        assert "payment.completed" in await scenes[0].events(booking)


async def test_a_concurrent_cancellation_and_payment_leave_no_escrow(ports):
    """A booking cancelled during its payment is refunded in full or not paid at all."""
    for _ in range(ROUNDS):
        scenes, booking, ref = await accepted(ports)
        calls = []
        for n, each in enumerate(alternate(scenes)):
            pay = partial(each.ports.sandbox.simulate_checkout, ref, "succeed")
            deliver = partial(reconciliation.deliver_sandbox_events, each.ports)
            calls.append((partial(each.cancel, booking), pay, deliver)[n % 3])
        await at_once(calls)
        found = await settled(scenes, booking)
        assert found.status is BookingStatus.CANCELLED
        assert (found.escrow, found.paid_out) == (0, 0)
        assert found.payment_status in (PaymentStatus.VOID, PaymentStatus.REFUNDED)
        refunded = found.total_amount if found.payment_status is PaymentStatus.REFUNDED else 0
        assert found.refunded_amount == refunded


async def test_a_payout_is_sent_once(ports):
    """Concurrent workers release and send a due payout once."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        ahead = (await scenes[0].now() + 3 * DAY).date()
        booking = await scenes[0].completed(event_date=ahead)
        await scenes[0].jump_to(booking.ends_at + 25 * HOUR)
        await at_once([partial(each.drain) for each in alternate(scenes)])
        paid = await settled(scenes, booking)
        assert (paid.paid_out, paid.payout_left) == (paid.payout_amount, 0)


async def test_a_refund_is_made_once(ports):
    """Of concurrent cancellations of a paid booking one succeeds, and the booking is refunded."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        booking = await scenes[0].paid()
        cancel = [partial(each.cancel, booking) for each in alternate(scenes)]
        assert len(successes(await at_once(cancel))) == 1
        await at_once([partial(each.drain) for each in alternate(scenes)])
        found = await settled(scenes, booking)
        assert found.payment_status is PaymentStatus.REFUNDED
        assert await statuses(scenes[0], [booking]) == {BookingStatus.CANCELLED: 1}
