"""Webhooks: the retry schedule, disabling of endpoints, rotation of secrets."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, NOW, POLICY, SECOND
from staffbooking_adapters.testing.builders_webhooks import make_delivery, make_endpoint
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryStatus,
    EndpointSecrets,
    WebhookEndpoint,
    apply_attempt_to_delivery,
    apply_attempts_to_endpoint,
)

PENDING, SUCCEEDED, FAILED, HELD, CANCELLED, WAITING = DeliveryStatus
MOMENT = SECOND / 1_000_000
UNDER_WAY = [PENDING, HELD, CANCELLED, WAITING]
DONE = [SUCCEEDED, FAILED, CANCELLED]
ENDPOINT = make_endpoint()
DELIVERY = make_delivery()


def failed(ended_at=NOW, took=10 * SECOND, failure=DeliveryFailure.TIMEOUT) -> AttemptOutcome:
    return AttemptOutcome(ended_at - took, ended_at, failure=failure)


def answered(status: int, ended_at=NOW) -> AttemptOutcome:
    return AttemptOutcome(ended_at - SECOND, ended_at, response_status=status)


# Outcomes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status, error",
    [
        (199, DeliveryFailure.HTTP_STATUS),
        (200, None),
        (204, None),
        (299, None),
        (300, DeliveryFailure.REDIRECT),
        (304, DeliveryFailure.REDIRECT),
        (399, DeliveryFailure.REDIRECT),
        (400, DeliveryFailure.HTTP_STATUS),
        (410, DeliveryFailure.HTTP_STATUS),
        (429, DeliveryFailure.HTTP_STATUS),
        (503, DeliveryFailure.HTTP_STATUS),
    ],
)
def test_a_success_is_2xx_alone(status, error):
    """Only a 2xx status is a success (CONTRACT 7)."""
    assert answered(status).error is error


@pytest.mark.parametrize(
    "outcome, logged",
    [
        (answered(200), DeliveryAttempt(3, NOW - SECOND, 1000, 200, None)),
        (answered(301), DeliveryAttempt(3, NOW - SECOND, 1000, 301, "redirect")),
        (failed(), DeliveryAttempt(3, NOW - 10 * SECOND, 10_000, None, "timeout")),
        (failed(took=-SECOND), DeliveryAttempt(3, NOW + SECOND, 0, None, "timeout")),
    ],
    ids=["success", "redirect", "timeout", "a clock that was set back"],
)
def test_an_attempt_is_logged(outcome, logged):
    """The log entry has the duration in milliseconds, which is never negative."""
    assert outcome.to_attempt(3) == logged


# The schedule -----------------------------------------------------------------------------


def test_a_success_ends_a_delivery():
    """A success finishes the delivery."""
    assert apply_attempt_to_delivery(DELIVERY, answered(200), POLICY) == evolve(
        DELIVERY, status=SUCCEEDED, next_at=None, attempts=1, tries=1
    )


def test_there_are_four_tries_1_4_and_16_seconds_apart():
    """Waits start at the end of the failed attempt; after the fourth the delivery has failed."""
    delivery, at, waits = DELIVERY, NOW, []
    for _ in range(3):
        outcome = failed(at + 7 * SECOND, took=7 * SECOND)
        delivery = apply_attempt_to_delivery(delivery, outcome, POLICY)
        assert delivery.status is PENDING
        assert delivery.next_at is not None
        waits.append((delivery.next_at - outcome.ended_at).total_seconds())
        at = delivery.next_at
    assert waits == [1, 4, 16]
    delivery = apply_attempt_to_delivery(delivery, failed(at), POLICY)
    assert delivery == evolve(DELIVERY, status=FAILED, next_at=None, attempts=4, tries=4)


@pytest.mark.parametrize("tries", [0, 1, 2, 3])
def test_any_try_may_succeed(tries):
    """Any attempt may succeed, also the last one."""
    delivery = evolve(DELIVERY, tries=tries, attempts=tries)
    assert apply_attempt_to_delivery(delivery, answered(200), POLICY).status is SUCCEEDED


@pytest.mark.parametrize("status", UNDER_WAY)
def test_what_arrived_has_succeeded(status):
    """A delivery held or cancelled in flight succeeds if its attempt does."""
    delivery = evolve(DELIVERY, status=status, held_at=NOW if status is HELD else None)
    after = apply_attempt_to_delivery(delivery, answered(200), POLICY)
    assert (after.status, after.next_at, after.held_at) == (SUCCEEDED, None, None)


def test_what_was_held_in_flight_stays_held():
    """A delivery held in flight keeps the time of its next attempt."""
    delivery = evolve(DELIVERY, status=HELD, held_at=NOW - SECOND, tries=1, attempts=1)
    assert apply_attempt_to_delivery(delivery, failed(), POLICY) == evolve(
        delivery, next_at=NOW + 4 * SECOND, tries=2, attempts=2
    )


def test_what_was_held_in_its_last_try_has_failed():
    """A delivery held in its last attempt has failed."""
    delivery = evolve(DELIVERY, status=HELD, held_at=NOW, tries=3, attempts=3)
    after = apply_attempt_to_delivery(delivery, failed(), POLICY)
    assert (after.status, after.next_at, after.held_at) == (FAILED, None, None)


@pytest.mark.parametrize("tries", [0, 3])
def test_what_was_cancelled_in_flight_stays_cancelled(tries):
    """The attempt of a cancelled delivery is counted, and no other follows."""
    delivery = evolve(DELIVERY, status=CANCELLED, next_at=None, tries=tries, attempts=tries)
    assert apply_attempt_to_delivery(delivery, failed(), POLICY) == evolve(
        delivery, tries=tries + 1, attempts=tries + 1
    )


@pytest.mark.parametrize("status", DONE)
def test_one_that_is_done_is_sent_again_from_the_first_try(status):
    """A redelivery restarts the schedule, keeps counting attempts, and does not count for the
    endpoint."""
    delivery = evolve(DELIVERY, status=status, next_at=None, tries=4, attempts=4)
    again = delivery.redeliver(NOW + HOUR, is_deliverable=True)
    assert again == evolve(delivery, status=PENDING, next_at=NOW + HOUR, tries=0, counts=False)
    after = apply_attempt_to_delivery(again, failed(), POLICY)
    assert (after.attempts, after.tries, after.next_at) == (5, 1, NOW + SECOND)


def test_one_sent_again_is_held_where_its_endpoint_is_not_served():
    """A redelivery is held while its endpoint is not deliverable."""
    again = evolve(DELIVERY, status=FAILED, next_at=None, tries=4).redeliver(
        NOW, is_deliverable=False
    )
    assert (again.status, again.next_at, again.held_at) == (HELD, NOW, NOW)


@pytest.mark.parametrize("status", [PENDING, HELD])
@pytest.mark.parametrize("served", [True, False])
def test_one_under_way_is_not_started_over(status, served):
    """A redelivery of an unfinished delivery changes nothing."""
    delivery = evolve(DELIVERY, status=status, tries=2)
    assert delivery.redeliver(NOW + HOUR, is_deliverable=served) is delivery


# Disabling --------------------------------------------------------------------------------


def after_attempt(
    endpoint: WebhookEndpoint, delivery: Delivery, outcome: AttemptOutcome
) -> WebhookEndpoint:
    return apply_attempts_to_endpoint(endpoint, [(delivery, outcome)], POLICY)


def test_attempts_change_an_endpoint_in_their_order():
    """A success after the tenth failed delivery leaves the endpoint disabled, and one before it
    starts the count anew; each attempt is counted."""
    fault = (evolve(DELIVERY, status=FAILED), failed())
    success = (evolve(DELIVERY, status=SUCCEEDED), AttemptOutcome(NOW, NOW, response_status=200))
    ninth = apply_attempts_to_endpoint(ENDPOINT, [fault] * 9, POLICY)

    disabled = apply_attempts_to_endpoint(ninth, [fault, success], POLICY)
    enabled = apply_attempts_to_endpoint(ninth, [success, fault], POLICY)

    assert (disabled.active, disabled.consecutive_failures) == (False, 0)
    assert (enabled.active, enabled.consecutive_failures) == (True, 1)
    assert {(one.succeeded, one.failed) for one in (disabled, enabled)} == {(1, 10)}


def exhausted(endpoint: WebhookEndpoint, ended_at=NOW, **given: Any) -> WebhookEndpoint:
    """An endpoint after one more delivery has failed finally."""
    return after_attempt(endpoint, evolve(DELIVERY, status=FAILED, **given), failed(ended_at))


def test_the_tenth_failed_delivery_in_a_row_disables():
    """The tenth consecutive failed delivery disables the endpoint at that time."""
    endpoint = ENDPOINT
    for n in range(1, 10):
        endpoint = exhausted(endpoint)
        assert (endpoint.active, endpoint.consecutive_failures) == (True, n)
    assert exhausted(endpoint, NOW + SECOND) == evolve(
        ENDPOINT,
        active=False,
        consecutive_failures=10,
        disabled_at=NOW + SECOND,
        disabled_reason="10 deliveries in a row failed",
        degraded=True,
        failed=10,
    )


@pytest.mark.parametrize("status", UNDER_WAY)
def test_an_attempt_that_is_tried_again_counts_for_nothing(status):
    """A failed attempt that is retried marks the endpoint as degraded, and does not count."""
    endpoint = evolve(ENDPOINT, consecutive_failures=9)
    after = after_attempt(endpoint, evolve(DELIVERY, status=status), failed())
    assert after == evolve(endpoint, degraded=True, failed=1)


def test_one_sent_again_on_demand_does_not_count():
    """Failed redeliveries do not count, however many."""
    endpoint = evolve(ENDPOINT, consecutive_failures=9)
    assert exhausted(endpoint, counts=False) == evolve(endpoint, degraded=True, failed=1)


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("failures", [0, 9])
def test_any_success_sets_the_count_to_zero(counts, failures):
    """Any success resets the count, also that of a redelivery."""
    endpoint = evolve(ENDPOINT, consecutive_failures=failures, degraded=True, failed=5)
    done = evolve(DELIVERY, status=SUCCEEDED, counts=counts)
    assert after_attempt(endpoint, done, answered(200)) == evolve(ENDPOINT, failed=5, succeeded=1)


@pytest.mark.parametrize(
    "endpoint",
    [
        evolve(ENDPOINT, active=False, consecutive_failures=9),
        evolve(
            ENDPOINT, active=False, consecutive_failures=10, disabled_at=NOW, disabled_reason="why"
        ),
    ],
    ids=["paused", "disabled"],
)
def test_failures_of_an_endpoint_that_is_off_do_not_count(endpoint):
    """Failures in flight change neither status nor time of a disabled endpoint."""
    assert exhausted(endpoint, NOW + HOUR) == evolve(endpoint, degraded=True, failed=1)


def test_a_late_success_does_not_enable():
    """A success in flight does not enable a disabled endpoint."""
    off = evolve(ENDPOINT, active=False, consecutive_failures=10, disabled_at=NOW)
    after = after_attempt(off, evolve(DELIVERY, status=SUCCEEDED), answered(200))
    assert (after.active, after.disabled_at) == (False, NOW)


def test_enabling_clears_the_record():
    """An enabled endpoint starts with a count of zero."""
    off = evolve(
        ENDPOINT, active=False, consecutive_failures=10, disabled_at=NOW, disabled_reason="why"
    )
    assert off.enable() == ENDPOINT
    assert evolve(ENDPOINT, consecutive_failures=3).pause() == evolve(
        ENDPOINT, active=False, consecutive_failures=3
    )


# Secrets ----------------------------------------------------------------------------------

ROTATED = EndpointSecrets(b"old").rotate(b"new", NOW, 24 * HOUR)


@pytest.mark.parametrize(
    "after, valid",
    [
        (0 * HOUR, (b"old", b"new")),
        (24 * HOUR - MOMENT, (b"old", b"new")),
        (24 * HOUR, (b"new",)),
        (48 * HOUR, (b"new",)),
    ],
)
def test_for_a_day_both_secrets_sign(after, valid):
    """Both secrets sign during the overlap, the old one first; then the new one only."""
    assert ROTATED.signing_secrets(NOW + after) == valid


def test_a_secret_that_is_not_rotated_signs_alone():
    """A secret without rotation is the only one that signs."""
    assert EndpointSecrets(b"old").signing_secrets(NOW) == (b"old",)
    assert EndpointSecrets(b"old").effective_at(NOW) == EndpointSecrets(b"old")


@pytest.mark.parametrize("after", [0 * HOUR, 24 * HOUR - MOMENT])
def test_the_new_secret_may_take_over_at_once(after):
    """A rotation can be ended before the overlap is over."""
    assert ROTATED.activate_next(NOW + after) == EndpointSecrets(b"new")


@pytest.mark.parametrize("secrets", [EndpointSecrets(b"old"), ROTATED], ids=["never", "over"])
def test_there_may_be_nothing_to_activate(secrets):
    """Ending a rotation that is not pending returns None."""
    assert secrets.activate_next(NOW + 24 * HOUR) is None


def test_rotating_again_drops_the_one_on_its_way():
    """A second rotation drops the pending secret; the published signature keeps its secret."""
    again = ROTATED.rotate(b"newer", NOW + HOUR, 24 * HOUR)
    assert again == EndpointSecrets(b"old", b"newer", NOW + 25 * HOUR)


def test_rotating_again_later_builds_on_the_new_one():
    """A rotation after the overlap starts from the new secret."""
    again = ROTATED.rotate(b"newer", NOW + 24 * HOUR, 24 * HOUR)
    assert again == EndpointSecrets(b"new", b"newer", NOW + 48 * HOUR)


def test_nothing_sealed_is_shown():
    """Representations contain no secrets, encrypted or not."""
    assert "sealed" not in repr(ENDPOINT)
    assert "old" not in repr(ROTATED)
    assert "new" not in repr(ROTATED)
