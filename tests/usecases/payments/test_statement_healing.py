"""Differences between ledger and statement that are resolved by applying them, or by time."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import MINUTE, SECOND
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import ProcessorUnavailable
from staffbooking_core.usecases.payments import (
    operations,
    reconciliation as payments_reconciliation,
)
from staffbooking_core.usecases.payments.statement import ReconciliationProgress
from tests.support.statement import (
    add_surplus_posting,
    difference_texts,
    make_scenario_with_fees,
    reconcile,
    with_altered_statement,
)

pytestmark = pytest.mark.anyio

K = MovementKind
FEE = 1_160


@pytest.fixture
async def scene():
    """A scene whose processor keeps a fee."""
    return await make_scenario_with_fees()


async def lose(scene):
    """Drop all events that are due."""
    await scene.fault("event", "drop", 1000)
    await payments_reconciliation.deliver_sandbox_events(scene.ports)
    await scene.clear_faults()


# Lost events ----------------------------------------------------------------------------


async def unheard(scene):
    """Pay a booking and lose the event."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.simulate_checkout(booking)
    await lose(scene)
    return booking


async def test_what_was_not_heard_of_is_a_difference(scene):
    """A payment and its fee whose event was lost are reported."""
    booking = await unheard(scene)
    assert await difference_texts(scene) == [
        f"the processor has fee ffee_{booking.id}_1 of -{FEE}, the ledger does not",
        f"the processor has payment fpay_{booking.id}_1 of 40000, the ledger does not",
    ]
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED


async def test_applying_takes_it_over(scene):
    """Applying books the payment as its event would, and no difference remains."""
    booking = await unheard(scene)
    assert await reconcile(scene, apply=True) == ([], ReconciliationProgress(checked=1, applied=1))
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))
    assert await scene.faults() == []


async def test_applying_changes_nothing_where_nothing_differs(scene):
    """Bookings without differences are not synced."""
    booking = await scene.paid()
    before = await scene.booking(booking)
    assert await reconcile(scene, apply=True) == ([], ReconciliationProgress(checked=1))
    assert await scene.booking(booking) == before


async def test_what_applying_does_not_heal_is_still_told(scene):
    """A posting without a movement is reported after applying."""
    booking = await scene.paid()
    await add_surplus_posting(scene, booking, "pay:pay_9")
    differences, done = await reconcile(scene, apply=True)
    assert [one.booking_code for one in differences] == [booking.code]
    assert done.applied == 1


@pytest.mark.parametrize("apply", [False, True])
async def test_what_was_done_by_hand_is_told_until_it_is_booked(scene, apply):
    """A manual refund is reported until it is applied, then held in suspense."""
    booking = await scene.paid()
    await scene.ports.payments.dashboard.refund(booking.id, 500)
    await lose(scene)
    assert len(await difference_texts(scene, apply)) == (0 if apply else 1)
    await scene.ports.clock.sleep(300)
    await scene.drain()
    assert await difference_texts(scene) == []
    assert await scene.faults() == []


# In flight ------------------------------------------------------------------------------


async def test_what_is_under_way_is_no_difference(scene):
    """A refund with unknown outcome counts as in flight."""
    booking = await scene.paid()
    await scene.cancel(booking, scene.staff)
    await scene.fault("refund", "timeout_after")
    await operations.run_due_operation(scene.ports)
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1, in_flight=1))
    await scene.settle_down()
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))


async def test_an_event_that_waits_is_under_way(scene):
    """A booking with an event in the inbox counts as in flight."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.simulate_checkout(booking)
    for headers, body in await scene.ports.sandbox.take_due_events(10):
        await payments_reconciliation.receive_webhook(scene.ports, headers, body)
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1, in_flight=1))


async def test_what_only_waits_to_be_sent_hides_nothing(scene):
    """An operation that was never sent does not hide a difference."""
    booking = await scene.paid()
    await scene.cancel(booking, scene.staff)
    await add_surplus_posting(scene, booking, "pay:pay_9")
    assert len(await difference_texts(scene)) == 1


async def test_real_money_may_take_a_while_to_be_told(scene):
    """A recent line is reported only after the grace period."""
    booking = await unheard(scene)
    real = evolve(scene, ports=evolve(scene.ports, sandbox=None))
    assert await reconcile(real) == ([], ReconciliationProgress(checked=1, in_flight=1))
    scene.pass_time(scene.ports.policy.processor_sync_deadline - SECOND)
    assert await difference_texts(real) == []
    scene.pass_time(SECOND)
    assert len(await difference_texts(real)) == 2
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED


async def test_what_moves_while_it_runs_is_under_way(scene):
    """A booking that changes during the comparison counts as in flight."""
    booking = await scene.paid()

    def late(lines):
        at = scene.ports.clock.wall() + MINUTE
        return [*lines, Movement(booking.id, K.REFUND, "re_9", -5, at)]

    real = evolve(scene, ports=evolve(scene.ports, sandbox=None))
    assert await reconcile(with_altered_statement(real, late)) == (
        [],
        ReconciliationProgress(checked=1, in_flight=1),
    )


async def test_a_processor_lost_on_the_way_is_said(scene):
    """A processor that fails during a sync raises ProcessorUnavailable."""
    await unheard(scene)
    with pytest.raises(ProcessorUnavailable):
        await reconcile(with_altered_statement(scene, down=["snapshot"]), apply=True)
