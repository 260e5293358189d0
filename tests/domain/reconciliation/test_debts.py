"""Debts of staff members are withheld from other payouts, exact to the minor unit."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    PayOut,
    RefusalCode,
    ReversePayout,
)
from staffbooking_core.domain.reconciliation.debts import net_debts
from tests.support.booking_journey import (
    apply_snapshot,
    completed_journey,
    debt_of,
    journey_with_debt,
    last_operation,
    paid_out_journey,
    refuse_operation,
    settle_debts,
    with_processor_book,
)

T, P, A = Trigger, Party, Account
WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST
PAYOUT = 34_000


def payer(amount=PAYOUT, **given):
    """A completed booking with a payout of this amount."""
    return completed_journey(**{"id": 2, **earning(amount), **given})


def debtor(amount=PAYOUT, **given):
    """A booking with this debt, whose reversal was refused once and waits."""
    return journey_with_debt(**{**earning(amount), **given})[0]


def earning(amount):
    return {"price": amount, "payout_amount": amount, "platform_fee": 0, "fee_ppm": 0}


def assert_sound(*journeys):
    """Check that the invariants hold and that netting is zero over all bookings."""
    assert [journey.faults for journey in journeys] == [[] for _ in journeys]
    assert sum(journey.booking.netted for journey in journeys) == 0
    assert sum(journey.balance(A.STAFF_NETTING) for journey in journeys) == 0


# Amounts --------------------------------------------------------------------------------


def test_a_debt_is_kept_whole_where_the_payout_is_larger():
    """A debt below the payout is withheld in full; the staff member gets the rest."""
    to_pay, owes = payer(40_000), debtor(10_000)
    settle_debts(to_pay, owes)
    assert (to_pay.booking.netted, to_pay.booking.payout_left) == (10_000, 30_000)
    assert (owes.booking.netted, owes.booking.owed_by_staff) == (-10_000, 0)
    assert owes.balance(A.STAFF_RECEIVABLE) == 0
    assert_sound(to_pay, owes)


def test_a_larger_debt_is_kept_in_part():
    """A debt above the payout takes all of it, and the rest is still owed."""
    to_pay, owes = payer(10_000), debtor(40_000)
    settle_debts(to_pay, owes)
    assert to_pay.booking.payout_left == 0
    assert (owes.booking.netted, owes.booking.owed_by_staff) == (-10_000, 30_000)
    assert_sound(to_pay, owes)


def test_several_debts_are_kept_in_their_order():
    """Debts are withheld one after the other, as far as the payout suffices."""
    to_pay = payer(25_000)
    owes = [debtor(10_000, id=number) for number in (3, 4, 5)]
    steps = settle_debts(to_pay, *owes)
    assert [one.booking.owed_by_staff for one in owes] == [0, 0, 5_000]
    assert len(steps) == 6
    assert settle_debts(to_pay, *owes) == []
    assert_sound(to_pay, *owes)


def test_what_was_kept_is_not_sent():
    """The payout order is for the rest."""
    to_pay, owes = payer(40_000), debtor(10_000)
    settle_debts(to_pay, owes)
    step = to_pay.apply(T.SEND_PAYOUT, P.SYSTEM, to_pay.ends_at + DAY)
    (order,) = step.orders
    assert order.command == PayOut("pay_1", 2, 30_000, "usd")


def test_a_payout_that_was_kept_whole_is_paid():
    """A fully withheld payout is `paid` without an order."""
    to_pay, owes = payer(10_000), debtor(40_000)
    settle_debts(to_pay, owes)
    step = to_pay.apply(T.SEND_PAYOUT, P.SYSTEM, to_pay.ends_at + DAY)
    assert (step.orders, step.booking.payout_status) == ((), PayoutStatus.PAID)
    assert_sound(to_pay, owes)


def test_nobody_pays_who_has_nothing_left():
    """Nothing is withheld from a payout that was made."""
    paid, _ = paid_out_journey(id=2)
    assert net_debts(paid.booking, [debt_of(debtor())], NOW) == []


# Conditions -----------------------------------------------------------------------------


def charged_back(verdict=LOST, **given):
    """A paid-out, charged-back booking whose reversal is ordered and not tried."""
    journey, book = paid_out_journey(**given)
    book.charge_back()
    apply_snapshot(journey, book, 2 * DAY)
    if verdict is not ChargebackStatus.OPEN:
        book.charge_back(status=verdict)
        apply_snapshot(journey, book, 3 * DAY)
    return journey


def test_a_debt_is_not_kept_before_its_reversal_was_tried():
    """A debt is not withheld while its first reversal is pending."""
    assert settle_debts(payer(), charged_back()) == []


def test_a_debt_is_not_kept_before_it_is_final():
    """A debt is not withheld while the chargeback is undecided."""
    owes = charged_back(ChargebackStatus.OPEN)
    refuse_operation(owes, last_operation(owes))
    assert owes.booking.owed_by_staff == PAYOUT
    assert settle_debts(payer(), owes) == []


def test_a_debt_is_not_kept_while_its_reversal_is_on_its_way():
    """A debt is not withheld while the outcome of its reversal is unknown."""
    owes = debtor()
    sent = evolve(last_operation(owes), status=OperationStatus.UNKNOWN)
    owes.operations[sent.id] = sent
    assert settle_debts(payer(), owes) == []


@pytest.mark.parametrize("reason", [RefusalCode.INSUFFICIENT_FUNDS, RefusalCode.INVALID])
def test_a_debt_is_kept_once_its_reversal_was_refused(reason):
    """A debt is withheld after a refused reversal, whether that is retried or not."""
    to_pay, owes = payer(), charged_back()
    refuse_operation(owes, last_operation(owes), reason)
    settle_debts(to_pay, owes)
    assert owes.booking.owed_by_staff == 0
    assert_sound(to_pay, owes)


def test_a_settled_debt_is_not_kept_again():
    """A settled debt is not withheld."""
    to_pay, owes = payer(10_000), debtor(10_000)
    settle_debts(to_pay, owes)
    assert settle_debts(payer(id=9), owes) == []


# Waiting reversals ----------------------------------------------------------------------


def test_the_reversal_that_waits_is_ordered_anew_for_the_rest():
    """A waiting reversal is replaced by one for the remaining debt."""
    to_pay, owes = payer(10_000), debtor(40_000)
    payout_n = owes.booking.payout_n
    waiting = last_operation(owes).command
    settle_debts(to_pay, owes)
    assert waiting == ReversePayout(payout_n, 40_000, "usd")
    assert last_operation(owes).command == ReversePayout(payout_n, 30_000, "usd")


def test_a_debt_kept_whole_orders_no_reversal():
    """A fully withheld debt orders no reversal."""
    to_pay, owes = payer(), debtor()
    before = len(owes.operations)
    settle_debts(to_pay, owes)
    assert len(owes.operations) == before


def test_a_reversal_that_was_refused_for_good_is_not_ordered_anew():
    """A finally refused reversal is not ordered again; later payouts settle the rest."""
    to_pay, owes = payer(10_000), charged_back()
    refuse_operation(owes, last_operation(owes), RefusalCode.INVALID)
    before = len(owes.operations)
    settle_debts(to_pay, owes)
    assert len(owes.operations) == before
    assert owes.booking.owed_by_staff == PAYOUT - 10_000


def test_a_reversal_that_went_out_after_all_is_owed_again():
    """A reversal that succeeds after the debt was withheld is owed to the staff member again."""
    journey, book = journey_with_debt()
    waiting, to_pay = last_operation(journey), payer()
    settle_debts(to_pay, journey)
    book.execute(waiting)
    apply_snapshot(journey, book, 4 * DAY)
    assert journey.booking.payout_status is PayoutStatus.SCHEDULED
    assert journey.booking.payout_left == PAYOUT
    assert_sound(to_pay, journey)


# Later changes --------------------------------------------------------------------------


def kept_from(amount, sent):
    """A paid booking from whose payout a part was withheld."""
    to_pay, owes = payer(amount + sent), debtor(amount)
    settle_debts(to_pay, owes)
    to_pay.apply(T.SEND_PAYOUT, P.SYSTEM, to_pay.ends_at + DAY)
    _, book = with_processor_book(to_pay)
    book.execute_all()
    apply_snapshot(to_pay, book)
    return to_pay, owes, book


def test_a_claim_beyond_what_was_sent_is_owed_whole_and_reversed_in_part():
    """A claim includes the withheld part, which only later payouts can settle."""
    to_pay, owes, book = kept_from(10_000, 24_000)
    sent_n = to_pay.booking.payout_n
    book.charge_back()
    apply_snapshot(to_pay, book, 2 * DAY)
    assert last_operation(to_pay).command == ReversePayout(sent_n, 24_000, "usd")
    assert to_pay.booking.owed_by_staff == 34_000
    book.execute_all()
    apply_snapshot(to_pay, book, 3 * DAY)
    assert (to_pay.booking.paid_out, to_pay.booking.owed_by_staff) == (0, 10_000)
    assert_sound(to_pay, owes)


def test_a_claim_on_a_payout_that_was_kept_whole_orders_no_reversal():
    """A claim on a fully withheld payout orders no reversal."""
    to_pay, owes = payer(10_000), debtor(10_000)
    settle_debts(to_pay, owes)
    to_pay.apply(T.SEND_PAYOUT, P.SYSTEM, to_pay.ends_at + DAY)
    charged = to_pay.chargeback()
    step = to_pay.apply(T.CHARGEBACK, P.PROCESSOR, to_pay.ends_at + 2 * DAY, chargeback=charged)
    assert (step.orders, step.booking.owed_by_staff) == ((), 10_000)
    assert_sound(to_pay, owes)


@pytest.mark.parametrize("amount, owed", [(29_000, 5_000), (5_000, 0)])
def test_a_part_that_stays_earned_is_set_against_what_can_not_be_reversed(amount, owed):
    """No reversal is ordered for an amount that was reversed already."""
    to_pay, owes, book = kept_from(10_000, 24_000)
    book.charge_back(amount=amount)
    apply_snapshot(to_pay, book, 2 * DAY)
    book.execute_all()
    apply_snapshot(to_pay, book, 3 * DAY)
    book.charge_back(status=LOST)
    before = len(to_pay.operations)
    apply_snapshot(to_pay, book, 4 * DAY)
    assert to_pay.booking.owed_by_staff == owed
    assert len(to_pay.operations) == before
    assert_sound(to_pay, owes)


def test_a_debt_of_who_has_paid_for_another_can_be_kept_in_turn():
    """The rest of such a claim is withheld from a third booking."""
    to_pay, owes, book = kept_from(10_000, 24_000)
    book.charge_back(status=LOST)
    apply_snapshot(to_pay, book, 2 * DAY)
    book.execute_all()
    apply_snapshot(to_pay, book, 3 * DAY)
    third = payer(50_000, id=3)
    settle_debts(third, to_pay)
    assert (to_pay.booking.owed_by_staff, to_pay.booking.netted) == (0, 0)
    assert (third.booking.netted, third.booking.payout_left) == (10_000, 40_000)
    assert_sound(to_pay, owes, third)


# Properties -----------------------------------------------------------------------------

AMOUNTS = st.integers(1, 10**9)


@given(AMOUNTS, st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4))
def test_netting_conserves_money(amount, owed):
    """Withheld and repaid amounts are equal, in the order of debts, without debts whose reversal is
    open."""
    to_pay, owes = payer(amount, id=99), []
    for number, (debt, was_refused) in enumerate(owed, 1):
        make = debtor if was_refused else charged_back
        owes.append(make(id=number, **earning(debt)))
    settle_debts(to_pay, *owes)
    left = amount
    for journey, (debt, was_refused) in zip(owes, owed, strict=True):
        kept = min(left, debt) if was_refused else 0
        left -= kept
        assert journey.booking.owed_by_staff == debt - kept
        assert journey.balance(A.STAFF_RECEIVABLE) == debt - kept
    assert to_pay.booking.payout_left == left
    assert_sound(to_pay, *owes)
