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
        found = [reviews[review_id] for review_id in sorted(reviews) if review_id > after_id]
        return found[offset : offset + limit]

    async def newest_reviews(
        self, before_id: int | None, limit: int, *, hidden: bool | None = None
    ) -> Sequence[Review]:
        found = [
            review
            for review_id, review in sorted(self.tx.state.reviews.items(), reverse=True)
            if (before_id is None or review_id < before_id) and hidden in (None, review.hidden)
        ]
        return found[:limit]

    async def reviews_of(self, user_id: int, page: int, limit: int) -> Sequence[Review]:
        return newest_reviews(self.tx.state, user_id, (page - 1) * limit, limit)

    async def review_by(self, booking_id: int, reviewer_id: int) -> Review | None:
        review_id = self.tx.state.review_by_party.get((booking_id, reviewer_id))
        return None if review_id is None else self.tx.state.reviews[review_id]

    async def ratings_of(self, user_id: int) -> RatingTotals | None:
        state = self.tx.state
        if user_id not in state.users:
            return None
        visible = _visible_reviews(state, user_id)
        return RatingTotals(sum(review.rating for review in visible), len(visible))


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
        stored = reviews.get(review.id)
        if stored is None or stored.response is not None:
            return False
        reviews[review.id] = review
        return True

    async def save_hidden(self, review: Review) -> bool:
        reviews = self.tx.state.reviews
        stored = reviews.get(review.id)
        if stored is None or stored.hidden == review.hidden:
            return False
        reviews[review.id] = evolve(stored, hidden=review.hidden)
        return True


def newest_reviews(state: MemoryState, user_id: int, offset: int, limit: int) -> list[Review]:
    """The visible reviews of a user, the newest first, after `offset` of them."""
    return _visible_reviews(state, user_id)[::-1][offset : offset + limit]


def _visible_reviews(state: MemoryState, user_id: int) -> list[Review]:
    """The visible reviews of a user, in the order of their creation."""
    found = (state.reviews[review_id] for review_id in state.reviews_of.get(user_id) or ())
    return [review for review in found if not review.hidden]
