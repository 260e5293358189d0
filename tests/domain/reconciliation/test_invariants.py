"""The audit finds every disagreement between ledger, booking, operations and timeline."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account, Leg, Posting
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.reconciliation.invariants import find_invariant_violations
from tests.support.booking_journey import (
    JOURNEY_BY_STATUS,
    completed_journey,
    disputed_journey,
    paid_journey,
    paid_out_journey,
)

A = Account


def add(journey, debit, credit, amount=7):
    """Add a posting to the journey's ledger."""
    legs = (Leg(debit, amount), Leg(credit, -amount))
    journey.postings["slip"] = Posting("slip", 1, NOW, legs)
    return journey


def change(journey, **fields):
    """Change the booking's fields without the ledger."""
    journey.booking = evolve(journey.booking, **fields)
    return journey


def found(journey, text):
    return any(text in fault for fault in journey.faults)


@pytest.mark.parametrize("status", list(BookingStatus))
def test_a_sound_booking_has_no_faults(status):
    """A consistent booking has no violations in any status."""
    assert JOURNEY_BY_STATUS[status]().faults == []


@pytest.mark.parametrize("account", [A.ESCROW, A.REFUND_PAYABLE, A.STAFF_PAYABLE])
def test_a_liability_below_zero_is_found(account):
    """A negative liability is a violation."""
    assert found(add(paid_journey(), account, A.PLATFORM_FEES, 10**6), f"{account} is negative")


def test_money_that_left_the_escrow_is_found():
    """The ledger's escrow must equal the booking's."""
    assert found(add(paid_journey(), A.ESCROW, A.PLATFORM_FEES), "escrow is 39993, should be 40000")


def test_an_escrow_column_that_changed_is_found():
    """The booking's escrow must equal the ledger's."""
    assert found(change(paid_journey(), escrow=39_999), "escrow is 40000, should be 39999")


def test_more_than_the_total_held_is_found():
    """The escrow must not exceed the total."""
    journey = change(add(paid_journey(), A.PROCESSOR_BALANCE, A.ESCROW), escrow=40_007)
    assert found(journey, "above the total")


def test_a_forgotten_debt_is_found():
    """The staff member's debt must be the same in ledger and booking."""
    assert found(add(completed_journey(), A.STAFF_RECEIVABLE, A.ESCROW), "staff_receivable is 7")


def test_a_wrong_fee_is_found():
    """The fee of an ended booking must equal the posted one."""
    assert found(change(completed_journey(), platform_fee=1), "platform_fees is 6000, should be 1")


def test_a_wrong_payout_is_found():
    """The payout left must equal the ledger's payable."""
    assert found(
        change(completed_journey(), payout_amount=1), "staff_payable is 34000, should be 1"
    )


def test_escrow_outside_its_statuses_is_found():
    """A pending booking must hold no money."""
    journey = change(
        add(JOURNEY_BY_STATUS[BookingStatus.PENDING](), A.SUSPENSE, A.ESCROW), escrow=7
    )
    assert found(journey, "escrow while pending")


def test_a_payable_of_a_disputed_booking_is_found():
    """All money of a disputed booking must be in escrow."""
    assert found(
        add(disputed_journey(), A.PLATFORM_FEES, A.STAFF_PAYABLE), "staff_payable while disputed"
    )


def test_a_refund_that_nobody_makes_is_found():
    """A refund owed must have an operation."""
    assert found(add(completed_journey(), A.PLATFORM_FEES, A.REFUND_PAYABLE), "refund_payable is 7")


def test_a_refund_that_is_settled_but_still_owed_is_found():
    """A settled refund must not be owed in the ledger."""
    journey = paid_journey()
    journey.apply(Trigger.CANCEL, Party.STAFF)
    for number, operation in journey.operations.items():
        journey.operations[number] = evolve(operation, settlement=SettlementStatus.SETTLED)
    assert found(journey, "refund_payable is 40000, should be 0")


def test_a_payout_without_its_operation_is_found():
    """The paid-out amount must equal the finished operations."""
    assert found(change(completed_journey(), paid_out=1), "paid out is 1, should be 0")


def test_a_payout_done_twice_is_found():
    """A finished payout operation must be recorded in the booking."""
    journey, _ = paid_out_journey()
    done = next(op for op in journey.operations.values() if op.kind is OperationKind.PAY_OUT)
    journey.operations[999] = evolve(done, id=999)
    assert found(journey, "paid out is 34000, should be 68000")


def test_a_payout_called_paid_too_early_is_found():
    """A paid payout must have no amount left."""
    journey = change(completed_journey(), payout_status=PayoutStatus.PAID)
    assert found(journey, "counts as paid, but 34000 is left")


def test_a_due_time_without_a_payout_is_found():
    """A booking without payout must have no due time."""
    journey = change(completed_journey(), payout_status=PayoutStatus.NONE)
    assert found(journey, "no payout is due")


@pytest.mark.parametrize("cut", [0, 1, -1])
def test_a_hole_in_the_timeline_is_found(cut):
    """Each timeline entry must start in the status of the previous one."""
    journey = completed_journey()
    timeline = list(journey.booking.timeline)
    del timeline[cut]
    assert found(change(journey, timeline=tuple(timeline)), "timeline")


def test_a_timeline_that_begins_otherwise_is_found():
    """The timeline must begin with the request."""
    journey = paid_journey()
    first, *rest = journey.booking.timeline
    wrong = (evolve(first, trigger=Trigger.ACCEPT), *rest)
    assert found(change(journey, timeline=wrong), "begins with accept")


def test_a_move_outside_the_table_is_found():
    """Each timeline entry must be a transition of the lifecycle table."""
    journey = paid_journey()
    *rest, last = journey.booking.timeline
    wrong = (*rest, evolve(last, trigger=Trigger.CONFIRM))
    assert found(change(journey, timeline=wrong), "can't become paid by confirm")


def test_a_withdrawal_to_another_status_is_found():
    """A dispute withdrawn to another status than the one before it is found."""
    journey = disputed_journey()
    journey.apply(Trigger.WITHDRAW, Party.CUSTOMER, journey.ends_at)
    assert journey.faults == []
    *entries, last = journey.booking.timeline
    wrong = (*entries, evolve(last, to=BookingStatus.COMPLETED))
    assert found(change(journey, timeline=wrong), "disputed can't become completed by withdraw")


def test_a_dispute_without_deadline_is_found():
    """A disputed booking without a deadline is found."""
    journey = change(disputed_journey(), dispute_respond_by=None)
    assert found(journey, "the dispute has no deadline")


def test_an_empty_timeline_is_found():
    """The timeline must not be empty."""
    assert found(change(paid_journey(), timeline=()), "the timeline ends with None")


def test_only_what_is_wrong_is_told():
    """One fault gives one violation."""
    journey, _ = paid_out_journey()
    wrong = evolve(journey.booking, payout_due_at=NOW + DAY, payout_status=PayoutStatus.NONE)
    faults = list(
        find_invariant_violations(
            wrong, tuple(journey.postings.values()), tuple(journey.operations.values())
        )
    )
    assert faults == ["no payout is due, but it has a due time"]
