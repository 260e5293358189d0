"""What refusals of transitions tell people."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, POLICY
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.transitions import check_party
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import Forbidden, RuleBroken
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    disputed_journey,
    paid_journey,
)

S, T, P = BookingStatus, Trigger, Party


def refusal(journey: BookingJourney, *transition: Any, **facts: Any) -> str:
    """The message of a refused trigger."""
    with pytest.raises(RuleBroken) as caught:
        journey.apply(*transition, **facts)
    return caught.value.message


@pytest.mark.parametrize(
    ("status", "trigger", "party", "message"),
    [
        (S.PENDING, T.ACCEPT, P.CUSTOMER, "The customer may not accept: only the staff member may"),
        (S.PAID, T.CHECK_IN, P.ADMIN, "The admin may not check in: only the staff member may"),
        (S.PAID, T.CONFIRM, P.STAFF, "The staff member may not confirm: only the customer may"),
        (S.ACCEPTED, T.CHECKOUT, P.STAFF, "The staff member may not pay: only the customer may"),
        (
            *(S.PAID, T.DISPUTE, P.ADMIN),
            "The admin may not dispute: only the customer or the staff member may",
        ),
        (
            S.COMPLETED,
            T.DISPUTE,
            P.STAFF,
            "The staff member may not dispute: only the customer may",
        ),
        (
            *(S.PENDING, T.CANCEL, P.API),
            "The owner of the API key may not cancel: "
            "only the customer, the staff member or the admin may",
        ),
        (
            *(S.PAID, T.NO_SHOW, P.STAFF),
            "The staff member may not report an absence: only the customer may",
        ),
        (
            *(S.DISPUTED, T.WITHDRAW, P.ADMIN),
            "The admin may not withdraw the dispute: only the customer or the staff member may",
        ),
        (
            *(S.DISPUTED, T.RESOLVE_SPLIT, P.STAFF),
            "The staff member may not resolve the dispute: only the admin may",
        ),
        (S.PENDING, T.REQUEST, P.CUSTOMER, "The customer may not request"),
    ],
)
def test_the_wrong_party_is_told_whose_action_it_is(
    status: BookingStatus, trigger: Trigger, party: Party, message: str
) -> None:
    """The refusal of a party names the action, and the parties that may do it."""
    with pytest.raises(Forbidden) as caught:
        check_party(status, trigger, party)
    assert (caught.value.code, caught.value.message) == ("wrong_party", message)


def test_a_late_acceptance_is_told_of_the_start() -> None:
    """A request whose event has begun has no time to pay that could have passed."""
    journey = BookingJourney()
    assert refusal(journey, T.ACCEPT, P.STAFF, journey.starts_at) == "The event has begun"


def test_a_late_payment_is_told_of_its_time() -> None:
    """A checkout after the payment window is told that the time to pay has passed."""
    journey = accepted_journey(evolve(POLICY, payment_window=HOUR))
    at = journey.booking.created_at + HOUR
    assert refusal(journey, T.CHECKOUT, P.CUSTOMER, at) == "The time to pay has passed"


def test_an_early_check_in_is_told_when_it_opens() -> None:
    """A check-in out of its time is told when it opens and closes."""
    told = refusal(paid_journey(), T.CHECK_IN, P.STAFF)
    assert told == "Check-in opens 2 hours before the start and closes at the end"


@pytest.mark.parametrize("amount", [-1, 0, 40_001])
def test_a_split_of_an_insured_booking_is_told_its_bounds(amount: int) -> None:
    """A split out of range is told the bounds in figures, and what everything is."""
    journey = disputed_journey(cancellation_insurance=True, insurance_premium=2_000)
    told = refusal(journey, T.RESOLVE_SPLIT, P.ADMIN, journey.ends_at, refund_amount=amount)
    assert told == (
        "The customer's part must be from 0.01 to 400.00, or all 420.00 with the premium"
    )


def test_a_split_of_a_booking_without_premium_is_told_its_bounds() -> None:
    """Without a premium a split has one range, in the figures of the currency."""
    journey = disputed_journey(evolve(POLICY, currency=Currency("jpy")), currency="jpy")
    told = refusal(journey, T.RESOLVE_SPLIT, P.ADMIN, journey.ends_at)
    assert told == "The customer's part must be from 1 to 40000"
