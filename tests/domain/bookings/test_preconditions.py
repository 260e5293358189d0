"""Preconditions on the version (If-Match): checked after the party, before the rules."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.errors import Forbidden, VersionMismatch
from tests.support.booking_journey import BookingJourney, accepted_journey


@pytest.mark.parametrize("allowed", [None, {1}, {1, 7}])
def test_an_allowed_version_passes(allowed):
    """A transition is applied without a precondition, or where it names the version."""
    journey = BookingJourney()
    journey.apply(
        Trigger.DECLINE,
        Party.STAFF,
        allowed_versions=None if allowed is None else frozenset(allowed),
    )
    assert journey.booking.cancelled_by is Party.STAFF


@pytest.mark.parametrize("allowed", [set(), {2}])
def test_another_version_is_refused(allowed):
    """A transition of another version is refused, and names the present one."""
    with pytest.raises(VersionMismatch) as caught:
        BookingJourney().apply(Trigger.DECLINE, Party.STAFF, allowed_versions=frozenset(allowed))
    assert caught.value.version == 1


def test_the_version_is_checked_before_the_status():
    """The precondition fails before a rule about the status."""
    with pytest.raises(VersionMismatch):
        accepted_journey().apply(Trigger.DECLINE, Party.STAFF, allowed_versions=frozenset({7}))


def test_the_party_is_checked_before_the_version():
    """The wrong party is refused before the precondition fails."""
    with pytest.raises(Forbidden):
        BookingJourney().apply(Trigger.DECLINE, Party.CUSTOMER, allowed_versions=frozenset({7}))
