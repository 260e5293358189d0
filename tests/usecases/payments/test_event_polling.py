"""Recovery of lost processor events by the event list and by syncing undecided intents."""

from __future__ import annotations

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import OutcomeUnknown, ProcessorEvent
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import event_polling, operations, reconciliation
from tests.support.memory_deployment import with_another_companion

pytestmark = pytest.mark.anyio


class Away:
    """A processor whose event list is replaced; it is unavailable by default."""

    def __init__(self, inner, pages=None):
        self.inner, self.pages, self.cursors = inner, pages, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def list_events(self, cursor, timeout_seconds):
        self.cursors.append(cursor)
        if self.pages is None:
            raise OutcomeUnknown("no answer in time")
        place = int(cursor.removeprefix("page")) if cursor and cursor.startswith("page") else 0
        if place == len(self.pages):
            return (), cursor
        return self.pages[place], f"page{place + 1}"


def without_a_list(scene, pages=None):
    """The scene with a processor that lists these pages of events, or has no list."""
    away = Away(scene.ports.payments, pages)
    return evolve(scene, ports=evolve(scene.ports, payments=away))


async def paid_unheard(scene):
    """Pay the booking and lose the event."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.simulate_checkout(booking)
    await lose(scene)
    return booking


async def lose(scene):
    """Drop all events that are due."""
    await scene.fault("event", "drop", 1000)
    assert await reconciliation.deliver_sandbox_events(scene.ports) == 0
    await scene.clear_faults()


async def catch_up(scene):
    """Run the worker's polling; return the number of new events."""
    found = await event_polling.poll_events(scene.ports)
    while await reconciliation.process_event(scene.ports):
        pass
    return found


async def status(scene, booking):
    return (await scene.booking(booking)).status


# The event list -------------------------------------------------------------------------


async def test_a_lost_payment_is_found_in_the_list(scene):
    """The next poll, five minutes after the last one, finds the payment."""
    booking = await paid_unheard(scene)
    scene.pass_time(5 * MINUTE - SECOND)
    assert await catch_up(scene) == 0
    scene.pass_time(SECOND)
    assert await catch_up(scene) == 1
    assert await status(scene, booking) is BookingStatus.PAID
    assert await scene.faults() == []


async def test_a_payment_found_after_the_due_time_is_awaited(scene):
    """A booking does not expire while its payment, which a poll found after an outage around the
    due time, waits in the inbox."""
    booking = await paid_unheard(scene)
    scene.pass_time(booking.starts_at - await scene.now() + MINUTE)
    assert await event_polling.poll_event_list(scene.ports) == 1
    await timers.fire_due_timers(scene.ports)
    assert await status(scene, booking) is BookingStatus.ACCEPTED
    await catch_up(scene)
    assert await status(scene, booking) is BookingStatus.PAID


async def test_what_was_brought_is_not_done_again(scene):
    """A listed event that was delivered has the same name and is not new."""
    booking = await scene.paid()
    version = (await scene.booking(booking)).version
    scene.pass_time(5 * MINUTE)
    assert await catch_up(scene) == 0
    assert (await scene.booking(booking)).version == version


async def test_a_second_time_nothing_is_new(scene):
    """The next poll continues at the cursor."""
    booking = await paid_unheard(scene)
    scene.pass_time(5 * MINUTE)
    await catch_up(scene)
    version = (await scene.booking(booking)).version
    scene.pass_time(5 * MINUTE)
    assert await catch_up(scene) == 0
    assert (await scene.booking(booking)).version == version


@pytest.mark.parametrize(
    "kind, status", [("won", BookingStatus.COMPLETED), ("lost", BookingStatus.CANCELLED)]
)
async def test_a_lost_verdict_is_found_in_the_list(scene, kind, status):
    """The list finds the verdict of a charged back booking."""
    booking = await scene.paid()
    await scene.ports.sandbox.chargeback(booking.id, "open")
    await scene.ports.sandbox.chargeback(booking.id, kind)
    await lose(scene)
    scene.pass_time(5 * MINUTE)
    await catch_up(scene)
    assert (await scene.booking(booking)).status is status
    await scene.settle_down()
    assert await scene.faults() == []


async def test_a_long_list_is_read_to_its_end(scene):
    """One poll reads all pages of the list."""
    booking = await paid_unheard(scene)
    other = [ProcessorEvent(f"event{number}", intent_id=999) for number in range(3)]
    pages = [[other[0]], [other[1]], [other[2]], [ProcessorEvent("lost", intent_id=booking.id)]]
    scene.pass_time(5 * MINUTE)
    scene = without_a_list(scene, pages)
    assert await catch_up(scene) == 4
    assert scene.ports.payments.cursors[1:] == ["page1", "page2", "page3", "page4"]
    assert await status(scene, booking) is BookingStatus.PAID


async def test_a_list_that_never_ends_is_left_for_a_while(scene):
    """A poll stops after its maximum number of calls."""
    pages = [[ProcessorEvent(f"event{number}", intent_id=999)] for number in range(1000)]
    scene = without_a_list(scene, pages)
    assert 0 < await catch_up(scene) < 100
    assert await catch_up(scene) == 0
    scene.pass_time(5 * MINUTE)
    assert await catch_up(scene) > 0


async def test_a_list_out_of_reach_is_asked_for_again(scene):
    """A failed poll raises nothing, and the next one continues at the cursor."""
    await scene.drain()
    known = (await cursor(scene))[0]
    scene.pass_time(5 * MINUTE)
    away = without_a_list(scene)
    for _ in range(2):
        assert await catch_up(away) == 0
    assert away.ports.payments.cursors == [known, known]
    assert (await cursor(scene))[0] == known


async def test_when_it_was_last_read_is_known(scene):
    """The cursor keeps the wall time of the last successful poll."""
    await catch_up(scene)
    at = scene.ports.clock.wall()
    scene.pass_time(5 * MINUTE)
    await catch_up(without_a_list(scene))
    assert (await cursor(scene))[1] == at


async def cursor(scene):
    async with scene.ports.store.read_view() as view:
        return await view.cursors.cursor(scene.ports.payments.name)


# Syncs ----------------------------------------------------------------------------------


async def test_a_lost_payment_is_found_by_looking(scene):
    """A sync finds the payment from a quarter of an hour after acceptance, without a list."""
    scene = without_a_list(scene)
    booking = await paid_unheard(scene)
    await scene.jump_to(booking.accepted_at + 15 * MINUTE - SECOND)
    assert await catch_up(scene) == 0
    await scene.jump_to(booking.accepted_at + 15 * MINUTE)
    assert await catch_up(scene) == 1
    assert await status(scene, booking) is BookingStatus.PAID
    assert await scene.faults() == []


async def test_an_open_page_is_looked_at_now_and_then(scene):
    """An open page is synced every quarter of an hour, until an hour after it has expired."""
    scene = without_a_list(scene)
    booking = await scene.accepted()
    await scene.drain()
    lapses = (await scene.booking(booking)).intent.checkout_expires_at
    await scene.jump_to(booking.accepted_at + 15 * MINUTE)
    looks = [await catch_up(scene) for _ in range(2)]
    await scene.jump_to(booking.accepted_at + 30 * MINUTE)
    looks.append(await catch_up(scene))
    await scene.jump_to(lapses + HOUR - SECOND)
    looks.append(await catch_up(scene))
    await scene.jump_to(lapses + HOUR + 15 * MINUTE)
    looks.append(await catch_up(scene))
    assert looks == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("make", ["request", "paid", "completed", "paid_out"])
async def test_what_is_decided_is_not_looked_at(scene, make):
    """A booking is not synced before it has a page, or after it was paid."""
    scene = without_a_list(scene)
    await getattr(scene, make)()
    await scene.drain()
    await scene.jump_to(await scene.now() + HOUR)
    assert await catch_up(scene) == 0


async def refunded_unheard(scene):
    """Settle a refund and lose its event."""
    booking = await scene.paid()
    await scene.fault("refund", "pending_then_settled")
    await scene.cancel(booking, scene.staff)
    await operations.run_due_operation(scene.ports)
    await reconciliation.deliver_sandbox_events(scene.ports)
    await scene.jump_to(await scene.now() + 2 * MINUTE)
    await lose(scene)
    assert (await scene.booking(booking)).payment_status == "refund_pending"
    return booking


async def test_a_lost_refund_is_found_in_the_list(scene):
    """The list finds a settled refund."""
    booking = await refunded_unheard(scene)
    scene.pass_time(5 * MINUTE)
    await catch_up(scene)
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert await scene.faults() == []


async def test_a_lost_refund_is_found_by_looking(scene):
    """A sync finds a settled refund within six hours."""
    scene = without_a_list(scene)
    booking = await refunded_unheard(scene)
    await catch_up(scene)
    await scene.jump_to(await scene.now() + 6 * HOUR)
    assert await catch_up(scene) == 1
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert await scene.faults() == []


@pytest.mark.parametrize(
    "kind, status", [("won", BookingStatus.COMPLETED), ("lost", BookingStatus.CANCELLED)]
)
async def test_a_lost_verdict_is_found_by_looking(scene, kind, status):
    """A sync finds the verdict of a chargeback within six hours, without a list."""
    scene = without_a_list(scene)
    booking = await scene.paid()
    await scene.charge_back(booking)
    await catch_up(scene)
    await scene.ports.sandbox.chargeback(booking.id, kind)
    await lose(scene)
    await scene.jump_to(await scene.now() + 6 * HOUR)
    assert await catch_up(scene) == 1
    assert (await scene.booking(booking)).status is status
    await scene.settle_down()
    assert await scene.faults() == []


async def test_a_verdict_that_the_list_forgot_is_found_by_looking(scene):
    """A jump of the clock beyond the list's 30 days loses no verdict."""
    booking = await scene.paid()
    await scene.charge_back(booking)
    await scene.drain()
    await scene.ports.sandbox.chargeback(booking.id, "won")
    await lose(scene)
    await scene.jump_to(await scene.now() + 31 * DAY)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.COMPLETED


async def test_every_undecided_booking_is_looked_at(scene, monkeypatch):
    """Undecided bookings are synced over several batches."""
    monkeypatch.setattr(event_polling, "BOOKING_BATCH_SIZE", 2)
    accepted = []
    for _ in range(5):
        scene = without_a_list(await with_another_companion(scene))
        accepted.append(await paid_unheard(scene))
    await scene.jump_to(accepted[-1].accepted_at + 15 * MINUTE)
    assert await catch_up(scene) == 5
    assert {await status(scene, booking) for booking in accepted} == {BookingStatus.PAID}


# Both -----------------------------------------------------------------------------------


async def test_two_workers_at_once_do_it_once(scene):
    """Two concurrent workers apply each fact once."""
    booking = await paid_unheard(scene)
    before = await scene.booking(booking)
    scene.pass_time(15 * MINUTE)
    found = []

    async def work():
        found.append(await catch_up(scene))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(work)
    after = await scene.booking(booking)
    assert (after.status, after.version) == (BookingStatus.PAID, before.version + 1)
    assert sum(found) == 1  # A listed booking is not synced too.
    assert await scene.faults() == []


async def test_a_drain_heals_what_was_lost(scene):
    """Running all due work recovers lost events and ends."""
    booking = await paid_unheard(scene)
    scene.pass_time(5 * MINUTE)
    await scene.drain()
    assert await status(scene, booking) is BookingStatus.PAID
    assert await due_work.run_all_due(scene.ports) == 0
