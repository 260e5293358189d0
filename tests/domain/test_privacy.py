"""Erasure of users: open obligations, and the remaining data."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    NOW,
    make_booking,
    make_checkout_command,
    make_companion,
    make_payee,
    make_user,
)
from staffbooking_adapters.testing.builders_reviews import make_review
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.domain.bookings.booking import PaymentStatus, PayoutStatus, TimelineEntry
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.domain.privacy import (
    erase_checkout_command,
    erase_companion,
    erase_party_from_booking,
    erase_party_from_review,
    erase_payee,
    erase_user,
    has_open_obligations,
)

SETTLED = {
    "status": BookingStatus.COMPLETED,
    "payment_status": PaymentStatus.SUCCEEDED,
    "payout_status": PayoutStatus.PAID,
}


@pytest.mark.parametrize("status", BookingStatus)
def test_a_booking_is_open_until_it_ends(status):
    """Completed and cancelled bookings have no open obligations."""
    ended = status in (BookingStatus.COMPLETED, BookingStatus.CANCELLED)
    assert has_open_obligations(make_booking(**{**SETTLED, "status": status})) is not ended


@pytest.mark.parametrize("payout", PayoutStatus)
def test_a_payout_that_is_to_come_keeps_it_open(payout):
    """A scheduled, failed or frozen payout is an open obligation."""
    waits = payout in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED, PayoutStatus.FROZEN)
    assert has_open_obligations(make_booking(**{**SETTLED, "payout_status": payout})) is waits


@pytest.mark.parametrize("payment", PaymentStatus)
def test_a_payment_on_its_way_keeps_it_open(payment):
    """An awaited payment or refund is an open obligation."""
    moves = payment in (
        PaymentStatus.REQUIRES_PAYMENT,
        PaymentStatus.PROCESSING,
        PaymentStatus.REFUND_PENDING,
    )
    assert has_open_obligations(make_booking(**{**SETTLED, "payment_status": payment})) is moves


def test_debts_and_chargebacks_keep_it_open():
    """A debt or an open chargeback is an open obligation."""
    assert has_open_obligations(make_booking(**SETTLED, owed_by_staff=1))
    assert has_open_obligations(make_booking(**SETTLED, chargeback_status=ChargebackStatus.OPEN))
    assert not has_open_obligations(make_booking(**SETTLED, chargeback_status=ChargebackStatus.WON))


def test_a_number_is_left_of_a_person():
    """An erased user keeps the id and the erasure time; an earlier `disabled_at` stays."""
    user = make_user(id=7, subscription=Subscription.ENTERPRISE, password_hash="hash")
    gone = erase_user(user, NOW, "t0ken")
    assert gone == evolve(
        user,
        email="erased-7-t0ken@erased.invalid",
        first_name="Erased",
        last_name="",
        subscription=Subscription.NONE,
        password_hash=None,
        disabled_at=NOW,
        erased_at=NOW,
    )
    assert erase_user(evolve(user, disabled_at=NOW - DAY), NOW, "t0ken").disabled_at == NOW - DAY
    assert gone.name == "Erased"


def test_marks_are_left_of_a_companion():
    """An erased companion keeps its ratings, is not listed, and has no texts."""
    companion = make_companion(rating_sum=9, total_reviews=2, bio="hush", payout_account="hush")
    gone = erase_companion(companion, erase_user(make_user(id=companion.id), NOW, "t0ken"))
    assert (gone.rating_sum, gone.total_reviews, gone.member_since) == (
        9,
        2,
        companion.member_since,
    )
    assert (gone.approval, gone.active) == (Approval.SUSPENDED, False)
    assert "hush" not in repr(gone)
    assert companion.first_name not in repr(gone)


@pytest.mark.parametrize("party", [Party.CUSTOMER, Party.STAFF])
def test_a_booking_forgets_one_side(party):
    """The party's name and reasons are erased, a customer's location and event too; the other
    party's data stays."""
    said: dict[str, Any] = {"cancelled_by": party, "cancel_reason": "hush", "location": "hush"}
    entry = TimelineEntry(NOW, None, BookingStatus.CANCELLED, Trigger.CANCEL, party, "hush")
    said |= {"disputed_by": party, "dispute_reason": "hush", "timeline": (entry,)}
    booking = make_booking(**said, event_ref="hush")
    left = erase_party_from_booking(booking, 1 if party is Party.CUSTOMER else 2)
    names = (left.customer_name, left.companion_name)
    kept = ("Erased", "Mia Lindqvist") if party is Party.CUSTOMER else ("Ada Okoro", "Erased")
    assert names == kept
    assert (left.cancel_reason, left.dispute_reason, left.timeline[0].reason) == (None,) * 3
    assert left.version == booking.version + 1
    assert (left.location == "Erased") is (party is Party.CUSTOMER)
    assert (left.event_ref is None) is (party is Party.CUSTOMER)
    other = erase_party_from_booking(booking, 2 if party is Party.CUSTOMER else 1)
    assert (other.cancel_reason, other.dispute_reason) == ("hush", "hush")


def test_a_review_forgets_one_side():
    """The texts of the reviewer or of the reviewed person are erased; a missing text stays
    missing."""
    review = make_review(comment="hush", response="thanks")
    by, of = review.reviewer_id, review.reviewee_id
    left = erase_party_from_review(review, by)
    assert left == evolve(review, reviewer_name="Erased", comment="Erased")
    assert erase_party_from_review(review, of) == evolve(review, response="Erased")
    silent = make_review(comment=None)
    assert (
        erase_party_from_review(silent, by).comment,
        erase_party_from_review(silent, of).response,
    ) == (None, None)


def test_what_was_ordered_names_nobody():
    """Amounts and references stay; the payee is not opened any more, and its refusal is erased."""
    command, payee = make_checkout_command(), make_payee(ref="acct_1", last_error="hush")
    left = evolve(command, customer_email="Erased", description="Erased")
    assert erase_checkout_command(command) == left
    opened_with = evolve(payee.command, email="Erased", name="Erased")
    assert erase_payee(payee) == evolve(payee, command=opened_with, next_at=None, last_error=None)
