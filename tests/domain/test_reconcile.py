"""Facts of the processor: each is applied once, in whatever order and however often it comes."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.bookings import PaymentStatus, PayoutStatus
from staffbooking_core.domain.ledger import Account
from staffbooking_core.domain.lifecycle import EventName, Party, Status, Trigger
from staffbooking_core.domain.payments import (
    ChargebackStatus,
    CheckoutStatus,
    OpStatus,
    PayoutState,
    RefundState,
    RefundStatus,
    ReversePayout,
    Settlement,
    Snapshot,
)
from tests.support.builders import DAY, HOUR, NOW, POLICY
from tests.support.journey import (
    Book,
    Journey,
    accepted,
    cancelled,
    completed,
    disputed,
    paid,
    paid_out,
)

T, P = Trigger, Party
WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST
TOTAL, PAYOUT = 40_000, 34_000


def with_book(journey):
    """The journey, and the processor's book that knows its payment."""
    book = Book(journey)
    if journey.booking.paid_at is not None:
        book.pay()
    return journey, book


def look(journey, book, after=DAY):
    return journey.see(book.snapshot, journey.ends_at + after)


def last_operation(journey):
    return list(journey.operations.values())[-1]


# Checkouts and payments -----------------------------------------------------------------


def test_an_opened_checkout_is_known():
    """The intent gets its address and end, and the operation is done."""
    journey, book = with_book(accepted())
    book.execute_all()
    look(journey, book)
    assert journey.booking.intent.checkout_url == "/pay"
    assert last_operation(journey).status is OpStatus.DONE


def test_a_superseded_checkout_is_not_the_current_one():
    """The page of an older order finishes its operation and changes nothing else."""
    journey, book = with_book(accepted())
    book.execute_all()
    intent = evolve(journey.booking.intent, checkout_n=9)
    journey.booking = evolve(journey.booking, intent=intent)
    look(journey, book)
    assert journey.booking.intent.checkout_url is None
    assert last_operation(journey).status is OpStatus.DONE


def test_a_checkout_that_expired_early_counts_as_lapsed():
    """The next visit of the client then orders another page."""
    journey, book = with_book(accepted())
    book.execute_all()
    now = journey.booking.accepted_at
    journey.see(book.snapshot, now)
    number, page = next(iter(book.checkouts.items()))
    book.checkouts[number] = evolve(page, status=CheckoutStatus.EXPIRED)
    journey.see(book.snapshot, now + HOUR)
    assert journey.booking.intent.checkout_expires_at == now + HOUR
    assert journey.see(book.snapshot, now + 2 * HOUR) == []
    assert len(journey.pull(T.CHECKOUT, P.CUSTOMER, now + 2 * HOUR).orders) == 2


def test_a_payment_makes_it_paid():
    """With its event, once."""
    journey, book = with_book(accepted())
    book.pay()
    look(journey, book)
    assert (journey.booking.status, journey.events) == (Status.PAID, [EventName.PAYMENT_COMPLETED])


@pytest.mark.parametrize("wrong", [{"amount": 39_999}, {"amount": 40_001}, {"currency": "eur"}])
def test_a_wrong_payment_is_never_paid(wrong):
    """Another amount or currency is put aside, and somebody is told."""
    journey, book = with_book(accepted())
    book.pay(**wrong)
    look(journey, book)
    assert journey.booking.status == Status.ACCEPTED
    assert len(journey.alerts) == 1
    assert journey.balance(Account.SUSPENSE) == -(0 if "currency" in wrong else wrong["amount"])
    assert journey.faults == []


def test_the_right_payment_after_a_wrong_one_counts():
    """What was put aside stands in nobody's way."""
    journey, book = with_book(accepted())
    book.pay("pay_0", amount=1)
    book.pay("pay_1")
    look(journey, book)
    assert journey.booking.status == Status.PAID
    assert journey.faults == []


def test_a_payment_without_an_intent_is_none_of_ours():
    """A booking that was never accepted has nothing to be paid."""
    journey, book = with_book(Journey())
    book.pay()
    assert look(journey, book) == []


# Refunds --------------------------------------------------------------------------------


def refunding():
    """Cancelled by the staff member; the refund is settled at the processor."""
    journey, book = with_book(paid())
    journey.pull(T.CANCEL, P.STAFF)
    book.execute(last_operation(journey))
    return journey, book, last_operation(journey).id


def test_a_settled_refund_moves_the_cash():
    """Nothing is owed any more, and the record says refunded."""
    journey, book, _ = refunding()
    look(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUNDED
    assert (
        journey.balance(Account.REFUND_PAYABLE) == journey.balance(Account.PROCESSOR_BALANCE) == 0
    )
    assert journey.faults == []


def test_a_part_given_back_is_partially_refunded():
    """After a refund of half the record says so."""
    journey, book = with_book(paid())
    journey.pull(T.CANCEL, P.CUSTOMER, journey.starts_at - 30 * HOUR)
    book.execute(last_operation(journey))
    look(journey, book)
    assert journey.booking.payment_status == PaymentStatus.PARTIALLY_REFUNDED


def test_a_pending_refund_is_not_yet_given_back():
    """The operation is done, the money still owed."""
    journey, book, number = refunding()
    book.settle(number, RefundStatus.PENDING)
    look(journey, book)
    assert journey.operations[number].status is OpStatus.DONE
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING


@pytest.mark.parametrize("settled_before", [True, False])
def test_a_failed_refund_is_owed_again(settled_before):
    """Whether it had settled or not: the cash is back, somebody is told."""
    journey, book, number = refunding()
    if settled_before:
        look(journey, book)
    book.settle(number, RefundStatus.FAILED)
    look(journey, book)
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.balance(Account.PROCESSOR_BALANCE) == TOTAL
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING
    assert len(journey.alerts) == 1
    assert journey.faults == []


@pytest.mark.parametrize(
    "known, stale",
    [
        (RefundStatus.SETTLED, RefundStatus.PENDING),
        (RefundStatus.FAILED, RefundStatus.SETTLED),
        (RefundStatus.FAILED, RefundStatus.PENDING),
    ],
)
def test_an_older_snapshot_of_a_refund_is_no_news(known, stale):
    """What was seen before something newer, and comes after it, changes nothing."""
    journey, book, number = refunding()
    book.settle(number, known)
    look(journey, book)
    book.settle(number, stale)
    assert look(journey, book) == []


def test_an_extra_refund_says_nothing_of_the_bookings_payment():
    """A second payment goes back while the booking's own refund is on its way."""
    journey, book, number = refunding()
    book.settle(number, RefundStatus.PENDING)
    book.pay("pay_2")
    look(journey, book)
    book.execute_all()
    look(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING
    book.settle(number, RefundStatus.SETTLED)
    look(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUNDED
    assert journey.faults == []


def test_an_extra_refund_that_fails_leaves_the_booking_paid():
    """The alert tells of it; the booking's own payment is as good as before."""
    journey, book = with_book(paid())
    book.pay("pay_2")
    look(journey, book)
    number = last_operation(journey).id
    book.execute_all()
    book.settle(number, RefundStatus.FAILED)
    look(journey, book)
    assert journey.booking.payment_status == PaymentStatus.SUCCEEDED
    assert len(journey.alerts) == 2
    assert journey.faults == []


# Payouts and reversals ------------------------------------------------------------------


def released():
    """Completed, and the payout is ordered."""
    journey, book = with_book(completed())
    journey.pull(T.RELEASE_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    return journey, book


def test_a_payout_that_arrived_is_paid():
    """Nothing is owed to the staff member any more."""
    journey, _ = paid_out()
    assert journey.booking.payout_status == PayoutStatus.PAID
    assert (journey.booking.paid_out, journey.booking.payout_left) == (PAYOUT, 0)
    assert journey.balance(Account.STAFF_PAYABLE) == 0
    assert journey.faults == []


def test_a_payout_that_crossed_a_chargeback_is_claimed_back():
    """It was on its way when the chargeback came: a reversal is ordered at once."""
    journey, book = released()
    book.execute_all()
    payout = last_operation(journey)
    charged = journey.chargeback()
    journey.pull(T.CHARGEBACK, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    look(journey, book)
    assert last_operation(journey).command == ReversePayout(payout.n, PAYOUT, "usd")
    assert journey.booking.payout_status == PayoutStatus.FROZEN
    assert journey.faults == []


def test_more_than_is_left_comes_back():
    """A payout on its way, a lost chargeback in part: what was paid too much is claimed."""
    journey, book = released()
    book.execute_all()
    payout = last_operation(journey)
    for trigger, status in ((T.CHARGEBACK, ChargebackStatus.OPEN), (T.CHARGEBACK_LOST, LOST)):
        charged = journey.chargeback(status, amount=10_000)
        journey.pull(trigger, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    assert journey.booking.payout_amount == 25_500
    book.charge_back(amount=10_000, status=LOST)
    look(journey, book, 2 * DAY)
    assert last_operation(journey).command == ReversePayout(payout.n, PAYOUT - 25_500, "usd")
    assert journey.booking.payout_status == PayoutStatus.PAID
    assert journey.faults == []
    book.execute_all()
    look(journey, book, 3 * DAY)
    assert (journey.booking.paid_out, journey.booking.owed_by_staff) == (25_500, 0)
    assert journey.faults == []


def test_a_late_found_payout_is_the_one_to_be_reversed():
    """An older order turns out to have paid: a later claim names that order."""
    journey, book = released()
    payout = last_operation(journey)
    for trigger, status in ((T.CHARGEBACK, ChargebackStatus.OPEN), (T.CHARGEBACK_WON, WON)):
        charged = journey.chargeback(status)
        journey.pull(trigger, P.PROCESSOR, journey.ends_at + DAY, chargeback=charged)
    journey.pull(T.RELEASE_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    assert journey.booking.payout_n != payout.n
    book.execute(payout)
    book.charge_back(status=WON)
    look(journey, book, 2 * DAY)
    assert journey.booking.payout_n == payout.n
    assert journey.faults == []


def reversing():
    """Paid out, charged back, and the reversal has succeeded at the processor."""
    journey, book = paid_out()
    book.charge_back()
    look(journey, book, 2 * DAY)
    book.execute_all()
    return journey, book


def test_a_reversal_ends_the_debt():
    """The cash is back, nothing is owed, and the payout counts as reversed."""
    journey, book = reversing()
    look(journey, book, 3 * DAY)
    assert (journey.booking.paid_out, journey.booking.owed_by_staff) == (0, 0)
    assert journey.booking.payout_status == PayoutStatus.REVERSED
    assert journey.balance(Account.STAFF_RECEIVABLE) == 0
    assert journey.faults == []


def test_a_won_chargeback_pays_out_again_after_a_reversal():
    """What was taken back is due again."""
    journey, book = reversing()
    look(journey, book, 3 * DAY)
    book.charge_back(status=WON)
    look(journey, book, 4 * DAY)
    assert journey.booking.payout_status == PayoutStatus.SCHEDULED
    assert journey.booking.payout_left == PAYOUT
    assert journey.faults == []


def test_a_reversal_after_the_verdict_is_owed_again():
    """Won first, with the debt netted; the reversal comes late: it is paid out once more."""
    journey, book = reversing()
    won = journey.chargeback(WON)
    journey.pull(T.CHARGEBACK_WON, P.PROCESSOR, journey.ends_at + 3 * DAY, chargeback=won)
    assert journey.booking.payout_status == PayoutStatus.PAID
    book.charge_back(status=WON)
    look(journey, book, 4 * DAY)
    assert journey.booking.payout_status == PayoutStatus.SCHEDULED
    assert journey.booking.payout_due_at == journey.ends_at + 4 * DAY + POLICY.payout_delay
    assert journey.faults == []


# Chargebacks ----------------------------------------------------------------------------


@pytest.mark.parametrize("verdict, status", [(WON, Status.COMPLETED), (LOST, Status.CANCELLED)])
def test_a_verdict_seen_first_is_preceded_by_its_opening(verdict, status):
    """The money moved twice, so both moves are made."""
    journey, book = with_book(paid())
    book.charge_back(status=verdict)
    assert len(look(journey, book)) == 2
    assert [entry.to for entry in journey.booking.timeline[-2:]] == [Status.DISPUTED, status]
    assert journey.faults == []


def test_a_chargeback_of_a_disputed_booking_waits_for_the_verdict():
    """The booking stays disputed, now by a chargeback."""
    journey, book = with_book(disputed())
    book.charge_back()
    look(journey, book)
    assert journey.booking.status == Status.DISPUTED
    assert journey.booking.chargeback_status is ChargebackStatus.OPEN


def test_an_older_snapshot_of_a_chargeback_is_no_news():
    """Open after won changes nothing."""
    journey, book = with_book(paid())
    book.charge_back(status=WON)
    look(journey, book)
    book.charge_back(status=ChargebackStatus.OPEN)
    assert look(journey, book) == []


def test_a_second_chargeback_is_another_one():
    """After one was won another may come; the first stays decided."""
    journey, book = with_book(paid())
    book.charge_back("cb_1", status=WON)
    look(journey, book)
    book.charge_back("cb_2")
    look(journey, book, 2 * DAY)
    assert (journey.booking.status, journey.booking.chargeback_ref) == (Status.DISPUTED, "cb_2")
    assert look(journey, book, 2 * DAY) == []
    book.charge_back("cb_2", status=LOST)
    look(journey, book, 3 * DAY)
    assert journey.booking.status == Status.CANCELLED
    assert look(journey, book, 4 * DAY) == []
    assert journey.faults == []


def test_two_chargebacks_at_once_come_one_after_the_other():
    """The second waits until the first is decided."""
    journey, book = with_book(paid())
    book.charge_back("cb_1", amount=10_000)
    book.charge_back("cb_2", amount=5_000)
    look(journey, book)
    assert journey.booking.chargeback_ref == "cb_1"
    book.charge_back("cb_1", status=WON)
    look(journey, book)
    assert journey.booking.chargeback_ref == "cb_2"
    assert look(journey, book) == []
    assert journey.faults == []


def test_a_snapshot_that_lacks_the_chargeback_is_older():
    """It was taken before the second chargeback came: the first is not opened again."""
    journey, book = with_book(paid())
    book.charge_back("cb_1", status=WON)
    older = book.snapshot
    book.charge_back("cb_2")
    look(journey, book)
    assert journey.see(older, journey.ends_at + DAY) == []


def test_a_chargeback_of_a_cancelled_booking_is_only_booked():
    """Verdict and all: the status stays, the ledger knows."""
    journey, book = with_book(cancelled())
    book.charge_back(status=LOST)
    look(journey, book)
    assert journey.booking.status == Status.CANCELLED
    assert journey.balance(Account.CHARGEBACK_LOSSES) == TOTAL
    assert journey.faults == []


# All together ---------------------------------------------------------------------------


def everything():
    """Paid twice, completed, paid out, charged back, reversed: of each kind a fact."""
    journey, book = reversing()
    book.pay("pay_2")
    look(journey, book, 3 * DAY)
    book.execute_all()
    return journey, book


def test_a_snapshot_seen_twice_has_nothing_new():
    """Applying the same facts again gives no step."""
    journey, book = everything()
    assert look(journey, book, 3 * DAY) != []
    assert look(journey, book, 3 * DAY) == []
    assert journey.faults == []


def test_facts_may_come_in_any_order():
    """Snapshots that each show one kind of fact, backwards, end in the same money."""
    journey, book = everything()
    whole = book.snapshot
    for part in ("chargebacks", "reversals", "payouts", "refunds", "payments", "checkouts"):
        journey.see(Snapshot(whole.intent_id, **{part: getattr(whole, part)}), NOW + 9 * DAY)
        assert journey.faults == []
    assert journey.see(whole, NOW + 9 * DAY) == []
    assert journey.balance(Account.PROCESSOR_BALANCE) == book.cash


def test_what_others_did_by_hand_is_left_alone():
    """A refund or payout without an operation of ours is no step."""
    journey = paid()
    by_hand = Snapshot(
        1,
        refunds=(RefundState("re_9", RefundStatus.SETTLED, 100, None),),
        payouts=(PayoutState("tr_9", 100, 0, 999),),
    )
    assert journey.see(by_hand, NOW) == []


def test_a_finished_operation_keeps_its_reference():
    """What the processor made of it is known by name."""
    journey, book, number = refunding()
    look(journey, book)
    operation = journey.operations[number]
    assert (operation.result_ref, operation.settlement) == (f"re_{number}", Settlement.SETTLED)
