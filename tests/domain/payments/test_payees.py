"""Payees: opening, polling until ready, and reopening after a refusal."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW, SECOND, make_payee
from staffbooking_core.domain.payments.operations import OPERATION_KEY_LIFETIME
from staffbooking_core.domain.payments.payees import (
    PAYEE_POLL_MAX_INTERVAL,
    PAYEE_POLL_MIN_INTERVAL,
    PayeeState,
    PayeeStatus,
    apply_payee_failure,
    apply_payee_state,
    reopen_payee,
    start_opening_attempt,
)
from staffbooking_core.domain.payments.processor import (
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    ProcessorBusy,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefusalCode,
)

READY = PayeeState("acct_1", ready=True)
INCOMPLETE = PayeeState("acct_1", ready=False, needs=("iban", "identity"))
FINAL = [ProcessorRefused(RefusalCode.INVALID), OperationKeyReused("other name")]


def opened(state=INCOMPLETE):
    return apply_payee_state(start_opening_attempt(make_payee(), NOW), state, NOW)


def wait_of(payee):
    """The time from NOW until the payee is due."""
    assert payee.next_at is not None
    return payee.next_at - NOW


def refused():
    return apply_payee_failure(start_opening_attempt(make_payee(), NOW), FINAL[0], NOW)


# Status ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payee, status",
    [
        (make_payee(), PayeeStatus.OPENING),
        (start_opening_attempt(make_payee(), NOW), PayeeStatus.OPENING),
        (refused(), PayeeStatus.REFUSED),
        (opened(), PayeeStatus.INCOMPLETE),
        (opened(READY), PayeeStatus.READY),
    ],
)
def test_a_payee_stands_as_far_as_it_has_come(payee, status):
    """The status of a payee goes from opening to ready."""
    assert payee.status is status


def test_its_key_is_of_the_companion_and_of_no_intent():
    """The key is of the companion, so that a second opening is the same call."""
    key = make_payee(generation=3).key
    assert (key.intent_id, key.op_id, key.kind) == (0, 2, OperationKind.OPEN_PAYEE)
    assert key.text == "open_payee_2_g3"


# Sending --------------------------------------------------------------------------------


def test_an_opening_is_sent_under_its_key_until_that_is_old():
    """Attempts are counted, and the key's age is that of the first one."""
    payee = start_opening_attempt(
        start_opening_attempt(make_payee(), NOW), NOW + OPERATION_KEY_LIFETIME - SECOND
    )
    assert (payee.generation, payee.attempts, payee.first_sent_at) == (1, 2, NOW)


def test_an_old_key_is_followed_by_the_next():
    """An expired key is replaced, since the processor may have forgotten it."""
    later = NOW + OPERATION_KEY_LIFETIME
    payee = start_opening_attempt(start_opening_attempt(make_payee(), NOW), later)
    assert (payee.generation, payee.attempts, payee.first_sent_at) == (2, 2, later)


def test_a_key_that_leads_nowhere_is_followed_by_the_next():
    """A key is replaced after three attempts, since a stored 5xx may be replayed."""
    payee, generations = make_payee(), []
    for _ in range(7):
        payee = start_opening_attempt(payee, NOW)
        generations.append(payee.generation)
    assert generations == [1, 1, 1, 2, 2, 2, 3]


# Polls ----------------------------------------------------------------------------------


def test_what_the_processor_tells_is_kept():
    """Reference, readiness and missing information are stored."""
    payee = opened()
    assert (payee.ref, payee.ready, payee.needs) == ("acct_1", False, ("iban", "identity"))
    assert payee.last_error is None


def test_a_ready_payee_is_not_looked_at_any_more():
    """A ready payee is not polled; events report a change."""
    assert opened(READY).next_at is None


def test_an_incomplete_one_is_looked_at_ever_less_often():
    """Polls follow after ten minutes, then at doubled intervals up to a day."""
    payee, waits = opened(), []
    for _ in range(12):
        waits.append(wait_of(payee))
        payee = apply_payee_state(payee, INCOMPLETE, NOW)
    assert waits[:4] == [10 * MINUTE, 20 * MINUTE, 40 * MINUTE, 80 * MINUTE]
    assert (waits[0], waits[-1]) == (PAYEE_POLL_MIN_INTERVAL, PAYEE_POLL_MAX_INTERVAL)
    assert waits == sorted(waits)


def test_tries_to_open_do_not_lengthen_the_first_look():
    """The first poll does not depend on the number of opening attempts."""
    payee = make_payee()
    for _ in range(5):
        payee = start_opening_attempt(payee, NOW)
    assert apply_payee_state(payee, INCOMPLETE, NOW).next_at == NOW + PAYEE_POLL_MIN_INTERVAL


def test_a_payee_may_become_unready_again():
    """A payee that becomes incomplete is polled again."""
    payee = apply_payee_state(opened(READY), INCOMPLETE, NOW + DAY)
    assert (payee.ready, payee.status) == (False, PayeeStatus.INCOMPLETE)
    assert payee.next_at is not None


# Failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", FINAL)
def test_a_refused_opening_waits_for_its_owner(error):
    """A refused opening is not retried automatically."""
    payee = apply_payee_failure(start_opening_attempt(make_payee(), NOW), error, NOW)
    assert (payee.status, payee.next_at) == (PayeeStatus.REFUSED, None)
    assert payee.last_error == str(error)


@pytest.mark.parametrize("error", FINAL)
def test_a_refused_look_is_tried_again(error):
    """A refused poll is retried, because the account exists."""
    payee = apply_payee_failure(opened(), error, NOW)
    assert payee.status is PayeeStatus.INCOMPLETE
    assert wait_of(payee) > timedelta()


def test_a_lost_answer_is_asked_for_again_ever_later():
    """An opening without an answer is retried after 1, 5, 30 seconds, as operations are."""
    payee, waits = make_payee(), []
    for _ in range(3):
        payee = apply_payee_failure(
            start_opening_attempt(payee, NOW), OutcomeUnknown("timeout"), NOW
        )
        waits.append(wait_of(payee))
    assert waits == [SECOND, 5 * SECOND, 30 * SECOND]


def test_a_look_that_fails_is_repeated_ever_later():
    """Failed polls are repeated after 10, 20, 40 minutes."""
    payee, waits = make_payee(ref="acct_1"), []
    for _ in range(3):
        payee = apply_payee_failure(payee, OutcomeUnknown(), NOW)
        waits.append(wait_of(payee))
    assert waits == [
        PAYEE_POLL_MIN_INTERVAL,
        2 * PAYEE_POLL_MIN_INTERVAL,
        4 * PAYEE_POLL_MIN_INTERVAL,
    ]
    assert payee.last_error == "OutcomeUnknown"


def test_a_wrong_setting_is_no_refusal():
    """An opening that failed by a wrong setting is retried with the same command."""
    payee = apply_payee_failure(
        start_opening_attempt(make_payee(), NOW), ProcessorMisconfigured("401"), NOW
    )
    assert (payee.status, payee.next_at) == (PayeeStatus.OPENING, NOW + SECOND)


def test_a_busy_processor_says_when_it_can_be_asked():
    """The processor's own retry delay is used."""
    payee = apply_payee_failure(start_opening_attempt(make_payee(), NOW), ProcessorBusy(7.5), NOW)
    assert payee.next_at == NOW + timedelta(seconds=7.5)


def test_what_was_seen_forgets_what_failed():
    """A successful call clears the last error."""
    payee = apply_payee_failure(opened(), OutcomeUnknown("timeout"), NOW)
    assert apply_payee_state(payee, READY, NOW).last_error is None


# Reopening ------------------------------------------------------------------------------


def test_who_was_refused_may_ask_again():
    """A reopened payee has a new key, is due at once, and has the person's present data."""
    better = evolve(make_payee().command, country="DE")
    payee = reopen_payee(refused(), better, NOW + HOUR)
    assert payee.status is PayeeStatus.OPENING
    assert (payee.generation, payee.attempts, payee.first_sent_at) == (2, 0, None)
    assert (payee.command, payee.next_at) == (better, NOW + HOUR)
    assert payee.last_error is None


def test_a_missing_account_is_replaced():
    """A payee whose account is missing at the processor is opened again, under a new key."""
    payee = reopen_payee(opened(READY), make_payee().command, NOW + HOUR, opened().ref)
    assert (payee.status, payee.ref, payee.generation) == (PayeeStatus.OPENING, None, 2)


def test_an_account_that_was_replaced_meanwhile_stays():
    """A payee with another account than the missing one stays unchanged."""
    command = make_payee().command
    assert reopen_payee(opened(READY), command, NOW + HOUR, "acct_other") == opened(READY)


@pytest.mark.parametrize("payee", [make_payee(), opened(), opened(READY)])
def test_asking_again_changes_nothing_else(payee):
    """A payee that is not refused stays unchanged."""
    assert reopen_payee(payee, evolve(make_payee().command, country="DE"), NOW + HOUR) == payee
