"""Facts without an operation: fees, manual movements, chargebacks of extra payments."""

from __future__ import annotations

from itertools import permutations

import pytest

from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    IntentRefs,
    OperationKind,
    PayoutState,
    ProcessorFee,
    RefundState,
    RefundStatus,
    ReversalState,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.snapshots import find_intent_refs
from tests.support.booking_journey import (
    JOURNEY_BY_STATUS,
    BookingJourney,
    accepted_journey,
    apply_snapshot,
    last_operation,
    paid_journey,
    paid_out_journey,
    with_processor_book,
)

T, P, A = Trigger, Party, Account
WON, LOST, OPEN = ChargebackStatus.WON, ChargebackStatus.LOST, ChargebackStatus.OPEN
TOTAL = 40_000
FEES = (ProcessorFee("fee_1", 30), ProcessorFee("fee_2", 1), ProcessorFee("fee_3", -7))


# References -----------------------------------------------------------------------------


def test_a_request_has_nowhere_to_look():
    """A booking without an intent has its id as the only reference."""
    assert find_intent_refs(BookingJourney().booking, []) == IntentRefs(1)


def test_pages_are_looked_for_once_they_are_open():
    """The references have each opened page with its operation's id."""
    journey, book = with_processor_book(accepted_journey())
    operations = list(journey.operations.values())
    assert find_intent_refs(journey.booking, operations) == IntentRefs(1)
    book.execute_all()
    apply_snapshot(journey, book)
    (page,) = journey.operations.values()
    assert find_intent_refs(journey.booking, [page]) == IntentRefs(1, ((f"co_{page.id}", page.id),))


def test_every_payment_is_looked_at():
    """The references have the booking's own payment first, then the extra ones."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    book.pay("pay_3", amount=1)
    apply_snapshot(journey, book)
    operations = list(journey.operations.values())
    assert find_intent_refs(journey.booking, operations).payments == ("pay_1", "pay_2", "pay_3")


def test_what_is_no_page_is_not_looked_for():
    """The references do not have payouts."""
    journey, _ = paid_out_journey()
    operations = [
        op for op in journey.operations.values() if op.kind is not OperationKind.OPEN_CHECKOUT
    ]
    assert find_intent_refs(journey.booking, operations).checkouts == ()


# Fees -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(FEES)))
def test_fees_are_posted_once_in_whatever_order_they_come(order):
    """Each fee is posted once by its reference."""
    journey, book = with_processor_book(paid_journey())
    for fee in order:
        book.fees.append(fee)
        apply_snapshot(journey, book)
    assert apply_snapshot(journey, book) == []
    assert journey.balance(A.PROCESSOR_FEES) == 24
    assert journey.balance(A.PROCESSOR_BALANCE) == TOTAL - 24
    assert journey.faults == []


def test_a_fee_of_nothing_is_no_fee():
    """A fee of 0 is not posted."""
    journey, book = with_processor_book(paid_journey())
    book.fees.append(ProcessorFee("fee_0", 0))
    assert apply_snapshot(journey, book) == []


def test_a_fee_that_is_given_back_is_less_of_a_cost():
    """A negative fee, returned with a refund, reduces the costs."""
    journey, book = with_processor_book(paid_journey())
    book.fees += [ProcessorFee("fee_1", 30), ProcessorFee("fee_1_back", -30)]
    apply_snapshot(journey, book)
    assert journey.balance(A.PROCESSOR_FEES) == 0
    assert journey.faults == []


@pytest.mark.parametrize(
    "status", [each for each in BookingStatus if each is not BookingStatus.PENDING]
)
def test_a_fee_changes_no_status(status):
    """A fee is posted in any status without an alert."""
    journey = JOURNEY_BY_STATUS[status]()
    fees = Snapshot(1, fees=(ProcessorFee("fee_1", 30),))
    (found,) = journey.apply_snapshot(fees, journey.ends_at)
    assert (journey.booking.status, found.result.alerts) == (status, ())
    assert journey.faults == []


# Manual movements -----------------------------------------------------------------------

SETTLED = RefundStatus.SETTLED
BY_HAND = [
    (Snapshot(1, refunds=(RefundState("re_9", SETTLED, 100, None),)), "re_9", -100),
    (Snapshot(1, payouts=(PayoutState("tr_9", 100, 0, None),)), "tr_9", -100),
    (Snapshot(1, reversals=(ReversalState("rv_9", "tr_1", 100, None),)), "rv_9", 100),
]


@pytest.mark.parametrize("snapshot, ref, gained", BY_HAND)
def test_what_was_done_by_hand_is_put_into_suspense_and_told(snapshot, ref, gained):
    """A manual movement is posted to suspense once, with an alert."""
    journey = paid_journey()
    (found,) = journey.apply_snapshot(snapshot, NOW)
    assert journey.apply_snapshot(snapshot, NOW) == []
    assert journey.balance(A.SUSPENSE) == -gained
    assert journey.balance(A.PROCESSOR_BALANCE) == TOTAL + gained
    (alert,) = found.result.alerts
    assert ref in alert.text
    assert journey.booking.code in alert.text
    assert journey.faults == []


@pytest.mark.parametrize("op_id", [None, 999, 101])
def test_what_another_operation_claims_is_by_hand(op_id):
    """A fact that names no operation, or one of another kind, is manual."""
    journey = paid_journey()
    made = RefundState("re_9", SETTLED, 100, op_id)
    journey.apply_snapshot(Snapshot(1, refunds=(made,)), NOW)
    assert journey.balance(A.SUSPENSE) == 100


@pytest.mark.parametrize("status", [RefundStatus.PENDING, RefundStatus.FAILED])
def test_a_refund_by_hand_that_has_not_settled_is_no_fact_yet(status):
    """A pending manual refund is not posted."""
    journey, book = with_processor_book(paid_journey())
    book.settle(book.refund_by_hand(), status)
    book.returned_refunds.clear()
    assert apply_snapshot(journey, book) == []


def test_a_refund_by_hand_that_fails_afterwards_comes_back():
    """A failed manual refund is posted back from suspense once, with an alert."""
    journey, book = with_processor_book(paid_journey())
    number = book.refund_by_hand()
    apply_snapshot(journey, book)
    book.settle(number, RefundStatus.FAILED)
    (found,) = apply_snapshot(journey, book)
    assert apply_snapshot(journey, book) == []
    assert len(found.result.alerts) == 1
    assert journey.balance(A.SUSPENSE) == 0
    assert journey.balance(A.PROCESSOR_BALANCE) == TOTAL
    assert journey.faults == []


def test_a_refund_by_hand_says_nothing_of_the_bookings_own():
    """A manual refund does not reduce the refund owed."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(T.CANCEL, P.STAFF)
    book.refund_by_hand(TOTAL)
    apply_snapshot(journey, book)
    assert journey.balance(A.REFUND_PAYABLE) == -TOTAL
    assert journey.booking.payment_status == "refund_pending"
    assert journey.faults == []


def test_a_reversal_by_hand_says_nothing_of_a_claim():
    """A manual reversal does not reduce the staff member's debt."""
    journey, book = paid_out_journey()
    book.charge_back()
    apply_snapshot(journey, book, 2 * DAY)
    book.reverse_by_hand()
    apply_snapshot(journey, book, 3 * DAY)
    assert journey.booking.owed_by_staff == journey.balance(A.STAFF_RECEIVABLE) == 34_000
    assert journey.balance(A.SUSPENSE) == -100
    assert journey.faults == []


# Chargebacks of other payments ----------------------------------------------------------


def late():
    """A booking cancelled before its payment arrived."""
    journey, book = with_processor_book(accepted_journey())
    journey.apply(T.CANCEL, P.CUSTOMER)
    book.pay()
    apply_snapshot(journey, book)
    return journey, book, "pay_1"


def twice():
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book, -DAY)
    return journey, book, "pay_2"


def wrong():
    """A booking paid after a payment of a wrong amount."""
    journey, book = with_processor_book(accepted_journey())
    book.pay("pay_9", amount=7)
    apply_snapshot(journey, book, -DAY)
    return journey, book, "pay_9"


@pytest.mark.parametrize("verdict", [OPEN, WON, LOST])
@pytest.mark.parametrize("make", [late, twice, wrong])
def test_a_chargeback_of_another_payment_moves_no_status(make, verdict):
    """A chargeback of an extra payment is posted with an alert, without a change of status."""
    journey, book, ref = make()
    before, alerts = journey.booking, len(journey.alerts)
    amount = next(made.amount for made in book.payments if made.ref == ref)
    book.charge_back(payment_ref=ref, amount=amount, status=verdict)
    apply_snapshot(journey, book)
    after = journey.booking
    assert (after.status, after.escrow) == (before.status, before.escrow)
    assert (after.chargeback_ref, after.payment_status) == (None, before.payment_status)
    assert len(journey.alerts) == alerts + 1
    assert journey.balance(A.DISPUTE_RECEIVABLE) == (amount if verdict is OPEN else 0)
    assert journey.balance(A.CHARGEBACK_LOSSES) == (amount if verdict is LOST else 0)
    assert journey.balance(A.PROCESSOR_BALANCE) == book.cash
    assert journey.faults == []


@pytest.mark.parametrize("verdict", [WON, LOST])
def test_its_opening_and_its_verdict_are_each_known_once(verdict):
    """Opening and verdict are each posted once, also after repeated and outdated snapshots."""
    journey, book, ref = twice()
    book.charge_back(payment_ref=ref)
    older = book.snapshot
    assert len(apply_snapshot(journey, book)) == 1
    book.charge_back(status=verdict)
    assert len(apply_snapshot(journey, book)) == 1
    assert apply_snapshot(journey, book) == []
    assert journey.apply_snapshot(older, NOW) == []


def test_chargebacks_of_both_payments_are_two():
    """The chargeback of the own payment opens a dispute, that of the extra one is posted."""
    journey, book, ref = twice()
    book.charge_back("cb_2", payment_ref=ref)
    book.charge_back("cb_1")
    apply_snapshot(journey, book)
    assert (journey.booking.status, journey.booking.chargeback_ref) == (
        BookingStatus.DISPUTED,
        "cb_1",
    )
    assert journey.balance(A.DISPUTE_RECEIVABLE) == 2 * TOTAL
    book.charge_back("cb_2", status=LOST)
    book.charge_back("cb_1", status=WON)
    apply_snapshot(journey, book)
    assert journey.booking.status is BookingStatus.COMPLETED
    assert (journey.balance(A.DISPUTE_RECEIVABLE), journey.balance(A.CHARGEBACK_LOSSES)) == (
        0,
        TOTAL,
    )
    assert journey.faults == []


def test_a_chargeback_that_moves_no_money_is_none():
    """An inquiry without money is ignored."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back(amount=0)
    assert apply_snapshot(journey, book) == []


@pytest.mark.parametrize("first", [WON, LOST])
@pytest.mark.parametrize("second", [WON, LOST])
def test_a_second_chargeback_of_the_own_payment_is_booked_like_the_first(first, second):
    """Each of two chargebacks moves its money once, whatever the verdicts are."""
    journey, book = paid_out_journey()
    for number, verdict in ((1, first), (2, second)):
        book.charge_back(f"cb_{number}", amount=TOTAL)
        apply_snapshot(journey, book, 2 * number * DAY)
        book.execute_all()
        book.charge_back(f"cb_{number}", status=verdict)
        apply_snapshot(journey, book, (2 * number + 1) * DAY)
        assert journey.faults == []
    assert journey.booking.chargeback_ref == "cb_2"
    assert journey.balance(A.DISPUTE_RECEIVABLE) == 0
    assert journey.balance(A.PROCESSOR_BALANCE) == book.cash
    assert apply_snapshot(journey, book, 9 * DAY) == []


def test_a_finished_operation_is_not_taken_for_one_by_hand():
    """The result of a finished operation is not a manual movement."""
    journey, book = paid_out_journey()
    assert apply_snapshot(journey, book) == []
    assert last_operation(journey).result_ref == book.payouts[last_operation(journey).id].ref


# Changed verdicts -----------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second", "gained"), [(WON, LOST, -TOTAL), (LOST, WON, TOTAL)])
def test_a_changed_verdict_is_booked_and_told(first, second, gained):
    """A changed verdict moves the money to suspense, and alerts the operators."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back(status=first)
    apply_snapshot(journey, book)
    told, held = len(journey.alerts), journey.balance(A.PROCESSOR_BALANCE)
    book.charge_back(status=OPEN)
    assert apply_snapshot(journey, book) == []
    book.charge_back(status=second)
    apply_snapshot(journey, book)
    assert journey.balance(A.PROCESSOR_BALANCE) == held + gained == book.cash
    assert journey.balance(A.SUSPENSE) == -gained
    assert len(journey.alerts) == told + 1
    assert apply_snapshot(journey, book) == []
    assert journey.faults == []


def test_a_payout_waits_where_a_won_chargeback_is_lost_after_all():
    """The payout is frozen after a lost appeal, until an operator resumes it."""
    journey, book = with_processor_book(paid_journey())
    book.charge_back(status=WON)
    apply_snapshot(journey, book)
    was = journey.booking.payout_status
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    now = journey.booking.payout_status
    assert (was, now) == (PayoutStatus.SCHEDULED, PayoutStatus.FROZEN)
