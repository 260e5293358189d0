"""Operations: each movement of money is a row with a frozen command, written in the transaction
that decides it, and sent afterwards under its own idempotency key.

After an attempt without an outcome the operation is sent again under its key, or, where that is
unsafe, its outcome is looked up in a snapshot first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from attrs import evolve, frozen

from staffbooking_core.domain.payments.processor import (
    OPERATION_KIND_BY_COMMAND,
    OperationCommand,
    OperationKey,
    OperationKeyReused,
    OperationKind,
    ProcessorBusy,
    ProcessorError,
    ProcessorMisconfigured,
    ProcessorRefused,
)

__all__ = ["Operation", "OperationOrder", "OperationStatus", "SettlementStatus"]


class OperationStatus(StrEnum):
    PENDING = "pending"
    """To be sent, for the first time or again."""
    UNKNOWN = "unknown"
    """Sent; the outcome is not known."""
    DONE = "done"
    REFUSED = "refused"
    """Not executed, and not retried automatically."""
    VOID = "void"
    """Not sent, because its reason ceased to exist."""
    DEAD = "dead"
    """Blocked by a defect or a setting: an operator must act."""


UNFINISHED_OPERATION_STATUSES = frozenset({OperationStatus.PENDING, OperationStatus.UNKNOWN})
"""Statuses in which the service must send the operation or look up its outcome."""

FAILED_OPERATION_STATUSES = frozenset({OperationStatus.REFUSED, OperationStatus.DEAD})
"""Statuses in which nothing was executed, and nothing is retried automatically."""


STAFF_PAYMENT_KINDS = frozenset({OperationKind.PAY_OUT, OperationKind.REVERSE_PAYOUT})
"""Payments to or from a staff member."""


class SettlementStatus(StrEnum):
    """The settlement of a finished refund or payout at the processor."""

    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


@frozen
class OperationOrder:
    """A command ordered by a decision: it becomes an operation in the same transaction."""

    n: int
    """Number of the order within its booking, from 1."""
    command: OperationCommand

    @property
    def kind(self) -> OperationKind:
        return OPERATION_KIND_BY_COMMAND[type(self.command)]


@frozen
class Operation:
    """One movement of money, or one change of a checkout.

    Unique by (booking_id, n). `next_at` and `lease_until` are wall-clock times.
    """

    id: int
    booking_id: int
    kind: OperationKind
    n: int
    """Number of the order within its booking, from 1."""
    command: OperationCommand
    created_at: datetime
    next_at: datetime
    generation: int = 1
    status: OperationStatus = OperationStatus.PENDING
    attempts: int = 0
    first_sent_at: datetime | None = None
    last_sent_at: datetime | None = None
    result_ref: str | None = None
    settlement: SettlementStatus | None = None
    last_error: str | None = None
    request_id: str | None = None
    """The id of the request that ordered it, for the log."""

    @property
    def key(self) -> OperationKey:
        return OperationKey(self.booking_id, self.id, self.kind, self.generation)

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED_OPERATION_STATUSES

    @property
    def is_in_flight(self) -> bool:
        """Whether the operation was sent and its outcome is not known."""
        return not self.is_finished and self.first_sent_at is not None

    def blocks(self, later: Operation, now: datetime) -> bool:
        """Whether a later operation of the same booking waits until this one is finished; `now` is
        wall time. A payment to or from the staff member may wait for them forever: a refund to the
        customer does not wait for it, unless it is due or in flight."""
        can_be_overtaken = (
            self.kind in STAFF_PAYMENT_KINDS
            and self.status is not OperationStatus.UNKNOWN
            and self.next_at > now
        )
        return not self.is_finished and not (
            later.kind is OperationKind.REFUND and can_be_overtaken
        )

    def is_due(self, now: datetime) -> bool:
        """Whether the operation must be worked on; `now` is wall time."""
        return not self.is_finished and self.next_at <= now

    def is_delayed_payout(self, now: datetime) -> bool:
        """Whether the operation is a payout that waits for its next attempt; `now` is wall time."""
        is_waiting = self.kind is OperationKind.PAY_OUT and self.status is OperationStatus.PENDING
        return is_waiting and self.next_at > now


RETRY_BACKOFF_DELAYS = tuple(
    timedelta(seconds=seconds) for seconds in (1, 5, 30, 2 * 60, 10 * 60, 30 * 60, 60 * 60)
)
"""Waits after an attempt without an outcome; the last one repeats."""

LOOK_UP_AFTER_ATTEMPTS = 3
"""After this many attempts without an outcome the operation is looked up before it is sent again: a
processor that replays a stored 5xx answer would repeat it forever."""

OPERATION_KEY_LIFETIME = timedelta(hours=20)
"""The processor may forget an older key: the operation is looked up and never sent blindly."""


def backoff_delay(attempts: int) -> timedelta:
    """The wait after the given number of attempts."""
    return RETRY_BACKOFF_DELAYS[min(attempts, len(RETRY_BACKOFF_DELAYS)) - 1]


def must_look_up_outcome(operation: Operation, now: datetime) -> bool:
    """Whether sending the operation again under its key is unsafe: the key may have expired, or a
    stored 5xx answer may be replayed."""
    if operation.first_sent_at is None or operation.status is not OperationStatus.UNKNOWN:
        return False
    return (
        operation.attempts >= LOOK_UP_AFTER_ATTEMPTS
        or now - operation.first_sent_at >= OPERATION_KEY_LIFETIME
    )


def apply_operation_failure(
    operation: Operation, error: ProcessorError, now: datetime
) -> Operation:
    """The operation after a failed attempt: its next status, key generation and time."""
    wait, first_sent_at = backoff_delay(operation.attempts), operation.first_sent_at
    match error:
        case ProcessorRefused() if error.is_retryable:
            status, generation = OperationStatus.PENDING, operation.generation + 1
            first_sent_at = None
        case ProcessorRefused():
            status, generation = OperationStatus.REFUSED, operation.generation
        case ProcessorBusy():
            # Not executed, but an earlier attempt under this key may have been.
            status, generation = operation.status, operation.generation
            wait = timedelta(seconds=error.retry_after) if error.retry_after else wait
        case OperationKeyReused():
            status, generation = OperationStatus.DEAD, operation.generation
        case ProcessorMisconfigured():
            status, generation = operation.status, operation.generation
        case _:
            status, generation = OperationStatus.UNKNOWN, operation.generation
    return evolve(
        operation,
        status=status,
        generation=generation,
        first_sent_at=first_sent_at,
        next_at=now + wait,
        last_error=str(error) or type(error).__name__,
    )
