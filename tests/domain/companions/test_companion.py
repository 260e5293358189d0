"""Companions: listing, rating, and comparison of names."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import NOW, make_companion, make_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.companion import (
    Approval,
    draft_companion,
    find_offered_service,
    missing_fields,
    normalize_place,
    normalize_text,
    rating_average,
)


@pytest.mark.parametrize("approval", list(Approval))
@pytest.mark.parametrize("active", [True, False])
def test_only_approved_and_active_ones_are_listed(approval, active):
    """Pending, suspended and disabled companions are not listed."""
    listed = make_companion(approval=approval, active=active).is_listed
    assert listed is (active and approval is Approval.APPROVED)


@pytest.mark.parametrize("disabled_at", [None, NOW])
def test_a_draft_is_who_it_is_of_and_nothing_else(disabled_at):
    """A draft has the user's id, names and creation time, and is not listed."""
    user = make_user(id=7, role=Role.STAFF, disabled_at=disabled_at)
    made = draft_companion(user)
    assert (made.id, made.name, made.member_since) == (7, user.name, user.created_at)
    assert (made.approval, made.active) == (Approval.PENDING, disabled_at is None)
    assert missing_fields(made) == [
        "hourly_rate",
        "location_city",
        "location_country",
        "service_types",
    ]


@pytest.mark.parametrize(
    "given, lacking",
    [
        ({}, []),
        ({"daily_rate": None, "bio": "", "languages": (), "profile_photo": ""}, []),
        ({"hourly_rate": 0, "location_country": ""}, ["hourly_rate", "location_country"]),
        ({"location_city": "", "service_types": ()}, ["location_city", "service_types"]),
    ],
)
def test_an_approval_needs_a_rate_a_place_and_services(given, lacking):
    """Approval requires hourly rate, city, country and services only."""
    assert missing_fields(make_companion(**given)) == lacking


@pytest.mark.parametrize(
    "total, reviews, average",
    [(0, 0, "0"), (5, 1, "5.00"), (14, 3, "4.67"), (9, 8, "1.13"), (1001, 400, "2.50")],
)
def test_the_rating_is_rounded_half_up_to_two_decimals(total, reviews, average):
    """The average is 0 without reviews; 1.125 becomes 1.13."""
    assert str(rating_average(total, reviews)) == average


@given(st.lists(st.integers(1, 5), min_size=1, max_size=200))
def test_a_rating_lies_within_its_scale(ratings):
    """The average of ratings from 1 to 5 is from 1 to 5."""
    assert 1 <= rating_average(sum(ratings), len(ratings)) <= 5


def test_a_companion_shows_its_rating():
    """The average is computed from the stored sum and count."""
    assert make_companion(rating_sum=9, total_reviews=2).rating_avg == Decimal("4.50")


@pytest.mark.parametrize(
    "one, other",
    [
        ("Straße", "STRASSE"),
        ("ISTANBUL", "istanbul"),
        ("Müller", "Mu\u0308ller"),
        ("ΣΟΦΟΣ", "σοφος"),
    ],
)
def test_names_compare_without_case_and_form(one, other):
    """Case, ß and Unicode composition do not matter."""
    assert normalize_text(one) == normalize_text(other)


@given(st.text(max_size=30))
def test_folding_is_done_once(text):
    """Folding a normalized text again does not change it."""
    assert normalize_text(text).casefold() == normalize_text(text)


@pytest.mark.parametrize(
    "one, other",
    [
        ("São Paulo", "SAO PAULO"),
        ("Zürich", "Zu\u0308rich"),
        ("Łódź", "lodz"),
        ("İzmir", "izmir"),
        ("Đà Nẵng", "Da Nang"),
        ("Αθήνα", "αθηνα"),
        ("Straße", "STRASSE"),
    ],
)
def test_places_compare_without_accents(one, other):
    """Case, composition and accents of places do not matter."""
    assert normalize_place(one) == normalize_place(other)


@pytest.mark.parametrize("one, other", [("서", "석"), ("ぎ", "き"), ("दिल्ली", "दल्ला")])
def test_marks_that_are_no_accents_stay(one, other):
    """Marks and parts of letters that make another syllable are compared."""
    assert normalize_place(one) not in normalize_place(other)


@given(st.text(max_size=30))
def test_places_are_normalized_once(text):
    """Normalizing a place of the former form gives what normalizing its name gives."""
    assert normalize_place(normalize_text(text)) == normalize_place(text)


def test_a_service_is_named_as_it_is_offered():
    """A service is found regardless of case, and returned as the companion wrote it."""
    assert find_offered_service(("Gala dinner", "Trade fair"), "TRADE FAIR") == "Trade fair"


@pytest.mark.parametrize("service", ["Trade", "Trade fairs", "", " Trade fair"])
def test_a_service_is_matched_whole(service):
    """Parts of a name and additional blanks do not match."""
    assert find_offered_service(("Trade fair",), service) is None
