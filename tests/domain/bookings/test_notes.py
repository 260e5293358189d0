"""Alerts of transitions: whether what they ask for has been done since."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import NOW, make_booking
from staffbooking_core.domain.bookings import notes
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from tests.support.booking_journey import disputed_journey


@pytest.mark.parametrize(
    ("status", "is_settled"),
    [(PayoutStatus.FAILED, False), (PayoutStatus.FROZEN, False), (PayoutStatus.PAID, True)],
)
def test_the_alert_of_a_payout_is_settled_once_it_is_made(status, is_settled) -> None:
    """An alert of a payout that is not made holds as long as it is to be made, also on hold."""
    booking = make_booking(status=BookingStatus.COMPLETED, payout_status=status)
    text = f"the payout of booking {booking.code} is not made yet: it is promised by {NOW}"
    assert notes.is_settled(booking, text) is is_settled


def test_the_alert_of_a_dispute_is_settled_once_it_is_resolved() -> None:
    """The alert of an overdue dispute holds until the dispute is resolved, and stays settled when
    the booking is disputed anew, of which nobody is alerted yet."""
    journey = disputed_journey()
    at = journey.booking.dispute_respond_by
    [text] = journey.pull(Trigger.DISPUTE_OVERDUE, Party.SYSTEM, at).alerts
    assert not notes.is_settled(journey.booking, text)
    journey.pull(Trigger.RESOLVE_RELEASE, Party.ADMIN, at)
    assert notes.is_settled(journey.booking, text)
    journey.pull(Trigger.DISPUTE, Party.CUSTOMER, at, reason="Still")
    assert notes.is_settled(journey.booking, text)


@pytest.mark.parametrize(
    "words",
    ["the payout of booking SB-X is not made yet: it is promised by", " is overdue: resolve it"],
)
def test_an_alert_that_quotes_another_is_not_settled(words) -> None:
    """Only an alert that begins as one that asks for something can be settled, and only one of the
    same booking: others may quote people's words."""
    booking = make_booking(status=BookingStatus.COMPLETED, payout_status=PayoutStatus.PAID)
    for text in (f"look into booking {booking.code}: {words}", words):
        assert not notes.is_settled(booking, text)
