"""The processor's events and facts about payments, and late or wrong payments."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND, make_processor_event
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName
from staffbooking_core.domain.payments.processor import (
    BadEventSignature,
    ChargebackStatus,
    OutcomeUnknown,
    ProcessorError,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.errors import RuleBroken
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import reconciliation
from tests.support.memory_deployment import with_another_companion

pytestmark = pytest.mark.anyio

WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST


# Events ---------------------------------------------------------------------------------


async def test_a_payment_is_told_once(scene):
    """Any number of events of one payment emits payment.completed once, with the status."""
    booking = await scene.accepted()
    await scene.fault("event", "duplicate")
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(await scene.now() + MINUTE)
    await scene.drain()
    async with scene.ports.store.read_view() as view:
        told = [body for _, body in await view.bookings.events_of(booking.id)]
    assert sum(EventName.PAYMENT_COMPLETED.encode() in body for body in told) == 1


@pytest.mark.parametrize("kind", ["delay", "reorder", "bad_signature", "drop"])
async def test_lost_and_late_events_delay_the_news_only(scene, kind):
    """Lost, late and forged events only delay the payment until the next sync."""
    booking = await scene.accepted()
    await scene.checkout(booking)
    await scene.drain()
    await scene.fault("event", kind)
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(await scene.now() + 5 * MINUTE)
    await scene.drain()
    if kind in ("drop", "bad_signature"):
        assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED
        await reconciliation.sync_intent(
            scene.ports, booking.id, scene.ports.policy.processor_timeout
        )
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    assert await scene.faults() == []


async def test_a_look_at_any_time_is_safe(scene):
    """A second sync, before or after the event, changes nothing."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    within = scene.ports.policy.processor_timeout
    await reconciliation.sync_intent(scene.ports, booking.id, within)
    version = (await scene.booking(booking)).version
    await reconciliation.sync_intent(scene.ports, booking.id, within)
    assert (await scene.booking(booking)).version == version
    await reconciliation.sync_intent(scene.ports, 999, within)


async def test_a_forged_event_is_refused(scene):
    """A forged event does not reach the inbox."""
    with pytest.raises(BadEventSignature):
        await reconciliation.receive_webhook(scene.ports, {}, b"{}")
    assert await reconciliation.process_event(scene.ports) == 0


async def test_an_event_is_taken_in_once(scene):
    """A repeated event is not added again."""
    booking = await scene.accepted()
    await scene.checkout(booking)
    ((headers, body), *_) = await scene.ports.sandbox.take_due_events(10)
    assert await reconciliation.receive_webhook(scene.ports, headers, body) == 1
    assert await reconciliation.receive_webhook(scene.ports, headers, body) == 0
    assert await reconciliation.process_event(scene.ports) == 1
    assert await reconciliation.process_event(scene.ports) == 0


async def test_an_event_is_looked_at_again_when_the_processor_is_away(scene):
    """An event stays in the inbox until a sync succeeds."""
    booking = await scene.accepted()
    await scene.checkout(booking)
    await scene.drain()
    await scene.simulate_checkout(booking)
    real = scene.ports.payments

    class Away:
        name = real.name
        parse_webhook = real.parse_webhook

        async def snapshot(self, intent_id, timeout_seconds):
            raise ProcessorError

    away = evolve(scene, ports=evolve(scene.ports, payments=Away()))
    await reconciliation.deliver_sandbox_events(away.ports)
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED
    assert await reconciliation.process_event(scene.ports) == 0
    scene.pass_time(reconciliation.SYNC_RETRY_DELAY)
    assert await reconciliation.process_event(scene.ports) == 1
    assert (await scene.booking(booking)).status is BookingStatus.PAID


@pytest.mark.parametrize(
    "known, status", [(True, BookingStatus.PAID), (False, BookingStatus.ACCEPTED)]
)
async def test_an_event_may_name_a_payment(scene, known, status):
    """An event of a payment is resolved to its intent; a foreign payment is ignored."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    ref = f"fpay_{booking.id if known else 999}_1"
    event = make_processor_event(intent_id=None, payment_ref=ref)
    now = scene.ports.clock.wall()
    await scene.ports.store.run_transaction(lambda tx: tx.inbox.add_event("fake", event, now))
    assert await reconciliation.process_event(scene.ports) == 1
    assert (await scene.booking(booking)).status is status
    assert await reconciliation.process_event(scene.ports) == 0


async def test_a_fact_that_can_not_be_booked_stops_no_other(scene, monkeypatch):
    """A fact that cannot be booked raises an alert, and the next event is processed."""
    other = await with_another_companion(scene)
    first, second = await scene.accepted(), await other.accepted()
    for booking in (first, second):
        await scene.simulate_checkout(booking)
    real = reconciliation.apply_snapshot

    async def apply_snapshot(tx, ports, snapshot, *rest, **options):
        if snapshot.intent_id == first.id:
            raise RuleBroken("broken", "for a test")
        await real(tx, ports, snapshot, *rest, **options)

    monkeypatch.setattr(reconciliation, "apply_snapshot", apply_snapshot)
    await scene.drain()
    assert (await scene.booking(second)).status is BookingStatus.PAID
    assert {number for number, _ in scene.ports.notifier.alerts} == {first.id}


async def test_an_event_that_is_refused_is_told_and_done(scene, monkeypatch):
    """An event of an object that the processor refuses is finished with an alert."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    refused = ProcessorRefused(RefusalCode.MISSING)
    monkeypatch.setattr(scene.ports.payments, "snapshot", failing(refused), raising=False)
    await scene.drain()
    assert {number for number, _ in scene.ports.notifier.alerts} == {booking.id}
    scene.pass_time(MINUTE)
    assert await reconciliation.process_event(scene.ports) == 0


async def test_what_is_tried_again_keeps_no_news_waiting(scene, monkeypatch):
    """A new event is processed before failed ones."""
    first = await scene.accepted()
    for number in range(3):
        event = make_processor_event(
            intent_id=first.id + 100 + number, payment_ref=f"fpay_{number}"
        )
        await scene.ports.store.run_transaction(
            lambda tx, event=event: tx.inbox.add_event("fake", event, scene.ports.clock.wall())
        )
    monkeypatch.setattr(
        scene.ports.payments, "find_intent", failing(OutcomeUnknown()), raising=False
    )
    for _ in range(3):
        assert await reconciliation.process_event(scene.ports) == 1
    scene.pass_time(reconciliation.SYNC_RETRY_DELAY - SECOND)
    await scene.simulate_checkout(first)
    fresh, now = make_processor_event(intent_id=first.id), scene.ports.clock.wall()
    await scene.ports.store.run_transaction(lambda tx: tx.inbox.add_event("fake", fresh, now))
    scene.pass_time(SECOND)
    assert await reconciliation.process_event(scene.ports) == 1
    assert (await scene.booking(first)).status is BookingStatus.PAID


async def test_a_slow_sync_does_not_hold_the_events_behind_it(scene, monkeypatch):
    """While one event is synced, another worker claims and syncs the next."""
    other = await with_another_companion(scene)
    first, second = await scene.accepted(), await other.accepted()
    for booking in (first, second):
        await scene.simulate_checkout(booking)
    for headers, body in await scene.ports.sandbox.take_due_events(10):
        await reconciliation.receive_webhook(scene.ports, headers, body)
    take = scene.ports.payments.snapshot

    async def slow(refs, timeout_seconds):
        monkeypatch.setattr(scene.ports.payments, "snapshot", take, raising=False)
        while await reconciliation.process_event(scene.ports):
            pass
        assert (await scene.booking(second)).status is BookingStatus.PAID
        return await take(refs, timeout_seconds)

    monkeypatch.setattr(scene.ports.payments, "snapshot", slow, raising=False)
    await reconciliation.process_event(scene.ports)
    assert (await scene.booking(first)).status is BookingStatus.PAID


def failing(error):
    async def call(*_):
        raise error

    return call


async def test_a_stale_snapshot_does_not_undo_a_later_verdict(scene, monkeypatch):
    """A snapshot with a won chargeback that is applied after the appeal was lost changes nothing;
    the next sync reads the processor again."""
    booking = await scene.paid()
    for outcome in ("open", "won"):
        await scene.charge_back(booking, outcome)
        await scene.drain()
    await apply_late(scene, monkeypatch, booking, WON, LOST)
    assert (await scene.booking(booking)).chargeback_status is LOST
    await scene.drain()
    assert changed_verdicts(scene) == 1


async def test_a_stale_snapshot_does_not_undo_a_verdict_that_changed_twice(scene, monkeypatch):
    """A snapshot that was taken while a verdict was lost, and is applied after it was won again,
    changes nothing."""
    booking = await scene.paid()
    await scene.charge_back(booking, "won")
    await scene.drain()
    await apply_late(scene, monkeypatch, booking, LOST, LOST, WON)
    assert (await scene.booking(booking)).chargeback_status is WON
    await scene.drain()
    assert changed_verdicts(scene) == 2


async def test_a_stale_snapshot_does_not_undo_a_verdict_that_was_confirmed(scene, monkeypatch):
    """A snapshot that was taken while a verdict was lost, and is applied after a newer one that
    found it won, as was known, changes nothing."""
    booking = await scene.paid()
    await scene.charge_back(booking, "won")
    await scene.drain()
    await apply_late(scene, monkeypatch, booking, LOST, WON)
    assert (await scene.booking(booking)).chargeback_status is WON
    await scene.drain()
    assert changed_verdicts(scene) == 0


async def test_a_stale_snapshot_does_not_undo_a_verdict_on_a_late_payment(scene, monkeypatch):
    """A stale verdict on the chargeback of a late payment changes nothing either."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.cancel(booking)
    await scene.charge_back(booking, "won")
    await scene.drain()
    await apply_late(scene, monkeypatch, booking, WON, LOST)
    await scene.drain()
    assert changed_verdicts(scene) == 1


def changed_verdicts(scene):
    """The number of alerts about changed verdicts."""
    return sum("another verdict" in text for _, text in scene.ports.notifier.alerts)


async def apply_late(scene, monkeypatch, booking, late, *verdicts):
    """Apply a snapshot with the verdict `late` after others with `verdicts`, which were taken while
    it was on its way."""
    take, limit = scene.ports.payments.snapshot, scene.ports.policy.processor_timeout

    def taking(verdict, meanwhile=()):
        async def snapshot(refs, timeout_seconds):
            current = await take(refs, timeout_seconds)
            for other in meanwhile:
                await sync(taking(other))
            decided = (evolve(one, status=verdict) for one in current.chargebacks)
            return evolve(current, chargebacks=tuple(decided))

        return snapshot

    async def sync(snapshot):
        monkeypatch.setattr(scene.ports.payments, "snapshot", snapshot, raising=False)
        await reconciliation.sync_intent(scene.ports, booking.id, limit)

    await sync(taking(late, verdicts))
    monkeypatch.setattr(scene.ports.payments, "snapshot", taking(verdicts[-1]), raising=False)


# Late payments --------------------------------------------------------------------------


async def test_a_payment_after_the_cancellation_is_refunded(scene):
    """A late payment of a cancelled booking is refunded, without payment.completed."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.cancel(booking)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.status, found.payment_status) == (BookingStatus.CANCELLED, "refunded")
    assert found.refunded_amount == 40_000
    assert EventName.PAYMENT_COMPLETED not in await scene.events(booking)
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []


@pytest.mark.parametrize("verdict", ["won", "lost"])
async def test_changed_verdicts_on_a_late_payment_are_booked(scene, verdict):
    """The money of a late payment's chargeback moves with each changed verdict, and the operators
    are told."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.cancel(booking)
    await scene.charge_back(booking, verdict)
    await scene.drain()
    for told in (1, 2, 3):
        await scene.ports.payments.dashboard.overturn_chargebacks(booking.id)
        await scene.drain()
        assert await scene.faults() == []
        assert changed_verdicts(scene) == told


async def test_a_page_paid_in_the_moment_of_closing_is_refunded(scene):
    """Closing a page that was paid refunds the payment without any event."""
    booking = await scene.accepted()
    await scene.checkout(booking)
    await scene.drain()
    await scene.fault("event", "drop", 10)
    await scene.simulate_checkout(booking)
    await scene.cancel(booking)
    await scene.drain()
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert await scene.processor_balance() == 0


async def test_an_expired_bookings_payment_is_refunded(scene):
    """A payment made a second before the start and seen after it is refunded."""
    booking = await scene.accepted()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.simulate_checkout(booking)
    await scene.jump_to(booking.starts_at)
    await timers.fire_due_timers(scene.ports)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.cancel_reason, found.payment_status) == ("expired", "refunded")
    assert await scene.faults() == []


async def test_the_slot_of_a_late_payment_stays_free(scene):
    """A late payment does not hold the slot."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.cancel(booking, scene.staff)
    other = await scene.accepted()
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.CANCELLED
    assert (await scene.booking(other)).status is BookingStatus.ACCEPTED


@pytest.mark.parametrize(
    "ends, owed", [("pending_then_settled", 0), ("pending_then_failed", 40_000)]
)
async def test_a_refund_that_takes_its_time_ends_later(scene, ends, owed):
    """A pending refund is settled later, or fails, is owed again and raises an alert."""
    booking = await scene.paid()
    await scene.fault("refund", ends)
    await scene.cancel(booking, scene.staff)
    await scene.drain()
    assert (await scene.booking(booking)).payment_status == "refund_pending"
    assert await scene.faults() == []
    await scene.jump_to(await scene.now() + HOUR)
    await scene.drain()
    assert await scene.processor_balance() == owed
    assert await scene.faults() == []
    assert len(scene.ports.notifier.alerts) == (1 if owed else 0)


async def test_a_payee_who_is_not_ready_is_paid_later(scene):
    """A payout to a payee that is not ready fails, and is sent when the payee is ready."""
    ready = scene.ports.payments.dashboard.set_payee_ready
    booking = await scene.completed()
    await ready(scene.staff.user_id, False)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status == "failed"
    assert await scene.faults() == []
    await ready(scene.staff.user_id, True)
    await scene.settle_down()
    found = await scene.booking(booking)
    assert (found.payout_status, found.paid_out) == ("paid", 34_000)
    assert len(scene.ports.notifier.alerts) == 1
    assert await scene.faults() == []
