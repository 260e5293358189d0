"""Reviews: the rules for reviews and responses of a completed booking (SPECIFICATION 2.4, CONTRACT
5)."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from attrs import asdict, evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.companion import Companion, rating_average
from staffbooking_core.errors import Forbidden, RuleBroken

__all__ = ["NewReview", "RatingTotals", "Review"]

REVIEWING_PARTIES = frozenset({Party.CUSTOMER, Party.STAFF})


@frozen
class ReviewContent:
    """The content of a review: ratings from 1 to 5; `rating` is the overall one."""

    rating: int
    comment: str | None
    punctuality: int | None
    professionalism: int | None
    communication: int | None
    appearance: int | None


@frozen
class NewReview(ReviewContent):
    """A review before it is stored; `created_at` is business time."""

    booking_id: int
    reviewer_id: int
    reviewer_name: str
    reviewer_role: Party
    """The reviewer's side of the booking."""
    reviewee_id: int
    created_at: datetime


@frozen
class Review(NewReview):
    """A stored review, with the staff member's response if there is one."""

    id: int
    response: str | None = None
    responded_at: datetime | None = None
    hidden: bool = False
    """Hidden by an operator: not shown and not counted in the rating."""

    def with_response(self, response: str, now: datetime) -> Review:
        """A copy with the response of the reviewed staff member."""
        return evolve(self, response=response, responded_at=now)


@frozen
class RatingTotals:
    """The sums of all ratings of a person, as exact integers."""

    rating_sum: int = 0
    total_reviews: int = 0

    @property
    def rating_avg(self) -> Decimal:
        return rating_average(self.rating_sum, self.total_reviews)


def check_reviewer(party: Party) -> None:
    """Raise Forbidden unless the party is the customer or the staff member."""
    if party not in REVIEWING_PARTIES:
        raise Forbidden("wrong_party", "Only the customer and the companion review a booking")


def check_responder(review: Review, user_id: int) -> None:
    """Raise Forbidden unless the user is the reviewed staff member."""
    if review.reviewer_role is not Party.CUSTOMER or review.reviewee_id != user_id:
        raise Forbidden("wrong_party", "Only the staff member who was reviewed may respond")


def create_review(
    party: Party, booking: Booking, content: ReviewContent, now: datetime
) -> NewReview:
    """Create a party's review of the other side; a blank comment becomes None.

    Raises Forbidden for another party, and RuleBroken `booking_not_completed`.
    """
    check_reviewer(party)
    if booking.status is not BookingStatus.COMPLETED:
        raise RuleBroken("booking_not_completed", "Only a completed booking can be reviewed")
    customer = (booking.customer_id, booking.customer_name)
    staff = (booking.companion_id, booking.companion_name)
    reviewer, reviewee = (customer, staff) if party is Party.CUSTOMER else (staff, customer)
    comment = content.comment
    return NewReview(
        **{**asdict(content), "comment": comment if comment and comment.strip() else None},
        booking_id=booking.id,
        reviewer_id=reviewer[0],
        reviewer_name=reviewer[1],
        reviewer_role=party,
        reviewee_id=reviewee[0],
        created_at=now,
    )


def apply_review_rating(companion: Companion, review: Review) -> Companion:
    """The companion with this rating added, or removed if the review is hidden now."""
    sign = -1 if review.hidden else 1
    return evolve(
        companion,
        rating_sum=companion.rating_sum + sign * review.rating,
        total_reviews=companion.total_reviews + sign,
    )
