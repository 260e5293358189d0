"""Which events a booking's changes publish, and to whom (CONTRACT 7 and 10)."""

from __future__ import annotations

import json

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR
from staffbooking_core.domain.bookings.lifecycle import Trigger

pytestmark = pytest.mark.anyio


async def published(scene, booking):
    """The envelopes of a booking's events, in their order."""
    async with scene.ports.store.read_view() as view:
        return [json.loads(body) for _, body in await view.bookings.events_of(booking.id)]


async def test_a_paid_out_booking_publishes_each_change(scene):
    """Each visible change of a booking is one event: the table's, or else `booking.updated`."""
    booking = await scene.request()
    await scene.accept(booking)
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    await scene.jump_to(booking.ends_at)
    await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert await scene.events(booking) == [
        "booking.created",
        "booking.accepted",
        "payment.completed",
        "booking.updated",
        "booking.completed",
        "payout.paid",
    ]


async def test_the_last_event_reports_the_version(scene):
    """The versions in a booking's events rise to the stored one, whatever is published."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.cancel(booking)
    await scene.drain()
    versions = [event["data"]["booking"]["version"] for event in await published(scene, booking)]
    assert versions == sorted(set(versions))
    assert versions[-1] == (await scene.booking(booking)).version


async def test_a_change_that_nobody_sees_publishes_nothing(scene):
    """A second check-in changes nothing, and publishes nothing."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    before = await scene.events(booking)
    await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    assert await scene.events(booking) == before


async def test_a_refund_is_published_when_it_succeeds(scene):
    """`payment.refunded` follows the cancellation, with the refund as the record lists it."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.cancel(booking)
    await scene.drain()
    *_, cancelled, refunded = await published(scene, booking)
    assert (cancelled["event"], refunded["event"]) == ("booking.cancelled", "payment.refunded")
    assert [refunded["data"]["refund"]] == refunded["data"]["booking"]["refunds"]
    assert refunded["data"]["refund"]["status"] == "succeeded"


async def test_a_refused_payout_is_published(scene):
    """`payout.failed` has what is owed, for the staff member alone."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(booking.ends_at)
    await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    await scene.fault("pay_out", "refuse")
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    failed = [one for one in await published(scene, booking) if one["event"] == "payout.failed"]
    assert [one["data"]["payout"]["amount"] for one in failed] == [340]
    assert [one["data"]["payout"]["status"] for one in failed] == ["failed"]
