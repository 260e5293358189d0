"""Reviews: what the two parties of a booking say of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.companions.reviews import NewReview, RatingTotals, Review

__all__ = ["ALREADY_REVIEWED", "ReviewsReadPort", "ReviewsWritePort"]

ALREADY_REVIEWED = "uq_reviews_reviewer"
"""Constraint: a party reviews a booking at most once."""


class ReviewsReadPort(Protocol):
    """Queries on reviews."""

    async def review(self, review_id: int) -> Review | None:
        """A review by id, hidden or not."""
        ...

    async def reviews(self, after_id: int, limit: int, offset: int = 0) -> Sequence[Review]:
        """Up to `limit` reviews of all users above `after_id`, after the first `offset` of them, by
        id; hidden ones too."""
        ...

    async def newest_reviews(
        self, before_id: int | None, limit: int, *, hidden: bool | None = None
    ) -> Sequence[Review]:
        """Up to `limit` reviews of all users below `before_id`, the newest first; with `hidden`,
        only those that are hidden or not."""
        ...

    async def reviews_of(self, user_id: int, page: int, limit: int) -> Sequence[Review]:
        """A page of the visible reviews of a user, the newest first."""
        ...

    async def review_by(self, booking_id: int, reviewer_id: int) -> Review | None:
        """The review of a booking that a party wrote, hidden or not."""
        ...

    async def ratings_of(self, user_id: int) -> RatingTotals | None:
        """The totals over the visible reviews of a user; None where there is no such user."""
        ...


class ReviewsWritePort(ReviewsReadPort, Protocol):
    """Commands on reviews. A caller that changes a review of a companion locks the companion before
    and saves it after: its encoded detail includes its ratings and newest reviews."""

    async def add_review(self, review: NewReview) -> Review:
        """Insert a review. Raises ConstraintViolated(ALREADY_REVIEWED)."""
        ...

    async def save_response(self, review: Review) -> bool:
        """Save a review's response; False, and nothing changes, where it has one already."""
        ...

    async def save_hidden(self, review: Review) -> bool:
        """Save whether a review is hidden; False where nothing changes."""
        ...
