"""Tests of the parts of a profile, and of a new staff member's first steps."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, make_companion, make_user
from staffbooking_core.domain.companions.availability import Calendar, Slot, WeeklySlot
from staffbooking_core.domain.companions.companion import Approval, draft_companion
from staffbooking_core.domain.companions.completeness import (
    FirstStep,
    ProfilePart,
    first_steps,
    missing_parts,
)

NEW = draft_companion(make_user())
CALENDAR = Calendar("UTC", (WeeklySlot(0, Slot(540, 1020)),))


def test_a_draft_lacks_everything() -> None:
    """Of a new profile every part is missing, in the order of their use."""
    assert missing_parts(NEW, 0) == list(ProfilePart)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"service_types": ("Host",)}, ProfilePart.SERVICES),
        ({"hourly_rate": 1}, ProfilePart.RATE),
        ({"location_city": "Lisbon", "location_country": "Portugal"}, ProfilePart.PLACE),
        ({"profile_photo": "media/a.png"}, ProfilePart.PHOTO),
        ({"tagline": "Calm"}, ProfilePart.TAGLINE),
        ({"bio": "Ten years"}, ProfilePart.BIO),
        ({"calendar": CALENDAR}, ProfilePart.HOURS),
        ({"languages": ("English",)}, ProfilePart.LANGUAGES),
        ({"years_experience": 0}, ProfilePart.EXPERIENCE),
    ],
)
def test_a_filled_part_is_not_missing(given: dict[str, Any], part: ProfilePart) -> None:
    """Each field fills its part alone; no experience is an answer too."""
    missing = missing_parts(evolve(NEW, **given), 0)
    assert missing == [each for each in ProfilePart if each is not part]


def test_work_is_a_part() -> None:
    """A portfolio with an item is filled."""
    assert ProfilePart.PORTFOLIO not in missing_parts(NEW, 1)


def test_a_city_alone_is_no_place() -> None:
    """A place is a city and a country."""
    assert ProfilePart.PLACE in missing_parts(evolve(NEW, location_city="Lisbon"), 0)


def test_first_steps_are_done_one_by_one() -> None:
    """Each step has its own condition; the approval is waited for once the profile is complete."""
    steps = first_steps(make_user(), NEW, has_payout_account=False)
    assert [state.step for state in steps] == list(FirstStep)
    assert [state.is_done for state in steps] == [False] * 5
    assert not any(state.is_waiting for state in steps)
    complete = make_companion(approval=Approval.PENDING, calendar=CALENDAR)
    user = evolve(make_user(), email_verified_at=NOW)
    steps = first_steps(user, complete, has_payout_account=True)
    assert [state.is_done for state in steps] == [True, True, True, True, False]
    assert steps[-1].is_waiting
    approved = evolve(complete, approval=Approval.APPROVED)
    assert first_steps(user, approved, has_payout_account=True)[-1].is_done
