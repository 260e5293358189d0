"""Reviews: who may write and respond, and the resulting ratings."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import reduce

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import HOUR, NOW, make_booking, make_companion
from staffbooking_adapters.testing.builders_reviews import (
    make_new_review,
    make_review,
    make_review_content,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.reviews import (
    RatingTotals,
    apply_review_rating,
    check_responder,
    check_reviewer,
    create_review,
)
from staffbooking_core.errors import Forbidden, RuleBroken

SIDES = [Party.CUSTOMER, Party.STAFF]
COMPLETED = make_booking(status=BookingStatus.COMPLETED, booked_by=9)


@pytest.mark.parametrize("by", SIDES)
def test_a_side_reviews_the_other(by):
    """Each party reviews the other, with the names of the booking."""
    opinion = make_review_content(rating=5, comment="Great", punctuality=1, appearance=3)
    said = {"rating": 5, "comment": "Great", "punctuality": 1, "appearance": 3}
    assert create_review(by, COMPLETED, opinion, NOW) == make_new_review(COMPLETED, by, **said)


@pytest.mark.parametrize("comment", [None, "", "  \n"])
def test_a_blank_comment_is_none(comment):
    """Missing and blank comments become None."""
    review = create_review(Party.STAFF, COMPLETED, make_review_content(comment=comment), NOW)
    assert review.comment is None


def test_a_comment_is_kept_as_it_came():
    """A comment keeps its blanks and line breaks."""
    review = create_review(Party.STAFF, COMPLETED, make_review_content(comment=" So\nso "), NOW)
    assert review.comment == " So\nso "


@pytest.mark.parametrize("status", sorted(set(BookingStatus) - {BookingStatus.COMPLETED}))
@pytest.mark.parametrize("by", SIDES)
def test_only_a_completed_booking_is_reviewed(status, by):
    """A review in any other status is refused."""
    with pytest.raises(RuleBroken) as caught:
        create_review(by, evolve(COMPLETED, status=status), make_review_content(), NOW)
    assert caught.value.code == "booking_not_completed"


@pytest.mark.parametrize("by", sorted(set(Party) - set(SIDES)))
@pytest.mark.parametrize("status", [BookingStatus.PENDING, BookingStatus.COMPLETED])
def test_only_who_was_there_reviews(by, status):
    """API users and admins are refused, before the status is checked."""
    with pytest.raises(Forbidden) as caught:
        create_review(by, evolve(COMPLETED, status=status), make_review_content(), NOW)
    assert caught.value.code == "wrong_party"
    with pytest.raises(Forbidden):
        check_reviewer(by)


def test_the_staff_member_reviewed_may_respond():
    """Only the reviewed staff member may respond, never a reviewed customer."""
    review = make_review()
    check_responder(review, review.reviewee_id)
    of_customer = make_review(by=Party.STAFF)
    for one, user_id in ((review, review.reviewer_id), (review, 9), (of_customer, 1)):
        with pytest.raises(Forbidden) as caught:
            check_responder(one, user_id)
        assert caught.value.code == "wrong_party"


def test_a_response_changes_nothing_else():
    """A response sets text and time only."""
    review = make_review(comment="Late")
    answered = review.with_response("The train was", NOW + HOUR)
    assert (answered.response, answered.responded_at) == ("The train was", NOW + HOUR)
    assert evolve(answered, response=None, responded_at=None) == review


MARKS = st.lists(st.integers(1, 5), max_size=400)


@given(MARKS)
def test_aggregates_are_exact(marks):
    """A companion's sum, count and average are exact after any number of reviews."""
    reviews = [make_review(rating=mark) for mark in marks]
    companion = reduce(apply_review_rating, reviews, make_companion())
    assert (companion.rating_sum, companion.total_reviews) == (sum(marks), len(marks))
    ratings = RatingTotals(sum(marks), len(marks))
    assert companion.rating_avg == ratings.rating_avg
    if marks:
        exact = Fraction(sum(marks), len(marks))
        assert abs(Fraction(ratings.rating_avg) - exact) <= Fraction(1, 200)
        assert min(marks) <= ratings.rating_avg <= max(marks)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_the_mean_is_rounded_half_up(rating_sum, reviews):
    """The average is the exact quotient, rounded half up to two decimals."""
    exact = Fraction(rating_sum, reviews)
    cents = (exact * 100 + Fraction(1, 2)).__floor__()
    assert RatingTotals(rating_sum, reviews).rating_avg == Decimal(cents).scaleb(-2)


def test_without_reviews_the_mean_is_zero():
    """The average without reviews is 0 (CONTRACT 3)."""
    assert RatingTotals().rating_avg == 0
