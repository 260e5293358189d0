"""The published version: it rises with what a reader of the record sees, and with nothing else."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY, SECOND
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.errors import VersionMismatch
from staffbooking_core.inputs import CancelBooking, DisputeBooking
from staffbooking_core.representations.bookings import booking_record
from staffbooking_core.usecases.bookings import actions, disputes
from staffbooking_core.usecases.payments import payouts

pytestmark = pytest.mark.anyio


def visible(booking):
    """What an admin reads, without the version."""
    return {**booking_record(booking, Party.ADMIN, POLICY), "version": None}


class Watch:
    """The versions and records of one booking over its life."""

    def __init__(self, scene, booking):
        self.scene, self.seen = scene, booking

    async def check(self):
        """Whether the version rose just where the record changed since the last look."""
        before, self.seen = self.seen, await self.scene.booking(self.seen)
        rose, changed = self.seen.version > before.version, visible(self.seen) != visible(before)
        assert rose == changed, (before, self.seen)
        return rose


async def test_the_version_rises_with_the_record_alone(scene):
    """From request to payout, each version differs from the one before in the record."""
    watch = Watch(scene, await scene.request())
    booking = watch.seen
    await scene.accept(booking)
    assert await watch.check()
    await scene.drain()
    assert not await watch.check()
    await scene.simulate_checkout(booking)
    assert not await watch.check()
    await scene.drain()
    assert await watch.check()
    await scene.jump_to(booking.starts_at)
    await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    assert await watch.check()
    await scene.jump_to(booking.ends_at + 4 * DAY)
    await scene.drain()
    assert await watch.check()
    await scene.jump_to(booking.ends_at + 8 * DAY)
    await scene.drain()
    await watch.check()
    assert watch.seen.payout_status is PayoutStatus.PAID
    assert watch.seen.revision > watch.seen.version


async def test_a_second_check_in_changes_nothing(scene):
    """A second check-in answers the first one: neither the version nor the row changes."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at)
    first = await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    await scene.jump_to(booking.starts_at + HOUR)
    assert await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff) == first
    assert await scene.booking(booking) == first


async def test_a_drain_after_an_acceptance_keeps_the_version(scene):
    """The opened checkout page does not change the version."""
    booking = await scene.accepted()
    await scene.drain()
    found = await scene.booking(booking)
    assert found.intent.checkout_url is not None
    assert found.version == booking.version


async def test_a_renewed_checkout_keeps_the_version(scene):
    """A new checkout page for an expired one does not change the version."""
    booking = await scene.accepted()
    first = await scene.checkout(booking)
    await scene.jump_to(await scene.now() + POLICY.checkout_lifetime)
    assert await scene.checkout(booking) != first
    assert (await scene.booking(booking)).version == booking.version


async def test_a_settled_refund_is_a_version(scene):
    """The settlement of a refund is visible, and is a version of its own."""
    booking = await scene.cancel(await scene.paid(), scene.staff)
    await scene.drain()
    found = await scene.booking(booking)
    assert [refund.settled_at for refund in found.refunds] == [await scene.now()]
    assert found.version == booking.version + 1


async def test_a_payout_alarm_keeps_the_version(scene):
    """The alert about a late payout is not visible in the record."""
    booking = await scene.completed()
    await scene.jump_to(booking.ends_at + DAY)
    await scene.fault("pay_out", "rate_limit", 100)
    await scene.drain()
    before = await scene.booking(booking)
    await scene.jump_to(booking.ends_at + 47 * HOUR)
    await scene.drain()
    found = await scene.booking(booking)
    assert found.payout_alarmed_at is not None
    assert found.version == before.version


async def test_a_hold_is_a_version(scene):
    """A payout that is put on hold is a version, since staff and admins read its status."""
    booking = await scene.completed()
    held = await payouts.hold_payout(scene.ports, booking.code)
    assert held.version == booking.version + 1


# Preconditions ------------------------------------------------------------------------------


async def accept(scene, allowed):
    booking = await scene.request()
    return booking, lambda: actions.accept(scene.ports, scene.staff, booking.id, allowed)


async def decline(scene, allowed):
    booking = await scene.request()
    return booking, lambda: actions.apply_trigger(
        scene.ports, scene.staff, booking.id, Trigger.DECLINE, allowed_versions=allowed
    )


async def checkout(scene, allowed):
    booking = await scene.accepted()
    return booking, lambda: actions.open_checkout(scene.ports, scene.customer, booking.id, allowed)


async def cancel(scene, allowed):
    booking = await scene.accepted()
    return booking, lambda: actions.cancel(
        scene.ports, scene.customer, booking.id, CancelBooking(), allowed
    )


async def dispute(scene, allowed):
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at + SECOND)
    given = DisputeBooking(reason="nobody came")
    return booking, lambda: disputes.open_dispute(
        scene.ports, scene.customer, booking.id, given, allowed
    )


ACTIONS = [accept, decline, checkout, cancel, dispute]


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_on_another_version_changes_nothing(scene, action):
    """An action under another version is refused, and the booking stays as it is."""
    booking, act = await action(scene, frozenset({99}))
    with pytest.raises(VersionMismatch):
        await act()
    assert await scene.booking(booking) == booking


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_on_this_version_is_done(scene, action):
    """An action under the present version is done."""
    booking, act = await action(scene, frozenset(range(9)))
    await act()
    assert (await scene.booking(booking)).revision > booking.revision


async def test_of_two_callers_with_one_version_the_first_wins(scene):
    """Of two changes under the same version the second is refused."""
    booking = await scene.request()
    allowed = frozenset({booking.version})
    await actions.accept(scene.ports, scene.staff, booking.id, allowed)
    with pytest.raises(VersionMismatch):
        await actions.cancel(scene.ports, scene.customer, booking.id, CancelBooking(), allowed)


async def test_the_timeline_names_the_users(scene):
    """Each entry of the timeline has the id of the user who acted; the processor has none."""
    booking = await scene.paid()
    assert [entry.actor_id for entry in booking.timeline] == [
        scene.customer.user_id,
        scene.staff.user_id,
        None,
    ]
