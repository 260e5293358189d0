"""Operations: keys, waits, what a failure means, when to look before sending again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_core.domain.payments.processor import (
    OPERATION_KIND_BY_COMMAND,
    RETRY_BACKOFF_DELAYS,
    Busy,
    Checkout,
    CheckoutStatus,
    CloseCheckout,
    OperationKeyReused,
    OperationKind,
    OperationOrder,
    OperationStatus,
    PayoutState,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefundState,
    RefundStatus,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
    Unknown,
    apply_operation_failure,
    backoff_delay,
    must_look_up_outcome,
)
from staffbooking_core.domain.reconciliation.state import find_result_ref
from tests.support.builders import (
    HOUR,
    NOW,
    SECOND,
    make_operation,
    make_payout_order,
    make_refund_order,
)

RETRYABLE = {RefusalCode.PAYEE_NOT_READY, RefusalCode.INSUFFICIENT_FUNDS}


def sent(**given):
    """An operation that was sent a moment ago for the first time."""
    fields = {
        "status": OperationStatus.UNKNOWN,
        "attempts": 1,
        "first_sent_at": NOW,
        "last_sent_at": NOW,
    }
    return make_operation(**{**fields, **given})


def test_every_command_has_a_kind():
    """An order knows its kind by its command; onboarding has no operation."""
    assert set(OPERATION_KIND_BY_COMMAND.values()) == set(OperationKind) - {
        OperationKind.OPEN_PAYEE
    }
    assert make_refund_order().kind is OperationKind.REFUND


def test_a_key_differs_by_operation_and_generation():
    """The same operation has the same key until it gets another generation."""
    one = make_operation()
    assert one.key == evolve(one, attempts=5, last_error="x").key
    texts = {one.key.text, evolve(one, generation=2).key.text, evolve(one, id=2).key.text}
    assert len(texts) == 3


@pytest.mark.parametrize(
    "status, finished",
    [
        (OperationStatus.PENDING, False),
        (OperationStatus.UNKNOWN, False),
        (OperationStatus.DONE, True),
        (OperationStatus.REFUSED, True),
        (OperationStatus.VOID, True),
        (OperationStatus.DEAD, True),
    ],
)
def test_what_is_still_to_be_seen_through(status, finished):
    """Pending and unknown operations are unfinished."""
    assert make_operation(status=status).is_finished is finished


def test_waits_grow_to_an_hour():
    """1 s, 5 s, 30 s, 2 min, 10 min, 30 min, then every hour."""
    waits = [backoff_delay(attempts).total_seconds() for attempts in range(1, 10)]
    assert waits == [1, 5, 30, 120, 600, 1800, 3600, 3600, 3600]
    assert len(RETRY_BACKOFF_DELAYS) == 7


@pytest.mark.parametrize("code", list(RefusalCode))
def test_a_refusal_is_final_unless_its_cause_may_go(code):
    """Two kinds are tried again under a new key; the others wait for an operator."""
    after = apply_operation_failure(sent(), ProcessorRefused(code), NOW)
    if code in RETRYABLE:
        assert (after.status, after.generation) == (OperationStatus.PENDING, 2)
    else:
        assert (after.status, after.generation) == (OperationStatus.REFUSED, 1)
    assert after.last_error == code.value


def test_a_new_key_is_young_again():
    """So that its age is counted from when it is first sent, not from the refused one's."""
    after = apply_operation_failure(sent(), ProcessorRefused(RefusalCode.PAYEE_NOT_READY), NOW)
    assert after.first_sent_at is None
    assert not must_look_up_outcome(evolve(after, status=OperationStatus.UNKNOWN), NOW + 99 * HOUR)


def test_a_key_that_stays_keeps_its_age():
    """Whatever may have happened under it."""
    assert apply_operation_failure(sent(), Unknown("timeout"), NOW + HOUR).first_sent_at == NOW


@pytest.mark.parametrize("error", [Unknown("timeout"), Busy(), ProcessorMisconfigured("401")])
def test_what_may_have_happened_stays_unknown(error):
    """The same key is sent again later; nothing else about it changes."""
    after = apply_operation_failure(sent(attempts=2), error, NOW)
    assert (after.status, after.generation) == (OperationStatus.UNKNOWN, 1)
    assert after.next_at == NOW + 5 * SECOND


def test_a_busy_processor_says_when():
    """Its own wait counts."""
    assert apply_operation_failure(sent(), Busy(7.5), NOW).next_at == NOW + timedelta(seconds=7.5)


def test_a_key_names_kind_operation_and_generation():
    """Alike in every deployment: a processor's adapter puts the deployment's name before it."""
    operation = make_operation(make_refund_order(), id=12, generation=3)
    assert operation.key.text == "refund_12_g3"


def test_a_reused_key_is_a_bug():
    """The operation is dead, and never sent again."""
    assert (
        apply_operation_failure(sent(), OperationKeyReused("other amount"), NOW).status
        is OperationStatus.DEAD
    )


def test_an_error_without_words_is_named_by_its_class():
    """The last error always says something."""
    assert apply_operation_failure(sent(), Unknown(), NOW).last_error == "Unknown"


@pytest.mark.parametrize(
    "attempts, age, look",
    [
        (1, 0 * HOUR, False),
        (2, 20 * HOUR - SECOND, False),
        (3, 0 * HOUR, True),
        (1, 20 * HOUR, True),
    ],
)
def test_many_tries_or_a_long_time_call_for_a_look(attempts, age, look):
    """From the third try on, or when the key is 20 hours old."""
    assert must_look_up_outcome(sent(attempts=attempts), NOW + age) is look


def test_what_never_was_sent_needs_no_look():
    """However old it is."""
    assert not must_look_up_outcome(make_operation(), NOW + 99 * HOUR)


def test_what_was_refused_needs_no_look():
    """A refusal is definite: nothing moved, however many tries there were."""
    assert not must_look_up_outcome(
        sent(status=OperationStatus.PENDING, attempts=9), NOW + 99 * HOUR
    )


EVERYTHING = Snapshot(
    1,
    checkouts=(Checkout("co", "/", CheckoutStatus.OPEN, NOW, 1),),
    refunds=(
        RefundState("re_hand", RefundStatus.SETTLED, 1, None),
        RefundState("re", RefundStatus.PENDING, 1, 1),
    ),
    payouts=(PayoutState("tr", 1, 0, 1),),
    reversals=(ReversalState("rv", "tr", 1, 1),),
)


@pytest.mark.parametrize(
    "order, ref",
    [
        (None, "co"),
        (make_refund_order(), "re"),
        (make_payout_order(), "tr"),
        (OperationOrder(1, ReversePayout(1, 5, "usd")), "rv"),
        (OperationOrder(1, CloseCheckout(1)), None),
    ],
)
def test_a_result_is_found_by_kind_and_operation(order, ref):
    """What the processor made is known by the number it was sent with."""
    assert find_result_ref(make_operation(order), EVERYTHING) == ref
    assert find_result_ref(make_operation(order, id=2), EVERYTHING) is None
