"""Reviews and their inputs, with defaults."""

from __future__ import annotations

from typing import Any

from attrs import asdict

from staffbooking_adapters.testing.builders import NOW, add_booking, make_booking
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.reviews import (
    NewReview,
    Review,
    ReviewContent,
    apply_review_rating,
)
from staffbooking_core.inputs import SubmitReview
from staffbooking_core.ports import Store, Transaction


def make_review_content(**given: Any) -> ReviewContent:
    """A rating of 4 without texts."""
    return ReviewContent(**asdict(SubmitReview(**{"rating": 4, **given})))


def make_new_review(
    booking: Booking | None = None, by: Party = Party.CUSTOMER, **given: Any
) -> NewReview:
    """A review at NOW of the companion by the customer, or the other way round for Party.STAFF."""
    booking = booking or make_booking()
    customer, staff = (
        (booking.customer_id, booking.customer_name),
        (booking.companion_id, booking.companion_name),
    )
    (reviewer_id, name), (reviewee_id, _) = (
        (customer, staff) if by is Party.CUSTOMER else (staff, customer)
    )
    defaults = {
        **asdict(make_review_content()),
        "booking_id": booking.id,
        "reviewer_id": reviewer_id,
        "reviewer_name": name,
        "reviewer_role": by,
        "reviewee_id": reviewee_id,
        "created_at": NOW,
    }
    return NewReview(**{**defaults, **given})


def make_review(**given: Any) -> Review:
    """The same as a stored review; the id is 1."""
    kept = {name: given.pop(name) for name in ("response", "responded_at") if name in given}
    number = given.pop("id", 1)
    return Review(id=number, **asdict(make_new_review(**given)), **kept)


async def add_review(
    store: Store, booking: Booking | None = None, by: Party = Party.CUSTOMER, **given: Any
) -> Review:
    """A review in the store, and in the rating of its companion; a missing booking is created."""
    new = make_new_review(booking or await add_booking(store), by, **given)

    async def unit(tx: Transaction) -> Review:
        companion = await tx.companions.lock_companion(new.reviewee_id)
        review = await tx.reviews.add_review(new)
        if companion is not None:
            await tx.companions.save_companion(apply_review_rating(companion, review))
        return review

    return await store.run_transaction(unit)
