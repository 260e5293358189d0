"""Timers fire in order, each with its own due time."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    POLICY,
    SECOND,
    make_processor_event,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.errors import RuleBroken
from staffbooking_core.usecases import booking_writes, sandbox
from staffbooking_core.usecases.bookings import alerts, timers
from staffbooking_core.usecases.payments import inbox, operations, reconciliation
from tests.support.memory_deployment import make_booking_scenario, with_another_companion

pytestmark = pytest.mark.anyio


async def test_a_request_that_nobody_answers_expires(scene):
    """A pending request expires at the start of the event, and not before."""
    booking = await scene.request()
    await scene.jump_to(booking.starts_at - SECOND)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.PENDING
    await scene.jump_to(booking.starts_at)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.cancelled_by, found.cancel_reason) == (Party.SYSTEM, "expired")


async def test_an_unpaid_booking_expires_at_its_start(scene):
    """An unpaid booking expires at its start, and its checkout page is closed."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.jump_to(booking.starts_at)
    await scene.drain()
    assert (await scene.booking(booking)).cancel_reason == "expired"
    assert [op.status for op in await scene.operations(booking)] == ["done", "done"]


async def test_the_payment_window_ends_before_the_start():
    """A configured payment window runs from the acceptance."""
    scene = await make_booking_scenario(evolve(POLICY, payment_window=6 * HOUR))
    booking = await scene.accepted()
    await scene.jump_to(booking.created_at + 6 * HOUR - SECOND)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED
    await scene.jump_to(booking.created_at + 6 * HOUR)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.CANCELLED


async def test_a_booking_completes_72_hours_after_its_end(scene):
    """A paid booking completes 72 hours after its end, and not before."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at + 72 * HOUR - SECOND)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    await scene.jump_to(booking.ends_at + 72 * HOUR)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.status, found.completed_by) == (BookingStatus.COMPLETED, Party.SYSTEM)
    assert found.completed_at == booking.ends_at + 72 * HOUR


async def test_a_long_jump_does_everything_in_its_own_time(scene):
    """After a jump of a hundred days completion and payout have their due times."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at + 100 * DAY)
    await scene.drain()
    found = await scene.booking(booking)
    done_at = booking.ends_at + 72 * HOUR
    assert (found.completed_at, found.payout_released_at) == (done_at, done_at + DAY)
    assert found.payout_status == "paid"
    assert await scene.faults() == []


async def test_timers_fire_in_due_order_over_all_bookings(scene):
    """Timers fire in the order of due times, new ones included."""
    other = await with_another_companion(scene)
    late = await other.paid(event_date=(await scene.now()).date() + 20 * DAY)
    early = await scene.paid()
    middle = await scene.request(event_date=early.event_date + 4 * DAY, start_time="08:00")
    await scene.jump_to(late.starts_at + 50 * DAY)
    await scene.drain()
    at = [
        (await scene.booking(early)).completed_at,
        (await scene.booking(middle)).cancelled_at,
        (await scene.booking(early)).payout_released_at,
        (await scene.booking(late)).completed_at,
    ]
    assert at == sorted(at)
    assert at[1] == middle.starts_at
    assert await scene.faults() == []


async def test_a_drain_that_is_done_does_nothing(scene):
    """Doing all due work ends, and a second run finds nothing."""
    await scene.paid_out()
    assert await scene.drain() == 0


async def test_void_work_does_not_end_a_drain_early(scene):
    """Void operations count as work, so that the work behind them is done."""
    cancelled = await scene.accepted()
    await scene.cancel(cancelled)
    other = await with_another_companion(scene)
    booking = await other.accepted()
    await scene.drain()
    assert {op.status for op in await scene.operations(cancelled)} == {"void"}
    assert (await scene.booking(booking)).intent.checkout_url is not None


async def test_a_timer_whose_booking_moved_on_is_no_more(scene):
    """A booking that was just confirmed does not complete twice."""
    booking = await scene.completed()
    await scene.jump_to(booking.ends_at + 72 * HOUR)
    await scene.drain()
    assert (await scene.booking(booking)).completed_by is Party.CUSTOMER


async def test_a_dispute_stops_completion_and_payout(scene):
    """No timer fires during a dispute."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at)
    await scene.dispute(booking)
    await scene.jump_to(booking.starts_at + 200 * DAY)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.DISPUTED
    assert await scene.faults() == []


async def test_a_timer_that_fails_is_put_off_and_told(scene, monkeypatch):
    """A failing timer is deferred with an alert and does not block others."""
    other = await with_another_companion(scene)
    first, second = await scene.request(), await other.request()
    down = {first.id}

    async def apply(tx, ports, booking, what):
        if booking.id in down:
            raise RuleBroken("broken", "for a test")
        return await booking_writes.advance_booking(tx, ports, booking, what)

    monkeypatch.setattr(timers, "advance_booking", apply)
    await scene.jump_to(first.starts_at)
    await scene.drain()
    assert (await scene.booking(first)).status is BookingStatus.PENDING
    assert (await scene.booking(second)).status is BookingStatus.CANCELLED
    assert [number for number, _ in scene.ports.notifier.alerts] == [first.id]
    down.clear()
    scene.pass_time(MINUTE)
    await scene.drain()
    assert (await scene.booking(first)).status is BookingStatus.CANCELLED


@pytest.mark.parametrize("window, status", [(HOUR, "cancelled"), (2 * DAY, "accepted")])
async def test_a_timer_follows_a_policy_that_changed(window, status):
    """A timer set under an old policy fires by the new one."""
    scene = await make_booking_scenario(evolve(POLICY, payment_window=DAY))
    booking = await scene.accepted()
    await scene.drain()
    ports = evolve(scene.ports, policy=evolve(scene.ports.policy, payment_window=window))
    changed = evolve(scene, ports=ports)
    await changed.jump_to(booking.created_at + DAY)
    await changed.drain()
    assert (await changed.booking(booking)).status == status
    changed.pass_time(DAY)
    await changed.drain()
    assert (await changed.booking(booking)).cancelled_at == booking.created_at + window


async def test_a_lease_ends_by_wall_time(scene, monkeypatch):
    """The timer of a worker that ended is fired once its lease has ended, by wall time, however far
    business time was moved on."""
    booking = await scene.request()
    await scene.jump_to(booking.starts_at + DAY)
    with monkeypatch.context() as patch:
        patch.setattr(timers, "_fire_timer", crash)
        with pytest.raises(OSError, match="killed"):
            await timers.fire_due_timers(scene.ports)
    assert await timers.fire_due_timers(scene.ports) == 0
    scene.pass_time(POLICY.lease_duration)
    assert await timers.fire_due_timers(scene.ports) == 1


async def test_an_alert_survives_a_crash_while_it_is_sent(scene, monkeypatch):
    """An alert whose sending fails is sent again after its lease has expired."""
    booking = await scene.paid()
    await sandbox.simulate_chargeback(scene.ports, booking.code, "open")
    notifier = scene.ports.notifier
    with monkeypatch.context() as patch:
        patch.setattr(notifier, "alert_operators", crash)
        with pytest.raises(OSError, match="killed"):
            await scene.drain()
    scene.pass_time(POLICY.lease_duration)
    await scene.drain()
    assert [number for number, _ in notifier.alerts] == [booking.id]


async def crash(*_):
    raise OSError("killed")


async def test_alerts_are_told_once(scene):
    """Each alert is sent to the operators once."""
    booking = await scene.paid()
    await scene.charge_back(booking)
    await scene.drain()
    assert [number for number, _ in scene.ports.notifier.alerts] == [booking.id]
    assert await alerts.send_alert(scene.ports) == 0


async def test_a_batch_is_limited(scene):
    """A limit of one claims one timer or one operation."""
    other = await with_another_companion(scene)
    first, _ = await scene.request(), await other.request()
    await scene.jump_to(first.starts_at)
    assert await timers.fire_due_timers(scene.ports, 1) == 1
    assert await operations.run_due_operation(scene.ports) == 0
    assert await timers.fire_due_timers(scene.ports) == 1


async def test_a_payout_is_made_within_48_hours_of_completion(scene):
    """A payout is made 24 hours after completion, and not before."""
    booking = await scene.completed()
    await scene.jump_to(booking.ends_at + DAY - SECOND)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status == "scheduled"
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status == "paid"
    assert await scene.processor_balance() == (await scene.booking(booking)).platform_fee
    await scene.drain()
    assert (await scene.booking(booking)).timeline[-1].trigger is Trigger.CONFIRM


class ProcessorOutOfReach:
    """A processor whose snapshots have an unknown outcome."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def snapshot(self, *_):
        raise OutcomeUnknown("no answer")


async def pay_unprocessed(scene, booking):
    """Pay a booking whose event stays in the inbox."""
    await scene.simulate_checkout(booking)
    for headers, body in await scene.ports.sandbox.take_due_events(16):
        await reconciliation.receive_webhook(scene.ports, headers, body)


@pytest.mark.parametrize("window", [None, 6 * HOUR])
async def test_a_payment_in_the_inbox_is_awaited(window):
    """A booking whose payment waits in the inbox does not expire, and is paid once the event is
    processed."""
    scene = await make_booking_scenario(evolve(POLICY, payment_window=window))
    booking = await scene.accepted()
    await pay_unprocessed(scene, booking)
    await scene.jump_to(booking.starts_at)
    await timers.fire_due_timers(scene.ports)
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED
    await scene.drain()
    assert (await scene.booking(booking)).paid_at is not None
    assert await scene.faults() == []


async def test_an_event_that_fails_for_good_is_awaited_for_some_time(scene):
    """A booking expires at its due time although its event was never processed, after waits of
    less than half an hour."""
    booking = await scene.accepted()
    await pay_unprocessed(scene, booking)
    down = evolve(scene.ports, payments=ProcessorOutOfReach(scene.ports.payments))
    await scene.jump_to(booking.starts_at)
    for minutes in range(30):
        await timers.fire_due_timers(down)
        await reconciliation.process_event(down)
        found = await scene.booking(booking)
        assert minutes >= 15 or found.status is BookingStatus.ACCEPTED
        scene.pass_time(MINUTE)
    assert (found.cancel_reason, found.cancelled_at) == ("expired", booking.starts_at)


async def test_an_event_that_came_too_late_is_not_awaited(scene):
    """A booking expires although its inbox has an event that came after the due time."""
    booking = await scene.accepted()
    scene.pass_time(booking.starts_at + SECOND - await scene.now())
    late = make_processor_event(intent_id=booking.id)
    await inbox.add_events(scene.ports, [late])
    await timers.fire_due_timers(scene.ports)
    assert (await scene.booking(booking)).cancel_reason == "expired"


async def test_a_request_that_nobody_answers_awaits_no_event(scene):
    """A pending request expires whatever is in the inbox: nothing of it can be paid."""
    booking = await scene.request()
    await inbox.add_events(scene.ports, [make_processor_event(intent_id=booking.id)])
    await scene.jump_to(booking.starts_at)
    await timers.fire_due_timers(scene.ports)
    assert (await scene.booking(booking)).cancel_reason == "expired"
