"""Reconciliation of payouts, reversals and chargebacks."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, POLICY
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.earnings import has_open_earning
from staffbooking_core.domain.bookings.lifecycle import (
    BookingNotification,
    BookingStatus,
    EventName,
    Party,
    Trigger,
)
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import ChargebackStatus, ReversePayout
from tests.support.booking_journey import (
    apply_snapshot,
    cancelled_journey,
    completed_journey,
    disputed_journey,
    journey_with_unseen_reversal,
    last_operation,
    paid_journey,
    paid_out_journey,
    with_processor_book,
)

T, P = Trigger, Party
WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST
TOTAL, PAYOUT = 40_000, 34_000


# Payouts and reversals ------------------------------------------------------------------


def released():
    """A completed booking whose payout is ordered."""
    journey, book = with_processor_book(completed_journey())
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    return journey, book


def test_a_payout_that_arrived_is_paid():
    """A confirmed payout is `paid`, and nothing is owed to the staff member."""
    journey, _ = paid_out_journey()
    assert journey.booking.payout_status == PayoutStatus.PAID
    assert (journey.booking.paid_out, journey.booking.payout_left) == (PAYOUT, 0)
    assert journey.balance(Account.STAFF_PAYABLE) == 0
    assert journey.faults == []


def test_a_payout_that_crossed_a_chargeback_is_claimed_back():
    """A payout confirmed after a chargeback orders a reversal at once."""
    journey, book = released()
    book.execute_all()
    payout = last_operation(journey)
    charged = journey.chargeback()
    journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    apply_snapshot(journey, book)
    assert last_operation(journey).command == ReversePayout(payout.n, PAYOUT, "usd")
    assert journey.booking.payout_status == PayoutStatus.FROZEN
    assert journey.faults == []


def test_a_payout_that_is_made_during_a_dispute_is_told_once():
    """A payout confirmed while the booking is disputed is told, and not again when it stands."""
    journey, book = released()
    book.execute_all()
    charged = journey.chargeback()
    journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    confirmed = apply_snapshot(journey, book)[-1].result
    assert confirmed.event is EventName.PAYOUT_PAID
    assert confirmed.notifications == (BookingNotification.PAYOUT_TO_STAFF,)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert journey.booking.payout_status is PayoutStatus.PAID
    assert journey.events.count(EventName.PAYOUT_PAID) == 1
    assert journey.faults == []


def journey_with_a_payout_after_the_verdict():
    """A payout was ordered, its chargeback was lost, and the processor confirms the payout."""
    journey, book = released()
    book.execute_all()
    for trigger, status in ((T.CHARGEBACK, ChargebackStatus.OPEN), (T.CHARGEBACK_LOST, LOST)):
        charged = journey.chargeback(status)
        journey.apply(trigger, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    book.charge_back(status=LOST)
    return journey, apply_snapshot(journey, book)[-1].result


def test_a_payout_that_is_made_after_a_lost_verdict_is_told():
    """A payout confirmed after the verdict that left nothing of it is told."""
    journey, confirmed = journey_with_a_payout_after_the_verdict()
    assert confirmed.event is EventName.PAYOUT_PAID
    assert confirmed.notifications == (BookingNotification.PAYOUT_TO_STAFF,)
    assert journey.faults == []


def test_a_payout_that_is_made_after_a_lost_verdict_is_owed_on_the_page_of_earnings():
    """A payout confirmed after the verdict counts as reversed, and as an open earning while it is
    owed."""
    journey, _ = journey_with_a_payout_after_the_verdict()
    assert journey.booking.payout_status is PayoutStatus.REVERSED
    assert journey.booking.owed_by_staff == PAYOUT
    assert has_open_earning(journey.booking)


def test_more_than_is_left_comes_back():
    """The excess of a payout confirmed after a partly lost chargeback is claimed."""
    journey, book = released()
    book.execute_all()
    payout = last_operation(journey)
    for trigger, status in ((T.CHARGEBACK, ChargebackStatus.OPEN), (T.CHARGEBACK_LOST, LOST)):
        charged = journey.chargeback(status, amount=10_000)
        journey.apply(trigger, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    assert journey.booking.payout_amount == 25_500
    book.charge_back(amount=10_000, status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert last_operation(journey).command == ReversePayout(payout.n, PAYOUT - 25_500, "usd")
    assert journey.booking.payout_status == PayoutStatus.PAID
    assert journey.faults == []
    book.execute_all()
    apply_snapshot(journey, book, 3 * DAY)
    assert (journey.booking.paid_out, journey.booking.owed_by_staff) == (25_500, 0)
    assert journey.faults == []


def test_a_late_found_payout_is_the_one_to_be_reversed():
    """A claim names the order that was executed, also if it is an older one."""
    journey, book = released()
    payout = last_operation(journey)
    for trigger, status in ((T.CHARGEBACK, ChargebackStatus.OPEN), (T.CHARGEBACK_WON, WON)):
        charged = journey.chargeback(status)
        journey.apply(trigger, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    assert journey.booking.payout_n != payout.n
    book.execute(payout)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert journey.booking.payout_n == payout.n
    assert journey.faults == []


def test_a_reversal_ends_the_debt():
    """A reversal settles the debt, and the payout is `reversed`."""
    journey, book = journey_with_unseen_reversal()
    apply_snapshot(journey, book, 3 * DAY)
    assert (journey.booking.paid_out, journey.booking.owed_by_staff) == (0, 0)
    assert journey.booking.payout_status == PayoutStatus.REVERSED
    assert journey.balance(Account.STAFF_RECEIVABLE) == 0
    assert journey.faults == []


def test_a_won_chargeback_pays_out_again_after_a_reversal():
    """A reversed payout is due again after a won chargeback."""
    journey, book = journey_with_unseen_reversal()
    apply_snapshot(journey, book, 3 * DAY)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 4 * DAY)
    assert journey.booking.payout_status == PayoutStatus.SCHEDULED
    assert journey.booking.payout_left == PAYOUT
    assert journey.faults == []


def test_a_reversal_after_the_verdict_is_owed_again():
    """A reversal after the debt was netted is paid out again."""
    journey, book = journey_with_unseen_reversal()
    won = journey.chargeback(WON)
    step = journey.apply(T.CHARGEBACK_WON, P.PROCESSOR, journey.ends_at + 3 * DAY, chargeback=won)
    assert step.booking.payout_status == PayoutStatus.PAID
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 4 * DAY)
    assert journey.booking.payout_status == PayoutStatus.SCHEDULED
    assert journey.booking.payout_due_at == journey.ends_at + 4 * DAY + POLICY.payout_delay
    assert journey.faults == []


# Chargebacks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict, status", [(WON, BookingStatus.COMPLETED), (LOST, BookingStatus.CANCELLED)]
)
def test_a_verdict_seen_first_is_preceded_by_its_opening(verdict, status):
    """A verdict seen first yields both transitions, opening and verdict."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back(status=verdict)
    assert len(apply_snapshot(journey, book)) == 2
    assert [entry.to for entry in journey.booking.timeline[-2:]] == [BookingStatus.DISPUTED, status]
    assert journey.faults == []


def test_a_chargeback_of_a_disputed_booking_waits_for_the_verdict():
    """A disputed booking stays disputed by a chargeback."""
    journey, book = with_processor_book(disputed_journey())
    book.charge_back()
    apply_snapshot(journey, book)
    assert journey.booking.status == BookingStatus.DISPUTED
    assert journey.booking.chargeback_status is ChargebackStatus.OPEN


def test_an_older_snapshot_of_a_chargeback_is_no_news():
    """An open chargeback in a snapshot after a won one changes nothing."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back(status=WON)
    apply_snapshot(journey, book)
    book.charge_back(status=ChargebackStatus.OPEN)
    assert apply_snapshot(journey, book) == []


def test_a_second_chargeback_is_another_one():
    """A second chargeback after a won one does not change the first."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back("cb_1", status=WON)
    apply_snapshot(journey, book)
    book.charge_back("cb_2")
    apply_snapshot(journey, book, 2 * DAY)
    assert (journey.booking.status, journey.booking.chargeback_ref) == (
        BookingStatus.DISPUTED,
        "cb_2",
    )
    assert apply_snapshot(journey, book, 2 * DAY) == []
    book.charge_back("cb_2", status=LOST)
    apply_snapshot(journey, book, 3 * DAY)
    assert journey.booking.status == BookingStatus.CANCELLED
    assert apply_snapshot(journey, book, 4 * DAY) == []
    assert journey.faults == []


def test_two_chargebacks_at_once_come_one_after_the_other():
    """A second chargeback waits for the verdict of the first."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back("cb_1", amount=10_000)
    book.charge_back("cb_2", amount=5_000)
    apply_snapshot(journey, book)
    assert journey.booking.chargeback_ref == "cb_1"
    book.charge_back("cb_1", status=WON)
    apply_snapshot(journey, book)
    assert journey.booking.chargeback_ref == "cb_2"
    assert apply_snapshot(journey, book) == []
    assert journey.faults == []


def test_a_snapshot_that_lacks_the_chargeback_is_older():
    """An outdated snapshot does not open the first chargeback again."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back("cb_1", status=WON)
    older = book.snapshot
    book.charge_back("cb_2")
    apply_snapshot(journey, book)
    assert journey.apply_snapshot(older, journey.ends_at + DAY) == []


def test_a_chargeback_of_a_cancelled_booking_is_only_booked():
    """A chargeback of a cancelled booking and its verdict change postings only."""
    journey, book = with_processor_book(cancelled_journey())
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    assert journey.booking.status == BookingStatus.CANCELLED
    assert journey.balance(Account.CHARGEBACK_LOSSES) == TOTAL
    assert journey.faults == []
