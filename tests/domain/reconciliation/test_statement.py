"""The processor's statement compared with the ledger: each difference is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.payments.ledger import (
    MovementKind,
    chargeback_key,
    manual_movement_key,
    processor_fee_key,
)
from staffbooking_core.domain.payments.processor import ChargebackStatus, ProcessorFee, RefundStatus
from staffbooking_core.domain.reconciliation.statement import (
    CashPostings,
    Movement,
    find_differences,
    ledger_totals,
    processor_totals,
)
from tests.support.booking_journey import (
    BookingJourney,
    ProcessorBook,
    apply_snapshot,
    last_operation,
    paid_journey,
    paid_out_journey,
    with_processor_book,
)

K = MovementKind
REFS = {7: "re_1", 8: "tr_1", 9: "rv_1"}
KEYS = {
    (K.PAYMENT, "pay_1"): "pay:pay_1",
    (K.REFUND, "re_1"): "refund:7:ok",
    (K.PAYOUT, "tr_1"): "payout:8",
    (K.REVERSAL, "rv_1"): "reversal:9",
    (K.CHARGEBACK, "cb_1"): chargeback_key("cb_1", "out"),
    (K.FEE, "fee_1"): processor_fee_key("fee_1"),
    (K.REFUND, "re_9"): manual_movement_key(K.REFUND, "re_9"),
    (K.PAYOUT, "tr_9"): manual_movement_key(K.PAYOUT, "tr_9"),
    (K.REVERSAL, "rv_9"): manual_movement_key(K.REVERSAL, "rv_9"),
}
"""The kind and reference of each movement at the processor, and the key of its posting."""


def moved(kind, ref, amount=5):
    return Movement(1, kind, ref, amount, at=NOW)


def cash_postings(*postings, refs=REFS):
    return CashPostings(1, "BK1", postings, refs, has_in_flight=False)


def compare(postings, movements):
    return list(find_differences(cash_postings(*postings), movements))


# Comparison -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEYS)
def test_what_both_have_is_no_difference(name):
    """Equal movements of any kind are not a difference."""
    assert compare([(KEYS[name], 5)], [moved(*name)]) == []


@pytest.mark.parametrize("name", KEYS)
def test_what_the_ledger_lacks_is_named(name):
    """A movement missing in the ledger is reported with kind, reference and amount."""
    kind, ref = name
    (text,) = compare([], [moved(*name)])
    assert text == f"the processor has {kind} {ref} of 5, the ledger does not"


@pytest.mark.parametrize("name", KEYS)
def test_what_the_processor_lacks_is_named(name):
    """A movement missing at the processor is reported with kind, reference and amount."""
    kind, ref = name
    (text,) = compare([(KEYS[name], 5)], [])
    assert text == f"the ledger has {kind} {ref} of 5, the processor does not"


@pytest.mark.parametrize("name", KEYS)
def test_another_amount_is_named(name):
    """Different amounts are both reported."""
    kind, ref = name
    (text,) = compare([(KEYS[name], 5)], [moved(kind, ref, 6)])
    assert text == f"{kind} {ref} is 6 at the processor, 5 in the ledger"


def test_every_difference_is_named():
    """Differences are sorted by kind and reference, whatever the order of the lines is."""
    lines = [moved(K.REFUND, "re_8"), moved(K.PAYMENT, "pay_2"), moved(K.PAYMENT, "pay_1", 6)]
    texts = compare([("pay:pay_1", 5)], lines)
    assert [text.split(" of ")[0] for text in texts] == [
        "payment pay_1 is 6 at the processor, 5 in the ledger",
        "the processor has payment pay_2",
        "the processor has refund re_8",
    ]


def test_the_lines_of_one_movement_add_up():
    """Several lines of one movement are summed."""
    parts = [moved(K.CHARGEBACK, "cb_1", -3), moved(K.CHARGEBACK, "cb_1", -2)]
    assert compare([(chargeback_key("cb_1", "out"), -5)], parts) == []


# Refunds that failed --------------------------------------------------------------------


def test_a_refund_that_failed_has_moved_nothing():
    """A settled and returned refund on both sides is not a difference."""
    postings = [("refund:7:ok", -5), ("refund:7:failed", 5)]
    lines = [moved(K.REFUND, "re_1", -5), moved(K.REFUND_FAILED, "re_1")]
    assert compare(postings, lines) == []


def test_a_refund_that_came_and_went_between_two_looks_is_no_difference():
    """A returned refund that the ledger never saw settled is not a difference."""
    lines = [moved(K.REFUND, "re_1", -5), moved(K.REFUND_FAILED, "re_1")]
    assert compare([], lines) == []


@pytest.mark.parametrize("key", ["refund:7:failed", manual_movement_key(K.REFUND_FAILED, "re_1")])
def test_a_failure_that_only_one_side_knows_is_named(key):
    """A refund returned in the ledger only is a difference."""
    (text,) = compare([("refund:7:ok", -5), (key, 5)], [moved(K.REFUND, "re_1", -5)])
    assert text == "refund re_1 is -5 at the processor, 0 in the ledger"


# Chargebacks that were won --------------------------------------------------------------


def test_a_chargeback_that_was_won_has_moved_nothing():
    """A withdrawn and reinstated chargeback is not a difference, however often it moved."""
    lines = [
        moved(kind, "cb_1", amount) for kind, amount in ((K.CHARGEBACK, -5), (K.REINSTATEMENT, 5))
    ]
    assert compare([], lines) == []
    assert compare([(chargeback_key("cb_1", "out"), -5)], [*lines, lines[0]]) == []


def test_a_reinstatement_that_only_one_side_knows_is_named():
    """A chargeback reinstated in the ledger only is a difference."""
    postings = [(chargeback_key("cb_1", "out"), -5), (chargeback_key("cb_1", "in"), 5)]
    (text,) = compare(postings, [moved(K.CHARGEBACK, "cb_1", -5)])
    assert text == "chargeback cb_1 is -5 at the processor, 0 in the ledger"


# Reported names -------------------------------------------------------------------------


def test_an_operation_without_a_reference_is_named_by_its_number():
    """A posting whose operation has no reference is reported by the operation's id."""
    (text,) = compare([("payout:12", -5)], [])
    assert text == "the ledger has payout operation 12 of -5, the processor does not"


def test_a_key_that_nobody_knows_is_named_as_it_is():
    """A posting with an unknown key is reported by its key."""
    (text,) = compare([("slip:1", 5)], [])
    assert text == "the ledger has other slip:1 of 5, the processor does not"


def test_references_may_have_colons():
    """References of the processor may contain colons."""
    names = [(K.CHARGEBACK, "a:b"), (K.PAYMENT, "a:b"), (K.FEE, "a:b"), (K.REFUND, "a:b")]
    keys = ["cb:a:b:out", "pay:a:b", "fee:a:b", "manual:refund:a:b"]
    assert ledger_totals(cash_postings(*((key, 5) for key in keys))) == dict.fromkeys(names, 5)


def test_statement_lines_are_named_by_kind_and_reference():
    """Movements of different kinds may have the same reference."""
    lines = [moved(K.CHARGEBACK, "cb_1", -5), moved(K.REINSTATEMENT, "cb_1", 4)]
    assert processor_totals(lines) == {(K.CHARGEBACK, "cb_1"): -5, (K.REINSTATEMENT, "cb_1"): 4}


# Postings of the domain -----------------------------------------------------------------


def refunded(journey, book):
    journey.apply(Trigger.CANCEL, Party.STAFF)
    book.execute_all()


def refund_returned(journey, book):
    refunded(journey, book)
    apply_snapshot(journey, book)
    book.settle(last_operation(journey).id, RefundStatus.FAILED)


def by_hands(_, book):
    book.settle(book.refund_by_hand(), RefundStatus.SETTLED)
    book.pay_out_by_hand()
    book.reverse_by_hand(50)


def charged_back(verdict):
    return lambda _, book: book.charge_back(status=verdict)


def with_a_fee(_, book):
    book.fees += [ProcessorFee("fee_1", 30), ProcessorFee("fee_2", -7)]


def quarantined(_, book):
    book.pay("pay_2", amount=1)


def paid_twice(_, book):
    book.pay("pay_2")


WAYS: list[Callable[[BookingJourney, ProcessorBook], object]] = [
    refunded,
    refund_returned,
    by_hands,
    with_a_fee,
    quarantined,
    paid_twice,
    *map(charged_back, (ChargebackStatus.OPEN, ChargebackStatus.LOST)),
]


@pytest.mark.parametrize("go", WAYS)
def test_what_was_seen_is_no_difference_and_what_was_not_is_one(go):
    """The sides differ until the reconciliation of a snapshot, and agree after it."""
    journey, book = with_processor_book(paid_journey())
    go(journey, book)
    assert list(find_differences(journey.cash_postings, book.statement)) != []
    apply_snapshot(journey, book)
    assert list(find_differences(journey.cash_postings, book.statement)) == []


def test_a_payout_and_its_reversal_are_no_difference():
    """A payout and its reversal after a chargeback agree on both sides."""
    journey, book = paid_out_journey()
    assert list(find_differences(journey.cash_postings, book.statement)) == []
    book.charge_back()
    apply_snapshot(journey, book, 2 * DAY)
    book.execute_all()
    (text,) = find_differences(journey.cash_postings, book.statement)
    assert text.startswith("the processor has reversal rv_")
    apply_snapshot(journey, book, 3 * DAY)
    assert list(find_differences(journey.cash_postings, book.statement)) == []
