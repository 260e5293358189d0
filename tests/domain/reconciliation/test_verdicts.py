"""Verdicts of banks: changed ones, and what is left of the payment after a lost one."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, POLICY
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import ChargebackStatus
from tests.support.booking_journey import apply_snapshot, completed_journey, with_processor_book

WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST


def test_the_hold_after_a_lost_appeal_outlasts_a_withdrawn_dispute():
    """A dispute that is withdrawn leaves the payout on hold, if an appeal was lost before."""
    journey, book = with_processor_book(completed_journey())
    book.charge_back(status=WON)
    apply_snapshot(journey, book)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    now = journey.ends_at + HOUR
    journey.apply(Trigger.DISPUTE, Party.CUSTOMER, now, reason="late")
    journey.apply(Trigger.WITHDRAW, Party.CUSTOMER, now + HOUR)
    assert journey.booking.payout_status is PayoutStatus.FROZEN
    assert journey.booking.payout_held
    assert journey.faults == []


def test_an_earlier_chargeback_may_be_lost_after_all():
    """The changed verdict of a chargeback is booked although the payment has a later one: its money
    is in suspense, the operators are alerted, and the payout is on hold."""
    journey, book = with_processor_book(completed_journey())
    for ref in ("cb_1", "cb_2"):
        book.charge_back(ref, amount=10_000, status=WON)
        apply_snapshot(journey, book)
    told = len(journey.alerts)
    book.charge_back("cb_1", status=LOST)
    apply_snapshot(journey, book)
    assert journey.balance(Account.PROCESSOR_BALANCE) == book.cash
    assert journey.balance(Account.SUSPENSE) == 10_000
    assert len(journey.alerts) == told + 1
    assert journey.booking.payout_status is PayoutStatus.FROZEN
    assert journey.booking.chargeback_status is WON
    assert apply_snapshot(journey, book) == []
    assert journey.faults == []


def test_a_partly_lost_chargeback_leaves_the_rest_to_the_staff_member():
    """The rest of a payment that the bank took in part is divided as a completed booking's, also
    where the fee of a late cancellation is the platform's."""
    policy = evolve(POLICY, late_cancel_payout=False)
    journey, book = with_processor_book(completed_journey(policy))
    book.charge_back(amount=100)
    apply_snapshot(journey, book)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    assert (journey.booking.platform_fee, journey.booking.payout_amount) == (5_985, 33_915)
    assert journey.faults == []
