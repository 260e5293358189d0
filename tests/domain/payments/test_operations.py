"""Operations: keys, backoff, failures, and when to look up an outcome."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    SECOND,
    make_operation,
    make_payout_order,
    make_refund_order,
)
from staffbooking_core.domain.payments.operations import (
    RETRY_BACKOFF_DELAYS,
    OperationOrder,
    OperationStatus,
    apply_operation_failure,
    backoff_delay,
    must_look_up_outcome,
)
from staffbooking_core.domain.payments.processor import (
    OPERATION_KIND_BY_COMMAND,
    Checkout,
    CheckoutStatus,
    CloseCheckout,
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    PayoutState,
    ProcessorBusy,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefundState,
    RefundStatus,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.state import find_result_ref

RETRYABLE = {RefusalCode.PAYEE_NOT_READY, RefusalCode.INSUFFICIENT_FUNDS}


def sent(**given):
    """An operation that was just sent for the first time."""
    fields = {
        "status": OperationStatus.UNKNOWN,
        "attempts": 1,
        "first_sent_at": NOW,
        "last_sent_at": NOW,
    }
    return make_operation(**{**fields, **given})


def test_every_command_has_a_kind():
    """An order derives its kind from its command; payees have no operation."""
    assert set(OPERATION_KIND_BY_COMMAND.values()) == set(OperationKind) - {
        OperationKind.OPEN_PAYEE
    }
    assert make_refund_order().kind is OperationKind.REFUND


def test_a_key_differs_by_operation_and_generation():
    """The key of an operation changes with its generation only."""
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
    """The waits are 1 s, 5 s, 30 s, 2 min, 10 min, 30 min, then 1 h."""
    waits = [backoff_delay(attempts).total_seconds() for attempts in range(1, 10)]
    assert waits == [1, 5, 30, 120, 600, 1800, 3600, 3600, 3600]
    assert len(RETRY_BACKOFF_DELAYS) == 7


@pytest.mark.parametrize("code", list(RefusalCode))
def test_a_refusal_is_final_unless_its_cause_may_go(code):
    """Retryable refusals are retried under a new key; others wait for an operator."""
    after = apply_operation_failure(sent(), ProcessorRefused(code), NOW)
    if code in RETRYABLE:
        assert (after.status, after.generation) == (OperationStatus.PENDING, 2)
    else:
        assert (after.status, after.generation) == (OperationStatus.REFUSED, 1)
    assert after.last_error == code.value


def test_a_new_key_is_young_again():
    """The age of a new key is counted from its own first sending."""
    after = apply_operation_failure(sent(), ProcessorRefused(RefusalCode.PAYEE_NOT_READY), NOW)
    assert after.first_sent_at is None
    assert not must_look_up_outcome(evolve(after, status=OperationStatus.UNKNOWN), NOW + 99 * HOUR)


def test_a_key_that_stays_keeps_its_age():
    """A failure with the same key keeps the time of the first sending."""
    assert (
        apply_operation_failure(sent(), OutcomeUnknown("timeout"), NOW + HOUR).first_sent_at == NOW
    )


@pytest.mark.parametrize(
    "error", [OutcomeUnknown("timeout"), ProcessorBusy(), ProcessorMisconfigured("401")]
)
def test_what_may_have_happened_stays_unknown(error):
    """After an unknown outcome the same key is sent again later, otherwise unchanged."""
    after = apply_operation_failure(sent(attempts=2), error, NOW)
    assert (after.status, after.generation) == (OperationStatus.UNKNOWN, 1)
    assert after.next_at == NOW + 5 * SECOND


def test_a_busy_processor_says_when():
    """The processor's own retry delay is used."""
    assert apply_operation_failure(sent(), ProcessorBusy(7.5), NOW).next_at == NOW + timedelta(
        seconds=7.5
    )


def test_a_key_names_kind_operation_and_generation():
    """The key's text is the same in every deployment; the adapter adds the deployment's name."""
    operation = make_operation(make_refund_order(), id=12, generation=3)
    assert operation.key.text == "refund_12_g3"


def test_a_reused_key_is_a_bug():
    """The operation becomes dead and is never sent again."""
    assert (
        apply_operation_failure(sent(), OperationKeyReused("other amount"), NOW).status
        is OperationStatus.DEAD
    )


def test_an_error_without_words_is_named_by_its_class():
    """An error without a message is stored as the name of its class."""
    assert apply_operation_failure(sent(), OutcomeUnknown(), NOW).last_error == "OutcomeUnknown"


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
    """An outcome is looked up after three attempts, or when the key is 20 hours old."""
    assert must_look_up_outcome(sent(attempts=attempts), NOW + age) is look


def test_what_never_was_sent_needs_no_look():
    """An operation that was never sent is not looked up, whatever its age."""
    assert not must_look_up_outcome(make_operation(), NOW + 99 * HOUR)


def test_what_was_refused_needs_no_look():
    """A refused operation is not looked up, whatever its attempts."""
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
    """A result is found in the snapshot by kind and operation id."""
    assert find_result_ref(make_operation(order), EVERYTHING) == ref
    assert find_result_ref(make_operation(order, id=2), EVERYTHING) is None


def test_a_refusal_may_be_given_by_its_value():
    """A refusal by a code's value has the code; an unknown one is refused by its name."""
    assert ProcessorRefused("missing").reason is RefusalCode.MISSING
    with pytest.raises(ValueError, match="'absent'"):
        ProcessorRefused("absent")
