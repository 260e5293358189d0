"""Checkout pages: who gets one, when it is renewed, and errors when none can be opened."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, MINUTE, SECOND, make_lease
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.errors import Forbidden, ProcessorUnavailable, RuleBroken
from staffbooking_core.usecases.bookings import actions
from tests.support.memory_deployment import operation_states

pytestmark = pytest.mark.anyio


async def test_a_checkout_is_opened_at_once(scene):
    """The page is opened without the worker, and a repeated call returns the same page."""
    booking = await scene.accepted()
    assert await operation_states(scene, booking) == [("open_checkout", "pending")]
    first = await scene.checkout(booking)
    assert await operation_states(scene, booking) == [("open_checkout", "done")]
    version = (await scene.booking(booking)).version
    assert await scene.checkout(booking) == first
    assert (await scene.booking(booking)).version == version


async def test_the_worker_opens_it_too(scene):
    """The worker opens the page if no visit does, and later visits get that page."""
    booking = await scene.accepted()
    await scene.drain()
    opened = (await scene.booking(booking)).intent.checkout_url
    assert await scene.checkout(booking) == opened


async def test_only_the_customer_pays(scene):
    """The staff member may not open the checkout."""
    booking = await scene.accepted()
    with pytest.raises(Forbidden):
        await actions.open_checkout(scene.ports, scene.staff, booking.id)


@pytest.mark.parametrize("make", ["request", "paid"])
async def test_only_an_accepted_booking_is_paid(scene, make):
    """A booking in any other status has no checkout page."""
    booking = await getattr(scene, make)()
    with pytest.raises(RuleBroken) as caught:
        await scene.checkout(booking)
    assert caught.value.code == "booking_not_accepted"


async def test_a_page_that_lapsed_is_renewed(scene):
    """A lapsed page is closed before the next one is opened, and the new page can be paid."""
    booking = await scene.accepted()
    first = await scene.checkout(booking)
    lapses = (await scene.booking(booking)).intent.checkout_expires_at
    await scene.jump_to(lapses - 5 * MINUTE)
    second = await scene.checkout(booking)
    assert second != first
    assert [kind for kind, _ in await operation_states(scene, booking)] == [
        "open_checkout",
        "close_checkout",
        "open_checkout",
    ]
    await scene.simulate_checkout(booking)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    assert await scene.faults() == []


async def test_a_page_that_lives_is_kept(scene):
    """The page is kept until a second before its last five minutes."""
    booking = await scene.accepted()
    first = await scene.checkout(booking)
    lapses = (await scene.booking(booking)).intent.checkout_expires_at
    await scene.jump_to(lapses - 5 * MINUTE - SECOND)
    assert await scene.checkout(booking) == first


async def test_a_page_that_was_let_expire_is_renewed(scene):
    """A visit after the customer expired the page at the processor gets another page."""
    booking = await scene.accepted()
    first = await scene.checkout(booking)
    await scene.simulate_checkout(booking, "expire")
    await scene.drain()
    assert await scene.checkout(booking) != first
    assert await pay(scene, booking) is BookingStatus.PAID


async def pay(scene, booking):
    await scene.simulate_checkout(booking)
    await scene.drain()
    return (await scene.booking(booking)).status


@pytest.mark.parametrize("outcome", ["decline", "challenge"])
async def test_a_declined_card_leaves_the_page_open(scene, outcome):
    """A declined card changes nothing, and another attempt on the same page succeeds."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking, outcome)
    await scene.drain()
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED
    assert await pay(scene, booking) is BookingStatus.PAID


async def test_an_order_that_waited_for_too_long_is_ordered_anew(scene):
    """An order for a page that is a day old is replaced by a new one on the visit."""
    booking = await scene.accepted()
    await scene.jump_to(await scene.now() + DAY)
    assert (await scene.checkout(booking)).startswith("http")
    assert await pay(scene, booking) is BookingStatus.PAID


async def test_who_has_paid_already_is_told(scene):
    """A visit after the payment, before its event, gets an error and no second page."""
    booking = await scene.accepted()
    await scene.simulate_checkout(booking)
    lapses = (await scene.booking(booking)).intent.checkout_expires_at
    await scene.jump_to(lapses)
    with pytest.raises(RuleBroken) as caught:
        await scene.checkout(booking)
    assert caught.value.code == "booking_not_accepted"
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    await scene.drain()
    assert await scene.faults() == []


async def test_a_processor_out_of_reach_is_said_and_nothing_is_lost(scene):
    """Each call raises ProcessorUnavailable until the processor is back, then the page opens."""
    booking = await scene.accepted()
    await scene.fault("open_checkout", "timeout_before", 100)
    for _ in range(6):
        with pytest.raises(ProcessorUnavailable):
            await scene.checkout(booking)
    await scene.clear_faults()
    assert (await scene.checkout(booking)).startswith("http")
    assert await pay(scene, booking) is BookingStatus.PAID


@pytest.mark.parametrize(
    "kind", ["timeout_before", "timeout_after", "error_500", "error_500_after", "conflict"]
)
async def test_a_checkout_that_failed_once_is_opened_by_its_repetition(scene, kind):
    """A repeated call opens the page even where the processor replays its error under the same
    key."""
    booking = await scene.accepted()
    await scene.fault("open_checkout", kind, 1)
    with pytest.raises(ProcessorUnavailable):
        await scene.checkout(booking)
    assert (await scene.checkout(booking)).startswith("http")
    assert await pay(scene, booking) is BookingStatus.PAID


async def test_an_answer_takes_no_longer_than_the_deadline(scene):
    """The customer waits less than eight seconds, however slow the processor is."""
    booking = await scene.accepted()
    await scene.fault("any", "slow", 100)
    before = scene.ports.clock.wall()
    try:
        await scene.checkout(booking)
    finally:
        assert (scene.ports.clock.wall() - before).total_seconds() < 8


async def test_a_booking_in_other_hands_is_waited_for(scene):
    """A visit waits, within its deadline, for the operation that the worker is running."""
    booking = await scene.accepted()
    async with scene.ports.store.read_view() as view:
        (operation,) = await view.operations.operations_of(booking.id)
    lease = make_lease(scene.ports.clock.wall())

    async def claim(tx):
        return await tx.operations.claim_operations(scene.ports.clock.wall(), lease, 1)

    assert [one.id for one in await scene.ports.store.run_transaction(claim)] == [operation.id]
    with pytest.raises(ProcessorUnavailable):
        await scene.checkout(booking)
    scene.pass_time(15 * SECOND)
    assert (await scene.checkout(booking)).startswith("http")


async def test_an_order_names_what_it_needs(scene):
    """The order contains the customer's e-mail and a description of the booking."""
    booking = await scene.accepted()
    (operation,) = await scene.operations(booking)
    async with scene.ports.store.read_view() as view:
        customer = await view.accounts.user(scene.customer.user_id)
    assert operation.kind is OperationKind.OPEN_CHECKOUT
    assert operation.command.customer_email == customer.email
    assert operation.command.description == "Gala dinner by Mia Lindqvist, 2027-03-04"
