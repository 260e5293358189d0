"""Reviews between the parties of a completed booking (SPECIFICATION 4.9, CONTRACT 5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import asdict, evolve

from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.reviews import (
    RatingTotals,
    Review,
    ReviewContent,
    apply_review_rating,
    check_responder,
    check_reviewer,
    create_review,
)
from staffbooking_core.errors import ConstraintViolated, NotFound, RuleBroken
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.ports import ALREADY_REVIEWED, Ports, Transaction
from staffbooking_core.representations.events import review_event
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.usecases.booking_writes import to_booking_write
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.validation import validated

__all__ = [
    "authorize",
    "authorize_response",
    "get_own_review",
    "get_review",
    "list_all_reviews",
    "list_newest_reviews",
    "list_reviews_after",
    "list_reviews_of",
    "respond_to_review",
    "set_review_hidden",
    "submit_review",
]


@validated
async def list_reviews_of(
    ports: Ports, user_id: int, page: int, limit: int
) -> tuple[Sequence[Review], RatingTotals]:
    """A page of the visible reviews of a user, the newest first, and the totals of all. Raises
    NotFound."""
    async with ports.store.read_view() as view:
        ratings = await view.reviews.ratings_of(user_id)
        if ratings is None:
            raise NotFound("User")
        return await view.reviews.reviews_of(user_id, page, limit), ratings


@validated
async def get_own_review(ports: Ports, actor: Actor, booking_id: int) -> Review | None:
    """The actor's review in a booking; None without one."""
    async with ports.store.read_view() as view:
        return await view.reviews.review_by(booking_id, actor.user_id)


@validated
async def authorize(ports: Ports, actor: Actor, booking_id: int) -> None:
    """Check that the actor may review a booking. Raises NotFound for a stranger, and Forbidden
    `wrong_party`."""
    async with ports.store.read_view() as view:
        _, party = require_party(actor, await view.bookings.booking(booking_id))
    check_reviewer(party)


@validated
async def submit_review(
    ports: Ports, actor: Actor, booking_id: int, command: SubmitReview
) -> Review:
    """Review the other party of a completed booking, once. The companion's rating and the event
    review.created are saved in the same transaction.

    Locks the actor, the booking, then the companion. Raises NotFound, Forbidden `wrong_party`,
    RuleBroken `booking_not_completed` or `already_reviewed`, and Unauthenticated.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Review:
        await lock_caller(tx.accounts, actor.user_id, actor.role)
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        new = create_review(party, booking, ReviewContent(**asdict(command)), now)
        companion = None
        if party is Party.CUSTOMER:
            companion = await tx.companions.lock_companion(new.reviewee_id)
        review = await tx.reviews.add_review(new)
        if companion is not None:
            await tx.companions.save_companion(apply_review_rating(companion, review))
        await _save_review_event(tx, ports, booking, review, now)
        return review

    try:
        return await ports.store.run_transaction(unit)
    except ConstraintViolated as error:
        if error.constraint != ALREADY_REVIEWED:
            raise
        raise RuleBroken("already_reviewed", "You have reviewed this booking before") from None


async def _save_review_event(
    tx: Transaction, ports: Ports, booking: Booking, review: Review, now: datetime
) -> None:
    """Save the event with a new revision of the booking, so that it is ordered among the booking's
    events."""
    booking_after = evolve(booking, revision=booking.revision + 1, events=booking.events + 1)
    event = review_event(ports.ids.event_id(), review, booking_after, now)
    write = to_booking_write(ports, booking, TransitionResult(booking_after), now)
    await tx.bookings.save_booking(evolve(write, booking=booking_after, event=event))


@validated
async def authorize_response(ports: Ports, actor: Actor, review_id: int) -> Review:
    """The review that the actor may respond to. Raises NotFound, also for a hidden review, and
    Forbidden `wrong_party`."""
    async with ports.store.read_view() as view:
        return _for_responder(actor, await view.reviews.review(review_id))


@validated
async def respond_to_review(
    ports: Ports, actor: Actor, review_id: int, command: RespondToReview
) -> Review:
    """Respond once to a review of the actor. Locks the actor, then the companion.

    Raises NotFound, also for a hidden review, Forbidden `wrong_party`, RuleBroken
    `already_responded`, and Unauthenticated.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Review:
        await lock_caller(tx.accounts, actor.user_id, actor.role)
        # Locked first: its detail is encoded again from all reviews, concurrent ones included.
        companion = await tx.companions.lock_companion(actor.user_id)
        review = _for_responder(actor, await tx.reviews.review(review_id))
        answered = review.with_response(command.response, now)
        if not await tx.reviews.save_response(answered):
            raise RuleBroken("already_responded", "The review has a response already")
        if companion is not None:
            await tx.companions.save_companion(companion)
        return answered

    return await ports.store.run_transaction(unit)


def _for_responder(actor: Actor, review: Review | None) -> Review:
    if review is None or review.hidden:
        raise NotFound("Review")
    check_responder(review, actor.user_id)
    return review


# For operators ----------------------------------------------------------------------------


@validated
async def list_all_reviews(ports: Ports, page: int = 1, limit: int = 50) -> Sequence[Review]:
    """A page of all reviews by id, hidden ones too, up to `limit + 1`."""
    async with ports.store.read_view() as view:
        return await view.reviews.reviews(0, limit + 1, (page - 1) * limit)


@validated
async def list_reviews_after(ports: Ports, after_id: int, limit: int) -> Sequence[Review]:
    """Up to `limit` reviews above `after_id` by id, hidden ones too."""
    async with ports.store.read_view() as view:
        return await view.reviews.reviews(after_id, limit)


@validated
async def list_newest_reviews(
    ports: Ports, before_id: int | None, limit: int, hidden: bool | None = None
) -> Sequence[Review]:
    """Up to `limit + 1` reviews below `before_id`, the newest first; with `hidden`, only those that
    are hidden or not."""
    async with ports.store.read_view() as view:
        return await view.reviews.newest_reviews(before_id, limit + 1, hidden=hidden)


@validated
async def get_review(ports: Ports, review_id: int) -> tuple[Review, User | None]:
    """A review, hidden or not, and whom it is about. Raises NotFound."""
    async with ports.store.read_view() as view:
        review = await view.reviews.review(review_id)
        if review is None:
            raise NotFound("Review")
        return review, await view.accounts.user(review.reviewee_id)


@validated
async def set_review_hidden(ports: Ports, review_id: int, hidden: bool) -> Review:
    """Hide a review or show it again. A hidden review is neither listed nor counted, but its author
    cannot submit another one. Repeating it changes nothing. Locks the companion. Raises
    NotFound."""

    async def unit(tx: Transaction) -> Review:
        known = await tx.reviews.review(review_id)
        if known is None:
            raise NotFound("Review")
        companion = await tx.companions.lock_companion(known.reviewee_id)
        review = evolve(known, hidden=hidden)
        if await tx.reviews.save_hidden(review) and companion is not None:
            await tx.companions.save_companion(apply_review_rating(companion, review))
        return review

    return await ports.store.run_transaction(unit)
