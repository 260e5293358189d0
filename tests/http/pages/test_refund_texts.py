"""Tests of what the page of a cancelled booking tells of its money where payments came late."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import make_booking_write
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.payments.operations import SettlementStatus
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import read
from tests.support.booking_journey import BookingJourney, accepted_journey, paid_journey

pytestmark = pytest.mark.anyio


async def shown(world: HttpDeployment, journey: BookingJourney) -> str:
    """What the customer reads on the page of the journey's booking."""
    await world.store.add_booking(make_booking_write(journey.booking))
    customer = await world.signed_in_client(world.customer.id)
    return await read(customer, f"/bookings/{journey.booking.id}")


def paid_twice_and_cancelled(world: HttpDeployment, hours: int) -> BookingJourney:
    """Cancelled by the customer so many hours ahead; the second payment of two goes back whole."""
    journey = paid_journey(companion_id=world.companion.id, customer_id=world.customer.id)
    journey.apply(Trigger.PAYMENT, Party.PROCESSOR, payment=journey.payment("pay_second"))
    at = journey.starts_at - timedelta(hours=hours)
    journey.apply(Trigger.CANCEL, Party.CUSTOMER, at)
    return journey


async def test_a_second_payment_is_no_part_of_what_a_cancellation_refunds(
    world: HttpDeployment,
) -> None:
    """The sum of a cancellation leaves out a second payment that goes back whole."""
    text = await shown(world, paid_twice_and_cancelled(world, 30))
    assert "US$200.00 of US$400.00 is on its way back to you. It was cancelled 24 hours" in text


async def test_a_second_payment_leaves_nothing_to_refund(world: HttpDeployment) -> None:
    """A cancellation that refunds nothing is told so beside a second payment that goes back."""
    text = await shown(world, paid_twice_and_cancelled(world, 1))
    assert "Nothing goes back. It was cancelled less than 24 hours ahead" in text


async def test_a_second_payment_is_no_part_of_the_state(world: HttpDeployment) -> None:
    """A second payment that is still on its way leaves the refund of a cancellation settled."""
    journey = paid_twice_and_cancelled(world, 30)
    [extra, refund] = journey.booking.refunds
    settled = evolve(refund, status=SettlementStatus.SETTLED, settled_at=journey.starts_at)
    journey.booking = evolve(journey.booking, refunds=(extra, settled))
    assert "US$200.00 of US$400.00 has gone back to you." in await shown(world, journey)


async def test_a_payment_after_the_cancellation_goes_back_whole(world: HttpDeployment) -> None:
    """A payment that comes after the cancellation is told as what goes back."""
    journey = accepted_journey(companion_id=world.companion.id, customer_id=world.customer.id)
    journey.apply(Trigger.CANCEL, Party.CUSTOMER)
    journey.apply(Trigger.PAYMENT, Party.PROCESSOR, payment=journey.payment())
    assert "All of it (US$400.00) is on its way back to you." in await shown(world, journey)
