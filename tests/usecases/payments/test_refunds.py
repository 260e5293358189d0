"""Failed refunds: what is owed to customers, and retries."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import IntentRefs, OperationKind, RefundStatus
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import refunds
from tests.support.memory_deployment import with_another_companion
from tests.support.payee_scenario import make_payee_scenario

pytestmark = pytest.mark.anyio

TOTAL = 40_000


async def failed(scene, kind="refuse"):
    """A booking cancelled by the staff member, whose full refund failed in this way."""
    booking = await scene.paid()
    await scene.fault("refund", kind)
    await scene.cancel(booking, scene.staff)
    await scene.drain()
    await scene.jump_to(await scene.now() + 2 * MINUTE)
    await scene.drain()
    return await scene.booking(booking)


async def owed(scene):
    """The bookings whose refunds are listed as failed, with the amounts."""
    listed = await refunds.list_failed_refunds(scene.ports)
    return [(booking.id, getattr(one.command, "amount", 0)) for booking, one in listed]


async def orders(scene, booking):
    """The status of each refund operation, the oldest first."""
    ordered = await scene.operations(booking)
    return [
        (str(one.status), str(one.settlement or ""))
        for one in ordered
        if one.kind is OperationKind.REFUND
    ]


async def given_back(scene, booking):
    """The refunded amount at the processor."""
    snapshot = await scene.ports.payments.snapshot(IntentRefs(booking.id), 5.0)
    settled = (one.amount for one in snapshot.refunds if one.status is RefundStatus.SETTLED)
    return sum(settled)


KINDS = ["refuse", "settled_then_failed", "pending_then_failed"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failed_refund_is_owed_and_told(scene, kind):
    """A refund that was refused, or failed after it was made, is listed and raises an alert."""
    booking = await failed(scene, kind)
    assert await owed(scene) == [(booking.id, TOTAL)]
    assert (booking.status, booking.payment_status) == (BookingStatus.CANCELLED, "refund_pending")
    assert len(scene.ports.notifier.alerts) == 1
    assert await scene.processor_balance() == TOTAL
    assert await scene.faults() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failed_refund_is_retried_at_once(scene, kind):
    """A retry orders the refund again and returns its outcome."""
    booking = await failed(scene, kind)
    retried = await refunds.retry_refunds(scene.ports, booking.code)
    assert retried.payment_status == "refunded"
    assert (await orders(scene, booking))[-1] == ("done", "settled")
    assert await owed(scene) == []
    assert await given_back(scene, booking) == TOTAL
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []


async def test_a_payout_that_waits_for_an_account_holds_up_no_refund():
    """A refund that the bank returned is made by a retry, although the rest of the price waits for
    the staff member's payout account."""
    scene = (await make_payee_scenario()).scene
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at - 30 * HOUR)
    await scene.fault("refund", "settled_then_failed")
    await scene.cancel(booking)
    await scene.drain()
    await scene.jump_to(await scene.now() + DAY)
    await scene.drain()
    assert [str(one.status) for one in await scene.operations(booking)][-1] == "pending"
    await refunds.retry_refunds(scene.ports, booking.code)
    assert await given_back(scene, booking) == TOTAL // 2


async def test_a_retry_that_fails_again_is_owed_again(scene):
    """After a failed retry the refund is listed once, by its last operation."""
    booking = await failed(scene)
    await scene.fault("refund", "refuse")
    retried = await refunds.retry_refunds(scene.ports, booking.code)
    assert retried.payment_status == "refund_pending"
    assert await owed(scene) == [(booking.id, TOTAL)]
    await refunds.retry_refunds(scene.ports, booking.code)
    assert await owed(scene) == []
    assert await orders(scene, booking) == [("refused", ""), ("refused", ""), ("done", "settled")]
    assert await scene.faults() == []


async def test_a_retry_without_an_answer_goes_on_by_itself(scene):
    """A retry with unknown outcome is pending, not failed."""
    booking = await failed(scene)
    await scene.fault("refund", "timeout_before")
    retried = await refunds.retry_refunds(scene.ports, booking.code)
    assert retried.payment_status == "refund_pending"
    assert await owed(scene) == []
    await scene.settle_down()
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert await given_back(scene, booking) == TOTAL


async def test_two_operators_order_one_refund(scene):
    """Of two concurrent retries the second raises `no_failed_refund`."""
    booking = await failed(scene)
    await refunds.retry_refunds(scene.ports, booking.code)
    with pytest.raises(RuleBroken) as caught:
        await refunds.retry_refunds(scene.ports, booking.code)
    assert caught.value.code == "no_failed_refund"
    assert await given_back(scene, booking) == TOTAL


@pytest.mark.parametrize("make", ["accepted", "paid", "paid_out"])
async def test_where_no_refund_has_failed_there_is_none_to_retry(scene, make):
    """A retry without a failed refund raises and changes nothing."""
    booking = await getattr(scene, make)()
    before = await scene.booking(booking)
    with pytest.raises(RuleBroken) as caught:
        await refunds.retry_refunds(scene.ports, booking.code)
    assert caught.value.code == "no_failed_refund"
    assert await scene.booking(booking) == before


async def test_a_booking_that_is_not_there(scene):
    """An unknown booking raises NotFound."""
    with pytest.raises(NotFound):
        await refunds.retry_refunds(scene.ports, "BK000000000000")


async def test_failed_refunds_are_listed_the_oldest_first(scene):
    """Failed refunds of all bookings are listed in pages, the oldest first."""
    first = await failed(scene)
    second = await failed(await with_another_companion(scene))
    assert await owed(scene) == [(first.id, TOTAL), (second.id, TOTAL)]
    paged = await refunds.list_failed_refunds(scene.ports, page=2, limit=1)
    assert [booking.id for booking, _ in paged] == [second.id]


async def test_a_refund_that_is_only_late_has_not_failed(scene):
    """A refund that is retried automatically is not listed."""
    booking = await failed(scene, "refuse:insufficient_funds")
    assert await owed(scene) == []
    await scene.settle_down()
    assert (await scene.booking(booking)).payment_status == "refunded"


# While the card issuer decides ----------------------------------------------------------


async def charged_back(scene):
    """A chargeback opened before the staff member's cancellation, whose refund is refused."""
    booking = await scene.paid()
    await scene.ports.sandbox.chargeback(booking.id, "open")
    await scene.cancel(booking, scene.staff)
    await scene.settle_down()
    assert await orders(scene, booking) == [("refused", "")]
    return booking


async def test_a_refund_refused_as_disputed_is_made_when_we_win(scene):
    """The refund is made automatically when the chargeback is won."""
    booking = await charged_back(scene)
    await scene.charge_back(booking, "won")
    await scene.settle_down()
    assert await orders(scene, booking) == [("refused", ""), ("done", "settled")]
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []


async def test_it_is_not_made_when_we_lose(scene):
    """The refund is dropped when the chargeback is lost, since the bank repaid the customer."""
    booking = await charged_back(scene)
    await scene.charge_back(booking, "lost")
    await scene.jump_to(booking.ends_at + 30 * DAY)
    await scene.settle_down()
    assert await orders(scene, booking) == [("void", "")]
    assert await owed(scene) == []
    assert await given_back(scene, booking) == 0
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []


async def test_the_refund_of_a_late_payment_is_retried_too(scene):
    """A failed refund of a payment that was seen after expiry can be retried."""
    booking = await scene.accepted()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.simulate_checkout(booking)
    await scene.jump_to(booking.starts_at)
    await timers.fire_due_timers(scene.ports)
    await scene.fault("refund", "refuse")
    await scene.drain()
    assert await owed(scene) == [(booking.id, TOTAL)]
    retried = await refunds.retry_refunds(scene.ports, booking.code)
    assert (retried.cancel_reason, retried.payment_status) == ("expired", "refunded")
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []


async def test_the_refund_of_a_late_payment_is_made_when_we_win(scene):
    """The refund of a late payment that was refused as disputed is made when we win."""
    booking = await scene.accepted()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.simulate_checkout(booking)
    await scene.jump_to(booking.starts_at)
    await timers.fire_due_timers(scene.ports)
    await scene.ports.sandbox.chargeback(booking.id, "open")
    await scene.settle_down()
    assert await orders(scene, booking) == [("refused", "")]
    await scene.charge_back(booking, "won")
    await scene.settle_down()
    assert await orders(scene, booking) == [("refused", ""), ("done", "settled")]
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []
