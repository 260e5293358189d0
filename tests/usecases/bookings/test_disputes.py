"""Disputes and chargebacks, until all money is settled."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.errors import FieldError, Forbidden, InvalidField, NotFound, RuleBroken
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.bookings import disputes

pytestmark = pytest.mark.anyio

T, R = Trigger, ResolutionOutcome
RESOLUTIONS = {R.RELEASE: 0, R.REFUND: 0, R.SPLIT: 1}
"""How a dispute is resolved, each with an amount that it takes."""


async def code_of(call):
    with pytest.raises(RuleBroken) as caught:
        await call
    return caught.value.code


async def disputed(scene, when, **given):
    """A booking disputed before or after its completion."""
    if when == "paid":
        booking = await scene.paid(**given)
        await scene.jump_to(booking.starts_at)
    else:
        booking = await scene.completed(**given)
        await scene.jump_to(booking.ends_at + HOUR)
    return await scene.dispute(booking)


async def finish(scene, booking):
    """Do all due work, and return the final booking."""
    await scene.jump_to(booking.ends_at + 60 * DAY)
    await scene.settle_down()
    assert await scene.faults() == []
    return await scene.booking(booking)


@pytest.mark.parametrize("by", ["customer", "bank"])
async def test_the_time_of_an_early_completion_may_be_taken(scene, by):
    """A booking that a decision completed before its end can be disputed, by the customer and by
    their bank, though another booking has taken the rest of its time."""
    booking = await disputed(scene, "paid")
    await scene.resolve(booking, R.RELEASE)
    other = await scene.accepted(start_time="14:00")
    assert other.starts_at < booking.ends_at
    disputed_again = await (scene.dispute if by == "customer" else scene.charge_back)(booking)
    assert disputed_again.status is BookingStatus.DISPUTED
    assert (await scene.booking(other)).status is BookingStatus.ACCEPTED


@pytest.mark.parametrize("when", ["paid", "completed"])
@pytest.mark.parametrize(
    "outcome, amount, refund, payout, status",
    [
        (R.RELEASE, 0, 0, 34_000, "completed"),
        (R.REFUND, 0, 42_000, 0, "cancelled"),
        (R.SPLIT, 10_000, 10_000, 25_500, "completed"),
        (R.SPLIT, 42_000, 42_000, 0, "completed"),
    ],
)
async def test_a_resolution_moves_all_the_money(
    scene, when, outcome, amount, refund, payout, status
):
    """A resolution pays the customer and the staff member, and the platform keeps the rest."""
    booking = await disputed(scene, when, cancellation_insurance=True)
    found = await scene.resolve(booking, outcome, amount)
    assert found.status == status
    found = await finish(scene, booking)
    assert (found.refunded_amount, found.paid_out) == (refund, payout)
    assert await scene.processor_balance() == 42_000 - refund - payout


async def test_nothing_is_paid_while_a_dispute_lasts(scene):
    """No payout is made during a dispute, however long it lasts."""
    booking = await disputed(scene, "completed")
    found = await finish(scene, booking)
    assert (found.status, found.payout_status, found.paid_out) == (
        BookingStatus.DISPUTED,
        "frozen",
        0,
    )


async def test_a_split_out_of_range_changes_nothing(scene):
    """A split of nothing, less, or more than was paid raises and changes nothing."""
    booking = await disputed(scene, "paid")
    for amount in (-1, 0, 40_001):
        assert await code_of(scene.resolve(booking, R.SPLIT, amount)) == "split_out_of_range"
    assert await scene.booking(booking) == booking


@pytest.mark.parametrize("outcome", [R.RELEASE, R.REFUND])
async def test_only_a_split_has_an_amount(scene, outcome):
    """An amount beside another resolution than a split is refused, and changes nothing."""
    booking = await disputed(scene, "paid")
    with pytest.raises(InvalidField) as caught:
        await scene.resolve(booking, outcome, 5_000)
    assert caught.value.field_errors == (FieldError("amount", "is for a split only"),)
    assert await scene.booking(booking) == booking


@pytest.mark.parametrize(
    ("outcome", "amount", "verdict"),
    [
        (R.RELEASE, 0, "for the staff member"),
        (R.REFUND, 0, "for the customer"),
        (R.SPLIT, 1, "with the money shared"),
    ],
)
async def test_the_alert_tells_the_verdict_in_words(scene, outcome, amount, verdict):
    """The alert of a resolution says whom it favours and why, in words of people."""
    booking = await disputed(scene, "paid")
    await disputes.resolve_dispute(scene.ports, booking.code, outcome, amount, note="Both agree")
    await scene.settle_down()
    told = f"the dispute of booking {booking.code} was resolved, {verdict}: Both agree"
    assert told in [text for _, text in scene.ports.notifier.alerts]


async def test_only_what_is_disputed_is_resolved(scene):
    """Only a disputed booking can be resolved, by its code."""
    booking = await scene.paid()
    assert await code_of(scene.resolve(booking, R.RELEASE)) == "booking_not_disputed"
    with pytest.raises(NotFound):
        await disputes.resolve_dispute(scene.ports, "BK000000000000", R.RELEASE)


@pytest.mark.parametrize("has_account", [True, False])
async def test_the_timeline_names_the_admin_who_resolved(scene, has_account):
    """The entry of a resolution has the admin's id; from the command line there is none."""
    actor_id = scene.admin.user_id if has_account else None
    booking = await disputed(scene, "paid")
    resolved = await disputes.resolve_dispute(
        scene.ports, booking.code, R.REFUND, actor_id=actor_id
    )
    assert resolved.timeline[-1].actor_id == actor_id


async def test_a_staff_member_disputes_before_completion_only(scene):
    """After completion only the customer may dispute."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at)
    assert (await scene.dispute(booking, scene.staff)).disputed_by is Party.STAFF
    await scene.resolve(booking, R.RELEASE)
    with pytest.raises(Forbidden):
        await scene.dispute(booking, scene.staff)


async def test_a_released_payout_is_not_disputed(scene):
    """A booking whose payout was released cannot be disputed."""
    booking = await scene.paid_out()
    assert await code_of(scene.dispute(booking)) == "payout_released"


async def test_operators_see_what_is_disputed(scene):
    """A disputed booking is listed until it is resolved."""
    booking = await disputed(scene, "paid")
    assert [one.id for one in await disputes.list_disputes(scene.ports)] == [booking.id]
    await scene.resolve(booking, R.REFUND)
    assert list(await disputes.list_disputes(scene.ports)) == []


# Chargebacks ------------------------------------------------------------------------------

MAKERS = ["paid", "completed", "paid_out"]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "verdict, status, payout, held",
    [
        ("won", BookingStatus.COMPLETED, 34_000, 6_000),
        ("lost", BookingStatus.CANCELLED, 0, 0),
    ],
)
async def test_a_chargeback_ends_with_its_verdict(scene, make, verdict, status, payout, held):
    """A verdict settles a chargeback before completion, after it, and after the payout."""
    booking = await getattr(scene, make)()
    found = await scene.charge_back(booking)
    assert (found.status, found.disputed_by) == (BookingStatus.DISPUTED, Party.PROCESSOR)
    found = await scene.charge_back(booking, verdict)
    assert found.status is status
    found = await finish(scene, booking)
    assert (found.paid_out, found.owed_by_staff, found.refunded_amount) == (payout, 0, 0)
    assert await scene.processor_balance() == held


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("verdict", ["won", "lost"])
async def test_a_chargeback_that_lasts_ends_the_same(scene, make, verdict):
    """A verdict after the payout's reversal has the same result."""
    booking = await getattr(scene, make)()
    await scene.charge_back(booking)
    await scene.settle_down()
    assert await scene.faults() == []
    assert (await scene.booking(booking)).paid_out == 0
    await scene.charge_back(booking, verdict)
    found = await finish(scene, booking)
    assert found.paid_out == (34_000 if verdict == "won" else 0)
    assert await scene.processor_balance() == (6_000 if verdict == "won" else 0)


async def test_a_lost_chargeback_orders_no_refund(scene):
    """A lost chargeback orders no refund, since the bank repaid the customer."""
    booking = await scene.paid()
    await scene.charge_back(booking, "lost")
    found = await finish(scene, booking)
    assert (found.payment_status, found.cancelled_by) == ("charged_back", Party.SYSTEM)
    assert [one.kind for one in await scene.operations(booking)] == ["open_checkout"]


async def test_the_processor_alone_decides_a_chargeback(scene):
    """An admin cannot resolve a booking during a chargeback."""
    booking = await disputed(scene, "paid")
    await scene.charge_back(booking)
    for outcome, amount in RESOLUTIONS.items():
        assert await code_of(scene.resolve(booking, outcome, amount)) == "chargeback_open"
    found = await scene.charge_back(booking, "won")
    assert found.status is BookingStatus.COMPLETED


async def test_a_chargeback_of_a_cancelled_booking_is_booked(scene):
    """A chargeback of a cancelled booking keeps its status, raises an alert and is in the
    ledger."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.cancel(booking)
    found = await scene.charge_back(booking)
    assert found.status is BookingStatus.CANCELLED
    await scene.settle_down()
    assert await scene.faults() == []
    told = f"the customer's bank claims the payment back (chargeback) of booking {booking.code}"
    assert scene.ports.notifier.alerts == [(booking.id, told)]
    found = await scene.charge_back(booking, "lost")
    assert (found.status, found.payment_status) == (BookingStatus.CANCELLED, "charged_back")
    await scene.settle_down()
    assert await scene.faults() == []


async def test_a_chargeback_while_a_refund_is_on_its_way(scene):
    """A refund refused because of a chargeback stays owed and raises an alert."""
    booking = await scene.paid()
    await scene.ports.sandbox.chargeback(booking.id, "open")
    await scene.jump_to(booking.starts_at - 40 * HOUR)
    await scene.cancel(booking)
    await scene.settle_down()
    refund = (await scene.operations(booking))[-1]
    assert (refund.kind, refund.status) == ("refund", "refused")
    assert await scene.faults() == []


async def test_a_verdict_that_comes_at_once_is_both(scene):
    """A chargeback seen only after its verdict is applied as opened and lost."""
    booking = await scene.paid()
    await scene.ports.sandbox.chargeback(booking.id, "open")
    await scene.ports.sandbox.chargeback(booking.id, "lost")
    await scene.drain()
    found = await scene.booking(booking)
    assert [entry.to for entry in found.timeline[-2:]] == ["disputed", "cancelled"]
    assert await scene.faults() == []


async def test_an_unpaid_booking_has_nothing_to_charge_back(scene):
    """The sandbox refuses a chargeback of an unpaid booking."""
    booking = await scene.accepted()
    with pytest.raises(RuleBroken):
        await sandbox.simulate_chargeback(scene.ports, booking.code, "open")
