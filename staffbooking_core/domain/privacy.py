"""What is left of a person who asked to be forgotten: numbers, and money that adds up.

A store of many rows has `forgotten` and `unsigned` in words of its own (`sql/people.py`): what
changes here changes there, and a contract test holds the two together.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.accounts.users import Subscription, User
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    UNSETTLED_PAYMENT_STATUSES,
    Booking,
)
from staffbooking_core.domain.bookings.lifecycle import ENDED_STATUSES, Party
from staffbooking_core.domain.companions.companion import Approval, Companion, draft_companion
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import ChargebackStatus, OpenCheckout

ERASED_NAME = "Erased"
"""What stands where a name stood, or what somebody wrote."""


def has_open_obligations(booking: Booking) -> bool:
    """Whether something may still come of a booking, or money is owed for it."""
    return (
        booking.status not in ENDED_STATUSES
        or booking.payout_status in OPEN_PAYOUT_STATUSES
        or booking.payment_status in UNSETTLED_PAYMENT_STATUSES
        or booking.chargeback_status is ChargebackStatus.OPEN
        or booking.has_staff_debt
    )


def erase_user(user: User, now: datetime) -> User:
    """The row that keeps a person's number; nobody signs in with it."""
    return evolve(
        user,
        email=f"erased-{user.id}@erased.invalid",
        first_name=ERASED_NAME,
        last_name="",
        subscription=Subscription.NONE,
        subscription_expires_at=None,
        password_hash=None,
        disabled_at=user.disabled_at or now,
        email_verified_at=None,
        erased_at=now,
    )


def erase_companion(companion: Companion, user: User) -> Companion:
    """A companion of whom only the marks are left, which others gave."""
    return evolve(
        draft_companion(user),
        member_since=companion.member_since,
        rating_sum=companion.rating_sum,
        total_reviews=companion.total_reviews,
        approval=Approval.SUSPENDED,
    )


def erase_party_from_booking(booking: Booking, user_id: int) -> Booking:
    """A booking without the name of a party, without the place and the event that a customer
    wanted it for, and without what the party said of it."""
    if user_id == booking.customer_id:
        booking = evolve(booking, customer_name=ERASED_NAME, location=ERASED_NAME, event_ref=None)
        party = Party.CUSTOMER
    else:
        booking = evolve(booking, companion_name=ERASED_NAME)
        party = Party.STAFF
    if booking.cancelled_by is party:
        booking = evolve(booking, cancel_reason=None)
    if booking.disputed_by is party:
        booking = evolve(booking, dispute_reason=None)
    return booking


def erase_party_from_review(review: Review, user_id: int) -> Review:
    """A review without the name of who wrote it, or the response of who was reviewed, and
    without a word of theirs; the marks stay."""
    if user_id == review.reviewer_id:
        return evolve(review, reviewer_name=ERASED_NAME, comment=review.comment and ERASED_NAME)
    return evolve(review, response=review.response and ERASED_NAME)


def erase_checkout_command(command: OpenCheckout) -> OpenCheckout:
    """What a page was opened with, which is done: neither who paid nor for whom."""
    return evolve(command, customer_email=ERASED_NAME, description=ERASED_NAME)


def erase_payee(payee: Payee) -> Payee:
    """A payout account that is known by its reference alone, and not opened any more."""
    return evolve(
        payee, command=evolve(payee.command, email=ERASED_NAME, name=ERASED_NAME), next_at=None
    )
