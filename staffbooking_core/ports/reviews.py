"""The store's family of reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.companions.reviews import NewReview, RatingTotals, Review

ALREADY_REVIEWED = "uq_reviews_reviewer"
"""Constraint: a party reviews a booking at most once."""


class ReviewsReadPort(Protocol):
    async def review(self, review_id: int) -> Review | None: ...
    async def reviews(self, after_id: int, limit: int) -> Sequence[Review]:
        """Of everybody, hidden ones too, in the order of ids, from the first above `after_id`."""
        ...

    async def reviews_of(self, user_id: int, page: int, limit: int) -> Sequence[Review]:
        """A page of the reviews of a person that are shown, the newest first."""
        ...

    async def review_by(self, booking_id: int, reviewer_id: int) -> Review | None:
        """What somebody has said of a booking's other side, hidden or not."""
        ...

    async def ratings_of(self, user_id: int) -> RatingTotals | None:
        """What those shown come to; None where there is no such user."""
        ...


class ReviewsWritePort(ReviewsReadPort, Protocol):
    """Who changes a review of a companion holds the companion before and saves it after:
    what is shown of it tells of its ratings and newest reviews."""

    async def add_review(self, review: NewReview) -> Review:
        """Raises ConstraintViolated(ALREADY_REVIEWED): one review a party and booking."""
        ...

    async def save_response(self, review: Review) -> bool:
        """Keep its response; False, and nothing changes, where it has one already."""
        ...

    async def save_hidden(self, review: Review) -> bool:
        """Keep whether it is hidden; False, and nothing changes, where that is so already."""
        ...
