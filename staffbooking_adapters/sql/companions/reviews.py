"""Reviews and ratings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attrs import asdict, fields, frozen
from sqlalchemy import and_, bindparam, func, insert, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import sum_or_zero
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import users
from staffbooking_adapters.sql.schema.companions import is_hidden_review, is_visible_review, reviews
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.reviews import NewReview, RatingTotals, Review

REVIEW_COLUMNS = tuple(reviews.c[field.name] for field in fields(Review))
to_review = RowMapper(Review, REVIEW_COLUMNS, reviewer_role=Party)

_FIELDS = {column.name: bindparam(column.name, type_=column.type) for column in REVIEW_COLUMNS}
_IS_REVIEW = reviews.c.id == bindparam("review_id")

GET_REVIEW = Statement(select(*REVIEW_COLUMNS).where(_IS_REVIEW))
GET_REVIEW_BY_REVIEWER = Statement(
    select(*REVIEW_COLUMNS).where(
        reviews.c.booking_id == bindparam("booking_id"),
        reviews.c.reviewer_id == bindparam("reviewer_id"),
    )
)
GET_RATINGS = Statement(
    select(sum_or_zero(reviews.c.rating), func.count(reviews.c.id))
    .select_from(
        users.outerjoin(reviews, and_(reviews.c.reviewee_id == users.c.id, is_visible_review))
    )
    .where(users.c.id == bindparam("user_id"))
    .group_by(users.c.id)
)
ADD_REVIEW = Statement(
    insert(reviews)
    .values({field.name: _FIELDS[field.name] for field in fields(NewReview)})
    .returning(reviews.c.id)
)
SAVE_REVIEW_RESPONSE = Statement(
    update(reviews)
    .values({name: _FIELDS[name] for name in ("response", "responded_at")})
    .where(_IS_REVIEW, reviews.c.response.is_(None))
)
SAVE_REVIEW_HIDDEN = Statement(
    update(reviews)
    .values(hidden=_FIELDS["hidden"])
    .where(_IS_REVIEW, reviews.c.hidden != _FIELDS["hidden"])
)


@cache
def reviews_after(size: int) -> Statement:
    after = reviews.c.id > bindparam("after_id")
    found = select(*REVIEW_COLUMNS).where(after).order_by(reviews.c.id)
    return Statement(found.limit(size).offset(OFFSET_PARAM))


@cache
def newest_reviews_before(size: int, hidden: bool | None) -> Statement:
    found = select(*REVIEW_COLUMNS).where(reviews.c.id < bindparam("before_id", type_=BigInt))
    if hidden is not None:
        found = found.where(is_hidden_review if hidden else is_visible_review)
    return Statement(found.order_by(reviews.c.id.desc()).limit(size))


@cache
def newest_reviews_of(size: int) -> Statement:
    """The newest visible reviews of a user, after an offset."""
    return Statement(
        select(*REVIEW_COLUMNS)
        .where(reviews.c.reviewee_id == bindparam("user_id"), is_visible_review)
        .order_by(reviews.c.id.desc())
        .limit(size)
        .offset(bindparam("offset", type_=BigInt))
    )


@frozen
class ReviewsReader:
    """Reads reviews and ratings."""

    connection: Connection

    async def review(self, review_id: int) -> Review | None:
        return to_review.map_optional(
            await self.connection.fetch_one(GET_REVIEW, review_id=review_id)
        )

    async def reviews(self, after_id: int, limit: int, offset: int = 0) -> Sequence[Review]:
        rows = await self.connection.fetch_all(
            reviews_after(page_size(limit)), after_id=after_id, offset=offset
        )
        return [to_review(row) for row in rows[:limit]]

    async def newest_reviews(
        self, before_id: int | None, limit: int, *, hidden: bool | None = None
    ) -> Sequence[Review]:
        rows = await self.connection.fetch_all(
            newest_reviews_before(page_size(limit), hidden),
            before_id=MAX_ID if before_id is None else before_id,
        )
        return [to_review(row) for row in rows[:limit]]

    async def reviews_of(self, user_id: int, page: int, limit: int) -> Sequence[Review]:
        params = {"user_id": user_id, "offset": (page - 1) * limit}
        rows = await self.connection.fetch_all(newest_reviews_of(page_size(limit)), **params)
        return [to_review(row) for row in rows[:limit]]

    async def review_by(self, booking_id: int, reviewer_id: int) -> Review | None:
        params = {"booking_id": booking_id, "reviewer_id": reviewer_id}
        return to_review.map_optional(
            await self.connection.fetch_one(GET_REVIEW_BY_REVIEWER, **params)
        )

    async def ratings_of(self, user_id: int) -> RatingTotals | None:
        row = await self.connection.fetch_one(GET_RATINGS, user_id=user_id)
        return None if row is None else RatingTotals(*row)


@frozen
class ReviewsWriter(ReviewsReader):
    """Writes reviews, responses and their visibility."""

    async def add_review(self, review: NewReview) -> Review:
        given = asdict(review, recurse=False)
        return Review(id=await self.connection.fetch_value(ADD_REVIEW, **given), **given)

    async def save_response(self, review: Review) -> bool:
        response_params = {"response": review.response, "responded_at": review.responded_at}
        return bool(
            await self.connection.execute(
                SAVE_REVIEW_RESPONSE, review_id=review.id, **response_params
            )
        )

    async def save_hidden(self, review: Review) -> bool:
        given = {"review_id": review.id, "hidden": review.hidden}
        return bool(await self.connection.execute(SAVE_REVIEW_HIDDEN, **given))
