"""Reviews in memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.companions.reviews import NewReview, RatingTotals, Review
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import ALREADY_REVIEWED


@frozen
class ReviewsReader:
    """Reads reviews."""

    tx: MemoryTransaction

    async def review(self, review_id: int) -> Review | None:
        return self.tx.state.reviews.get(review_id)

    async def reviews(self, after_id: int, limit: int, offset: int = 0) -> Sequence[Review]:
        reviews = self.tx.state.reviews
        found = [reviews[number] for number in sorted(reviews) if number > after_id]
        return found[offset : offset + limit]

    async def newest_reviews(
        self, before_id: int | None, limit: int, *, hidden: bool | None = None
    ) -> Sequence[Review]:
        found = [
            review
            for number, review in sorted(self.tx.state.reviews.items(), reverse=True)
            if (before_id is None or number < before_id) and hidden in (None, review.hidden)
        ]
        return found[:limit]

    async def reviews_of(self, user_id: int, page: int, limit: int) -> Sequence[Review]:
        return newest_reviews(self.tx.state, user_id, (page - 1) * limit, limit)

    async def review_by(self, booking_id: int, reviewer_id: int) -> Review | None:
        number = self.tx.state.review_by_party.get((booking_id, reviewer_id))
        return None if number is None else self.tx.state.reviews[number]

    async def ratings_of(self, user_id: int) -> RatingTotals | None:
        state = self.tx.state
        if user_id not in state.users:
            return None
        numbers = state.reviews_of.get(user_id) or ()
        shown = [one for number in numbers if not (one := state.reviews[number]).hidden]
        return RatingTotals(sum(review.rating for review in shown), len(shown))


@frozen
class ReviewsWriter(ReviewsReader):
    """Reads and writes reviews."""

    async def add_review(self, review: NewReview) -> Review:
        state, party = self.tx.state, (review.booking_id, review.reviewer_id)
        if party in state.review_by_party:
            raise ConstraintViolated(ALREADY_REVIEWED)
        added = Review(id=next(self.tx.shared.review_ids), **asdict(review, recurse=False))
        state.reviews[added.id] = added
        state.review_by_party[party] = added.id
        others = state.reviews_of.get(added.reviewee_id) or ()
        state.reviews_of[added.reviewee_id] = (*others, added.id)
        return added

    async def save_response(self, review: Review) -> bool:
        reviews = self.tx.state.reviews
        kept = reviews.get(review.id)
        if kept is None or kept.response is not None:
            return False
        reviews[review.id] = review
        return True

    async def save_hidden(self, review: Review) -> bool:
        reviews = self.tx.state.reviews
        kept = reviews.get(review.id)
        if kept is None or kept.hidden == review.hidden:
            return False
        reviews[review.id] = evolve(kept, hidden=review.hidden)
        return True


def newest_reviews(state: MemoryState, user_id: int, offset: int, limit: int) -> list[Review]:
    """The visible reviews of a user, the newest first, after `offset` of them."""
    numbers = (state.reviews_of.get(user_id) or ())[::-1]
    shown = [one for number in numbers if not (one := state.reviews[number]).hidden]
    return shown[offset : offset + limit]
