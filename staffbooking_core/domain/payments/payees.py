"""Payees: the staff members' accounts at the processor.

A payee is opened once under its own idempotency key; the staff member then completes it on a page
of the processor. Opening moves no money, so an opening with an unknown outcome is sent again: under
the same key, and under the next one after some attempts or once the key is old. An account that is
lost this way stays empty.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from attrs import evolve, frozen

from staffbooking_core.domain.payments.operations import (
    LOOK_UP_AFTER_ATTEMPTS,
    OPERATION_KEY_LIFETIME,
    backoff_delay,
)
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKeyReused,
    OperationKind,
    ProcessorBusy,
    ProcessorError,
    ProcessorRefused,
)

__all__ = ["OnboardingLink", "OpenPayee", "Payee", "PayeeState", "PayeeStatus"]


@frozen
class OpenPayee:
    """The parameters of a new account; `country` is ISO 3166, two letters."""

    companion_id: int
    email: str
    name: str
    country: str
    currency: str


@frozen
class PayeeState:
    """The processor's state of an account. `needs` names the missing information."""

    ref: str
    ready: bool
    needs: tuple[str, ...] = ()


@frozen
class OnboardingLink:
    """A page of the processor for the staff member; single use, short-lived."""

    url: str
    expires_at: datetime


class PayeeStatus(StrEnum):
    """The status of a payout account, as its owner sees it."""

    NONE = "none"
    OPENING = "opening"
    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    READY = "ready"


@frozen
class Payee:
    """One staff member's account at one processor. Times are wall time."""

    provider: str
    companion_id: int
    command: OpenPayee
    created_at: datetime
    next_at: datetime | None
    """When to open the account (again), or to poll its state; None for never."""
    generation: int = 1
    attempts: int = 0
    first_sent_at: datetime | None = None
    ref: str | None = None
    ready: bool = False
    needs: tuple[str, ...] = ()
    last_error: str | None = None

    @property
    def key(self) -> OperationKey:
        return OperationKey(0, self.companion_id, OperationKind.OPEN_PAYEE, self.generation)

    @property
    def status(self) -> PayeeStatus:
        if self.ref is not None:
            return PayeeStatus.READY if self.ready else PayeeStatus.INCOMPLETE
        return PayeeStatus.REFUSED if self.next_at is None else PayeeStatus.OPENING

    def is_due(self, now: datetime) -> bool:
        """Whether an opening or a poll is due; `now` is wall time."""
        return self.next_at is not None and self.next_at <= now


PAYEE_POLL_MIN_INTERVAL = timedelta(minutes=10)
PAYEE_POLL_MAX_INTERVAL = timedelta(days=1)
"""Interval between polls of an incomplete account: it doubles from the minimum to the maximum. The
processor's event usually arrives long before."""


def start_opening_attempt(payee: Payee, now: datetime) -> Payee:
    """The payee for the next opening attempt.

    The next key is used if the present one is old, or was tried so often that the processor may
    keep replaying a stored 5xx answer.
    """
    is_key_expired = (
        payee.first_sent_at is not None and now - payee.first_sent_at >= OPERATION_KEY_LIFETIME
    )
    has_exhausted_key = payee.attempts > 0 and payee.attempts % LOOK_UP_AFTER_ATTEMPTS == 0
    if is_key_expired or has_exhausted_key:
        payee = evolve(payee, generation=payee.generation + 1, first_sent_at=None)
    sent_at = payee.first_sent_at or now
    return evolve(payee, attempts=payee.attempts + 1, first_sent_at=sent_at)


def apply_payee_state(payee: Payee, state: PayeeState, now: datetime) -> Payee:
    """The payee after an answer of the processor."""
    attempts = 0 if payee.ref is None else payee.attempts + 1
    wait = _poll_interval(attempts)
    return evolve(
        payee,
        ref=state.ref,
        ready=state.ready,
        needs=state.needs,
        attempts=attempts,
        next_at=None if state.ready else now + wait,
        last_error=None,
    )


def _poll_interval(polls: int) -> timedelta:
    """The wait after this number of polls that failed or found the account incomplete."""
    return min(PAYEE_POLL_MIN_INTERVAL * (1 << min(polls, 16)), PAYEE_POLL_MAX_INTERVAL)


def apply_payee_failure(payee: Payee, error: ProcessorError, now: datetime) -> Payee:
    """The payee after a failed call. A refusal is final until the staff member asks again."""
    refused = payee.ref is None and isinstance(error, ProcessorRefused | OperationKeyReused)
    attempts, wait = payee.attempts, backoff_delay(max(payee.attempts, 1))
    if payee.ref is not None:  # Openings are counted when sent, polls here.
        attempts, wait = payee.attempts + 1, _poll_interval(payee.attempts)
    if isinstance(error, ProcessorBusy) and error.retry_after:
        wait = timedelta(seconds=error.retry_after)
    return evolve(
        payee,
        attempts=attempts,
        next_at=None if refused else now + wait,
        last_error=str(error) or type(error).__name__,
    )


def reopen_payee(
    payee: Payee, command: OpenPayee, now: datetime, missing_ref: str | None = None
) -> Payee:
    """The payee when the staff member asks for the page: a refused opening is tried again with the
    present data of the person, and an account that is missing at the processor is replaced."""
    is_missing = payee.ref is not None and payee.ref == missing_ref
    if payee.status is not PayeeStatus.REFUSED and not is_missing:
        return payee
    return evolve(
        payee,
        command=command,
        generation=payee.generation + 1,
        attempts=0,
        first_sent_at=None,
        ref=None,
        ready=False,
        needs=(),
        next_at=now,
        last_error=None,
    )
