"""Erasure of a person's data: ids, amounts and ratings stay, names and texts are removed.

The SQL store implements the same rules as statements; a contract test compares the two.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.accounts.audit import AuditEntry
from staffbooking_core.domain.accounts.users import Subscription, User
from staffbooking_core.domain.bookings.booking import OPEN_PAYOUT_STATUSES, Booking
from staffbooking_core.domain.bookings.disputes import DisputeStatement
from staffbooking_core.domain.bookings.lifecycle import ENDED_STATUSES, Party
from staffbooking_core.domain.companions.companion import Approval, Companion, draft_companion
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import OpenCheckout

ERASED_NAME = "Erased"
"""Replacement for a name, or a text that the person wrote."""
ERASED_URL = "https://erased.invalid"
"""Replacement for the address of a webhook."""


def has_open_obligations(booking: Booking) -> bool:
    """Whether the booking has not ended, or money is still owed for it."""
    return (
        booking.status not in ENDED_STATUSES
        or booking.payout_status in OPEN_PAYOUT_STATUSES
        or booking.is_unsettled
        or booking.has_staff_debt
    )


def erase_user(user: User, now: datetime, token: str) -> User:
    """The erased user: keeps the id, cannot sign in. The random `token` is in the e-mail address,
    so that nobody can register with it before and thus prevent the erasure."""
    return evolve(
        user,
        email=f"erased-{user.id}-{token}@erased.invalid",
        first_name=ERASED_NAME,
        last_name="",
        subscription=Subscription.NONE,
        subscription_expires_at=None,
        password_hash=None,
        disabled_at=user.disabled_at or now,
        email_verified_at=None,
        erased_at=now,
        language=None,
        theme=None,
        timezone=None,
    )


def erase_companion(companion: Companion, user: User) -> Companion:
    """The erased companion: keeps the ratings that others gave."""
    return evolve(
        draft_companion(user),
        member_since=companion.member_since,
        rating_sum=companion.rating_sum,
        total_reviews=companion.total_reviews,
        approval=Approval.SUSPENDED,
    )


def erase_party_from_booking(booking: Booking, user_id: int) -> Booking:
    """The next version of the booking, without the party's name and reasons; for a customer also
    without location and event."""
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
    timeline = tuple(
        evolve(entry, reason=None) if entry.actor is party else entry for entry in booking.timeline
    )
    return evolve(
        booking, timeline=timeline, version=booking.version + 1, revision=booking.revision + 1
    )


def erase_party_from_review(review: Review, user_id: int) -> Review:
    """The review without the reviewer's name and comment, or without the reviewed person's
    response; the ratings stay."""
    if user_id == review.reviewer_id:
        return evolve(review, reviewer_name=ERASED_NAME, comment=review.comment and ERASED_NAME)
    return evolve(review, response=review.response and ERASED_NAME)


def erase_statement(statement: DisputeStatement) -> DisputeStatement:
    """A statement in a dispute without its text and files."""
    return evolve(statement, text=ERASED_NAME, files=())


def erase_checkout_command(command: OpenCheckout) -> OpenCheckout:
    """A finished checkout command without the customer's email address and the description. The
    processor's refusal, which may repeat the address, is deleted beside it."""
    return evolve(command, customer_email=ERASED_NAME, description=ERASED_NAME)


def erase_payee(payee: Payee) -> Payee:
    """A payee with its reference only; it is not opened or polled any more. The processor's
    refusal may repeat the email address."""
    return evolve(
        payee,
        command=evolve(payee.command, email=ERASED_NAME, name=ERASED_NAME),
        next_at=None,
        last_error=None,
    )


def erase_audit_entry(entry: AuditEntry) -> AuditEntry:
    """An entry about or by the person, without its text and address."""
    return evolve(entry, reason=None, origin=None)
