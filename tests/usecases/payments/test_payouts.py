"""Payouts managed by operators: holds, releases, retries and alarms."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import IntentRefs, OperationKind
from staffbooking_core.errors import NotFound, RuleBroken, VersionMismatch
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import operations, payouts

pytestmark = pytest.mark.anyio

PAYOUT, FEE = 34_000, 6_000


async def code_of(call):
    with pytest.raises(RuleBroken) as caught:
        await call
    return caught.value.code


async def due(scene):
    """A completed booking whose payout is due and not processed."""
    booking = await scene.completed()
    await scene.jump_to(booking.ends_at + DAY)
    return booking


async def failed(scene, reason="insufficient_funds", times=1):
    """A booking whose payout was refused and waits for its retry."""
    booking = await due(scene)
    await scene.fault("pay_out", f"refuse:{reason}", times)
    await scene.drain()
    return await scene.booking(booking)


async def made(scene, booking):
    """The amounts of the payouts at the processor."""
    snapshot = await scene.ports.payments.snapshot(IntentRefs(booking.id), 5.0)
    return [payout.amount for payout in snapshot.payouts]


async def orders(scene, booking):
    """The status of each payout operation, the oldest first."""
    ordered = await scene.operations(booking)
    return [str(one.status) for one in ordered if one.kind is OperationKind.PAY_OUT]


def alerts(scene, text):
    return [told for _, told in scene.ports.notifier.alerts if text in told]


# Hold and release -----------------------------------------------------------------------


async def test_a_held_payout_is_not_made_until_it_is_let_go(scene):
    """A payout on hold is made only after its release, then at once."""
    booking = await scene.completed()
    held = await payouts.hold_payout(scene.ports, booking.code, "looks odd")
    assert held.payout_status is PayoutStatus.FROZEN
    await scene.jump_to(booking.ends_at + 20 * DAY)
    await scene.drain()
    assert await made(scene, booking) == []
    assert alerts(scene, "is not made yet") == []
    released = await payouts.release_payout(scene.ports, booking.code)
    assert released.payout_status is PayoutStatus.SCHEDULED
    await scene.drain()
    assert await made(scene, booking) == [PAYOUT]
    assert await scene.processor_balance() == FEE
    assert await scene.faults() == []


async def test_a_payout_let_go_in_time_keeps_its_due_time(scene):
    """A payout released early is made 24 hours after completion."""
    booking = await scene.completed()
    await payouts.hold_payout(scene.ports, booking.code)
    await payouts.release_payout(scene.ports, booking.code)
    await scene.jump_to(booking.ends_at + DAY - SECOND)
    await scene.drain()
    assert await made(scene, booking) == []
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert await made(scene, booking) == [PAYOUT]


async def test_a_refused_payout_that_is_held_is_not_tried_again(scene):
    """A hold voids the refused operation, and the release orders another one."""
    booking = await failed(scene)
    await payouts.hold_payout(scene.ports, booking.code)
    scene.pass_time(HOUR)
    await scene.drain()
    assert (await orders(scene, booking), await made(scene, booking)) == (["void"], [])
    await payouts.release_payout(scene.ports, booking.code)
    await scene.drain()
    assert await orders(scene, booking) == ["void", "done"]
    assert await made(scene, booking) == [PAYOUT]
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID
    assert await scene.faults() == []


@pytest.mark.parametrize("kind, statuses", [("timeout_before", 2), ("timeout_after", 1)])
async def test_a_payout_of_unknown_outcome_that_is_held_is_made_once(scene, kind, statuses):
    """A held unknown payout is looked up, and ordered again on release only if it was not made."""
    booking = await due(scene)
    await timers.fire_due_timers(scene.ports)
    await scene.fault("pay_out", kind)
    await operations.run_due_operation(scene.ports)
    await payouts.hold_payout(scene.ports, booking.code)
    await scene.settle_down()
    if (await scene.booking(booking)).payout_status is PayoutStatus.FROZEN:
        await payouts.release_payout(scene.ports, booking.code)
    await scene.settle_down()
    assert await made(scene, booking) == [PAYOUT]
    assert len(await orders(scene, booking)) == statuses
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID
    assert await scene.faults() == []


async def test_a_held_payout_can_still_be_disputed(scene):
    """A dispute of a held payout refunds the customer."""
    booking = await scene.completed()
    await payouts.hold_payout(scene.ports, booking.code)
    await scene.jump_to(booking.ends_at + 9 * DAY)
    assert (await scene.dispute(booking)).status is BookingStatus.DISPUTED


@pytest.mark.parametrize("act", [payouts.hold_payout, payouts.release_payout, payouts.retry_payout])
async def test_a_booking_that_is_not_there(scene, act):
    """An unknown booking raises NotFound."""
    with pytest.raises(NotFound):
        await act(scene.ports, "BK000000000000")


@pytest.mark.parametrize(
    "act, code",
    [
        (payouts.hold_payout, "payout_not_pending"),
        (payouts.release_payout, "payout_not_on_hold"),
        (payouts.retry_payout, "payout_not_failed"),
    ],
)
@pytest.mark.parametrize("make", ["accepted", "paid", "paid_out"])
async def test_a_payout_that_is_not_to_be_made_is_left_alone(scene, make, act, code):
    """A payout that does not exist or was made cannot be held, released or retried."""
    booking = await getattr(scene, make)()
    before = await scene.booking(booking)
    assert await code_of(act(scene.ports, booking.code)) == code
    assert await scene.booking(booking) == before


async def test_a_payout_is_held_once(scene):
    """A second hold raises RuleBroken."""
    booking = await scene.completed()
    await payouts.hold_payout(scene.ports, booking.code)
    assert await code_of(payouts.hold_payout(scene.ports, booking.code)) == "payout_not_pending"


# Retry ----------------------------------------------------------------------------------


async def test_a_failed_payout_is_retried_at_once(scene):
    """A retry orders the payout again and returns its outcome."""
    booking = await failed(scene)
    retried = await payouts.retry_payout(scene.ports, booking.code)
    assert retried.payout_status is PayoutStatus.PAID
    assert await orders(scene, booking) == ["void", "done"]
    assert await made(scene, booking) == [PAYOUT]
    assert await scene.faults() == []


async def test_a_payout_that_was_refused_for_good_is_retried(scene):
    """A payout that is not retried automatically can be retried by an operator."""
    booking = await failed(scene, "invalid")
    scene.pass_time(10 * HOUR)
    await scene.drain()
    assert await made(scene, booking) == []
    retried = await payouts.retry_payout(scene.ports, booking.code)
    assert retried.payout_status is PayoutStatus.PAID
    assert await orders(scene, booking) == ["refused", "done"]


async def test_a_retry_that_fails_again_says_so(scene):
    """A retry that fails again returns the failure and continues automatically."""
    booking = await failed(scene, times=2)
    retried = await payouts.retry_payout(scene.ports, booking.code)
    assert retried.payout_status is PayoutStatus.FAILED
    await scene.settle_down()
    assert await made(scene, booking) == [PAYOUT]
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID
    assert await scene.faults() == []


async def test_a_payout_that_waits_for_its_next_try_is_tried_now(scene):
    """A retry of an unknown payout creates no second operation."""
    booking = await due(scene)
    await scene.fault("pay_out", "timeout_before")
    await scene.drain()
    retried = await payouts.retry_payout(scene.ports, booking.code)
    assert retried.payout_status is PayoutStatus.PAID
    assert await orders(scene, booking) == ["done"]


async def test_a_retry_of_an_unknown_outcome_makes_no_second_payout(scene):
    """A new operation waits until the outcome of the old one is known."""
    booking = await failed(scene)
    await scene.fault("pay_out", "timeout_after")
    scene.pass_time(MINUTE)
    await operations.run_due_operation(scene.ports)
    assert await orders(scene, booking) == ["unknown"]
    await payouts.retry_payout(scene.ports, booking.code)
    await scene.settle_down()
    assert await made(scene, booking) == [PAYOUT]
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID
    assert await scene.faults() == []


async def test_a_hold_overtakes_a_retry_under_the_version_before_it(scene, monkeypatch):
    """A waiting payout is not retried under a version that a hold has raised meanwhile."""
    booking = await due(scene)
    await scene.fault("pay_out", "timeout_before")
    await scene.drain()
    seen, write = await scene.booking(booking), scene.ports.store.run_transaction

    async def hold_before(work):
        monkeypatch.setattr(scene.ports.store, "run_transaction", write)
        await payouts.hold_payout(scene.ports, booking.code)
        return await write(work)

    monkeypatch.setattr(scene.ports.store, "run_transaction", hold_before)
    with pytest.raises(VersionMismatch):
        await payouts.retry_payout(scene.ports, booking.code, frozenset({seen.version}))


async def test_a_payout_that_is_not_due_yet_is_not_retried(scene):
    """A payout that is not due cannot be retried."""
    booking = await scene.completed()
    assert await code_of(payouts.retry_payout(scene.ports, booking.code)) == "payout_not_failed"
    assert await made(scene, booking) == []


# Alarm ----------------------------------------------------------------------------------


async def test_operators_are_told_of_a_payout_before_it_is_late(scene):
    """Operators get one alert 42 hours after completion."""
    booking = await failed(scene, times=1000)
    await scene.jump_to(booking.ends_at + 42 * HOUR - SECOND)
    await scene.drain()
    assert alerts(scene, "is not made yet") == []
    await scene.jump_to(booking.ends_at + 42 * HOUR)
    await scene.drain()
    (text,) = alerts(scene, "is not made yet")
    assert booking.code in text
    await scene.jump_to(booking.ends_at + 90 * DAY)
    await scene.drain()
    assert len(alerts(scene, "is not made yet")) == 1
    await scene.clear_faults()
    await scene.settle_down()
    assert (await scene.booking(booking)).payout_status is PayoutStatus.PAID


async def test_operators_are_told_of_a_payout_that_nobody_knows_of(scene):
    """Operators are alerted of a payout whose outcome stays unknown."""
    booking = await due(scene)
    await scene.fault("pay_out", "timeout_before", 1000)
    await scene.drain()
    await scene.jump_to(booking.ends_at + 42 * HOUR)
    await scene.drain()
    assert len(alerts(scene, "is not made yet")) == 1


async def test_nobody_is_told_of_a_payout_that_was_made(scene):
    """A payout that was made raises no alert."""
    booking = await scene.paid_out()
    await scene.jump_to(booking.ends_at + 90 * DAY)
    await scene.drain()
    assert scene.ports.notifier.alerts == []


async def test_a_payout_let_go_late_has_an_alarm_of_its_own(scene):
    """The alarm of a payout that was released late starts at its release."""
    booking = await failed(scene, times=1000)
    await scene.jump_to(booking.ends_at + 42 * HOUR)
    await scene.drain()
    await payouts.hold_payout(scene.ports, booking.code)
    await payouts.release_payout(scene.ports, booking.code)
    await scene.drain()
    assert len(alerts(scene, "is not made yet")) == 1
    await scene.jump_to(booking.ends_at + 42 * HOUR + 18 * HOUR)
    await scene.drain()
    assert len(alerts(scene, "is not made yet")) == 2


async def test_an_alarm_tells_what_was_promised(scene):
    """The alert contains the deadline, 48 hours after completion."""
    booking = await failed(scene, times=1000)
    await scene.jump_to(booking.ends_at + 42 * HOUR)
    await scene.drain()
    (text,) = alerts(scene, "is not made yet")
    assert str(booking.ends_at + 48 * HOUR) in text
    assert OperationStatus.PENDING in await orders(scene, booking)


async def test_payouts_that_wait_are_listed(scene):
    """Scheduled and failed payouts are listed until they are paid."""
    booking = await scene.completed()
    assert [one.id for one in await payouts.list_payouts(scene.ports)] == [booking.id]
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert list(await payouts.list_payouts(scene.ports)) == []
