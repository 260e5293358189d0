"""Disputes of a booking: opened, withdrawn, overdue, resolved."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.disputes import (
    Dispute,
    DisputeOutcome,
    DisputeResolution,
    DisputeStatus,
    newest_dispute,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, TimerKind, Trigger
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Forbidden, RuleBroken
from tests.support.booking_journey import (
    BookingJourney,
    completed_journey,
    disputed_journey,
    paid_journey,
)

T, P = Trigger, Party


def disputed_after_completion(**given):
    """Completed, and disputed by the customer an hour after the end."""
    journey = completed_journey(**given)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR, reason="rude")
    return journey


def charged_back(journey: BookingJourney) -> BookingJourney:
    """The same journey with an open chargeback."""
    journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.ends_at, chargeback=journey.chargeback())
    return journey


def refusal(call, *args, **facts):
    with pytest.raises((RuleBroken, Forbidden)) as caught:
        call(*args, **facts)
    return caught.value.code


# The record -------------------------------------------------------------------------------


def test_a_booking_without_dispute_has_none():
    """A booking that was never disputed has no dispute."""
    assert newest_dispute(paid_journey().booking) is None


def test_an_open_dispute_has_a_deadline_and_no_resolution():
    """An open dispute has the opener, the reason and a deadline 72 hours later."""
    journey = disputed_journey()
    at = journey.starts_at
    assert newest_dispute(journey.booking) == Dispute(
        opened_by=P.CUSTOMER,
        opened_at=at,
        reason="nobody came",
        respond_by=at + 72 * HOUR,
        status=DisputeStatus.OPEN,
        resolution=None,
    )


@pytest.mark.parametrize(
    "trigger, outcome, refund",
    [
        (T.RESOLVE_RELEASE, DisputeOutcome.RELEASE, 0),
        (T.RESOLVE_REFUND, DisputeOutcome.REFUND, 40_000),
        (T.RESOLVE_SPLIT, DisputeOutcome.SPLIT, 10_000),
    ],
)
def test_a_resolution_is_recorded(trigger, outcome, refund):
    """A resolved dispute has the outcome, the refunded amount, the note and the time."""
    journey = disputed_journey()
    now = journey.ends_at + DAY
    journey.apply(trigger, P.ADMIN, now, refund_amount=10_000, reason="we asked")
    dispute = newest_dispute(journey.booking)
    assert dispute is not None
    assert dispute.status is DisputeStatus.RESOLVED
    assert dispute.resolution == DisputeResolution(outcome, refund, "we asked", now)


@pytest.mark.parametrize(
    "trigger, status, outcome",
    [
        (T.CHARGEBACK_WON, ChargebackStatus.WON, DisputeOutcome.WON),
        (T.CHARGEBACK_LOST, ChargebackStatus.LOST, DisputeOutcome.LOST),
    ],
)
def test_a_verdict_is_recorded(trigger, status, outcome):
    """A verdict resolves the dispute without a refund of ours."""
    journey = charged_back(paid_journey())
    now = journey.ends_at + DAY
    journey.apply(trigger, P.PROCESSOR, now, chargeback=journey.chargeback(status))
    dispute = newest_dispute(journey.booking)
    assert dispute is not None
    assert dispute.resolution == DisputeResolution(outcome, 0, None, now)


def test_a_chargeback_counts_as_the_customers():
    """A dispute that a chargeback opened is the customer's, with the reason `chargeback`."""
    dispute = newest_dispute(charged_back(paid_journey()).booking)
    assert dispute is not None
    assert (dispute.opened_by, dispute.reason) == (P.CUSTOMER, "chargeback")


def test_a_second_dispute_replaces_the_resolved_one():
    """A booking disputed again has a new dispute with a number of its own."""
    journey = disputed_journey()
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at, reason="we asked")
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR, reason="again")
    dispute = newest_dispute(journey.booking)
    assert dispute is not None
    assert (dispute.status, dispute.reason) == (DisputeStatus.OPEN, "again")
    assert journey.booking.dispute_number == 2


# Withdrawing ------------------------------------------------------------------------------


def test_a_withdrawn_dispute_leaves_a_paid_booking():
    """A paid booking is paid again, with its payment time and its whole escrow."""
    before = paid_journey().booking
    journey = disputed_journey()
    journey.apply(T.WITHDRAW, P.CUSTOMER, journey.ends_at)
    after = journey.booking
    assert (after.status, after.paid_at, after.escrow) == (
        BookingStatus.PAID,
        before.paid_at,
        before.escrow,
    )
    assert journey.faults == []


def test_a_withdrawn_dispute_leaves_a_completed_booking():
    """A completed booking is completed again with the same times, and its payout resumes."""
    before = completed_journey().booking
    journey = disputed_after_completion()
    journey.apply(T.WITHDRAW, P.CUSTOMER, journey.ends_at + 2 * HOUR)
    after = journey.booking
    kept = ("status", "completed_at", "completed_by", "payout_status", "payout_due_at")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert journey.faults == []


def test_a_payout_that_came_due_meanwhile_is_made_next():
    """The payout of a dispute that is withdrawn late is due at the withdrawal."""
    journey = disputed_after_completion()
    now = journey.ends_at + 9 * DAY
    journey.apply(T.WITHDRAW, P.CUSTOMER, now)
    assert journey.booking.payout_due_at == now


def test_a_completion_that_came_due_meanwhile_is_made_next():
    """The automatic completion of a dispute that is withdrawn late is due at the withdrawal."""
    journey = disputed_journey()
    now = journey.ends_at + 9 * DAY
    journey.apply(T.WITHDRAW, P.CUSTOMER, now)
    timer = next_timer(journey.booking, journey.policy)
    assert timer is not None
    assert (timer.kind, timer.at) == (TimerKind.AUTO_COMPLETE, now)


def test_an_operators_hold_outlives_a_withdrawn_dispute():
    """A payout that was on hold before the dispute is on hold after its withdrawal."""
    journey = completed_journey()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR)
    journey.apply(T.WITHDRAW, P.CUSTOMER, journey.ends_at + 2 * HOUR)
    assert journey.booking.payout_status is PayoutStatus.FROZEN


def test_a_resolution_ends_an_operators_hold():
    """A payout that was on hold before the dispute is scheduled by its resolution."""
    journey = completed_journey()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR)
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + 2 * HOUR)
    assert journey.booking.payout_status is PayoutStatus.SCHEDULED


def test_only_the_opener_withdraws():
    """The other party's withdrawal is of the wrong party."""
    journey = disputed_journey()
    assert refusal(journey.apply, T.WITHDRAW, P.STAFF, journey.ends_at) == "wrong_party"


def test_a_dispute_with_a_chargeback_is_not_withdrawn():
    """No dispute is withdrawn while a chargeback is open, whether it opened it or not."""
    for journey in (charged_back(disputed_journey()), charged_back(paid_journey())):
        found = refusal(journey.apply, T.WITHDRAW, P.CUSTOMER, journey.ends_at)
        assert found == "chargeback_open"


def test_a_completion_is_published_once():
    """`booking.completed` is not published again after a withdrawn dispute."""
    journey = disputed_after_completion()
    journey.apply(T.WITHDRAW, P.CUSTOMER, journey.ends_at + 2 * HOUR)
    assert journey.events.count("booking.completed") == 1


# No-show ----------------------------------------------------------------------------------


def test_an_absence_is_a_dispute_with_a_credit():
    """A reported absence is a dispute with the reason `no_show`, and grants a credit."""
    journey = paid_journey()
    journey.apply(T.NO_SHOW, P.CUSTOMER, journey.starts_at + 15 * MINUTE)
    dispute = newest_dispute(journey.booking)
    assert dispute is not None
    assert (dispute.reason, journey.credits) == ("no_show", 1)
    assert journey.booking.is_no_show


@pytest.mark.parametrize("offset", [15 * MINUTE, 28 * HOUR])
def test_an_absence_is_reported_in_its_time(offset):
    """Absence can be reported from 15 minutes after the start to 24 hours after the end."""
    journey = paid_journey()
    journey.apply(T.NO_SHOW, P.CUSTOMER, journey.starts_at + offset)
    assert journey.booking.status is BookingStatus.DISPUTED


@pytest.mark.parametrize("offset", [15 * MINUTE - SECOND, 28 * HOUR + SECOND])
def test_an_absence_is_not_reported_out_of_its_time(offset):
    """Absence can't be reported before 15 minutes after the start, or later than 24 hours after the
    end."""
    journey = paid_journey()
    found = refusal(journey.apply, T.NO_SHOW, P.CUSTOMER, journey.starts_at + offset)
    assert found == "no_show_not_open"


def test_who_checked_in_was_there():
    """Absence can't be reported after a check-in."""
    journey = paid_journey()
    journey.apply(T.CHECK_IN, P.STAFF, journey.starts_at)
    found = refusal(journey.apply, T.NO_SHOW, P.CUSTOMER, journey.starts_at + HOUR)
    assert found == "already_checked_in"


def test_a_used_credit_keeps_the_absence_reported():
    """A reported absence can't be withdrawn after its credit was used."""
    journey = paid_journey()
    journey.apply(T.NO_SHOW, P.CUSTOMER, journey.starts_at + HOUR)
    found = refusal(journey.apply, T.WITHDRAW, P.CUSTOMER, journey.ends_at, is_credit_used=True)
    assert found == "rebooking_used"


# The deadline -----------------------------------------------------------------------------


def test_an_overdue_dispute_alerts_the_operators_once():
    """The deadline alerts the operators, changes nothing else, and does not pass twice."""
    journey = disputed_journey()
    now = journey.starts_at + 72 * HOUR
    journey.apply(T.DISPUTE_OVERDUE, P.SYSTEM, now)
    assert journey.booking.status is BookingStatus.DISPUTED
    assert len(journey.alerts) == 1
    assert refusal(journey.apply, T.DISPUTE_OVERDUE, P.SYSTEM, now) == "timer_not_due"


def test_a_deadline_does_not_pass_early():
    """Nothing happens before the deadline."""
    journey = disputed_journey()
    now = journey.starts_at + 72 * HOUR - SECOND
    assert refusal(journey.apply, T.DISPUTE_OVERDUE, P.SYSTEM, now) == "timer_not_due"


def test_a_new_dispute_has_a_new_deadline():
    """A second dispute alerts the operators again."""
    journey = disputed_journey()
    journey.apply(T.DISPUTE_OVERDUE, P.SYSTEM, journey.starts_at + 72 * HOUR)
    journey.apply(T.WITHDRAW, P.CUSTOMER, journey.starts_at + 80 * HOUR)
    journey.apply(T.DISPUTE, P.STAFF, journey.starts_at + 81 * HOUR)
    timer = next_timer(journey.booking, journey.policy)
    assert timer is not None
    assert (timer.kind, timer.at) == (TimerKind.DISPUTE_OVERDUE, journey.starts_at + 153 * HOUR)
