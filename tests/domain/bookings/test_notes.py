"""Alerts of transitions: whether what they ask for has been done since."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import HOUR, NOW, make_booking
from staffbooking_core.domain.bookings import notes
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from tests.support.booking_journey import BookingJourney, disputed_journey


@pytest.mark.parametrize(
    ("status", "is_settled"),
    [(PayoutStatus.FAILED, False), (PayoutStatus.FROZEN, False), (PayoutStatus.PAID, True)],
)
def test_the_alert_of_a_payout_is_settled_once_it_is_made(status, is_settled) -> None:
    """An alert of a payout that is not made holds as long as it is to be made, also on hold."""
    booking = make_booking(
        status=BookingStatus.COMPLETED, payout_status=status, payout_alarmed_at=NOW
    )
    assert notes.is_settled(booking, NOW) is is_settled


def test_the_alert_of_an_earlier_payout_is_settled() -> None:
    """Of a payout that is owed anew, the alert of the one before asks for nothing."""
    booking = make_booking(
        status=BookingStatus.COMPLETED,
        payout_status=PayoutStatus.FAILED,
        payout_alarmed_at=NOW + HOUR,
    )
    assert notes.is_settled(booking, NOW)


def alarm(journey: BookingJourney):
    """The time of the alert that the open dispute is overdue, once that is raised."""
    at = journey.booking.dispute_respond_by
    [alert] = journey.apply(Trigger.DISPUTE_OVERDUE, Party.SYSTEM, at).alerts
    return alert.alarmed_at


def test_the_alert_of_a_dispute_is_settled_once_it_is_resolved() -> None:
    """The alert of an overdue dispute holds until the dispute is resolved, and stays settled when
    the booking is disputed anew, also once that dispute is overdue too and has an alert."""
    journey = disputed_journey()
    first = alarm(journey)
    assert not notes.is_settled(journey.booking, first)
    journey.apply(Trigger.RESOLVE_RELEASE, Party.ADMIN, first)
    assert notes.is_settled(journey.booking, first)
    journey.apply(Trigger.DISPUTE, Party.CUSTOMER, first, reason="Still")
    assert notes.is_settled(journey.booking, first)
    second = alarm(journey)
    assert notes.is_settled(journey.booking, first)
    assert not notes.is_settled(journey.booking, second)
