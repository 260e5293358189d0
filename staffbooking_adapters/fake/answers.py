"""Idempotency with Stripe's semantics: a repeated key returns the stored answer.

Refusals and 5xx errors are stored too: a refused command needs a new key after its cause is
fixed, and a retry of a 5xx under the same key gets the same 5xx. A key expires after 24 hours;
a command repeated under an expired key is executed again and moves money twice.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from attrs import frozen

from staffbooking_adapters.codec import dump, load
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKeyReused,
    OutcomeUnknown,
    ProcessorRefused,
    RefusalCode,
)

A = TypeVar("A")

ANSWER_RETENTION: Final = timedelta(hours=24)
"""How long a key is stored, in wall time; callers rely on wall time too."""


class AnswerStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    ERROR = "error"
    """A 5xx answer, whether or not the command was executed."""


@frozen
class StoredAnswer:
    """The answer under a key. `body` is the answer's JSON or the refusal's code."""

    fingerprint: str
    ending: AnswerStatus
    body: str = ""
    message: str = ""
    until: datetime | None = None
    """When the key expires, in wall time."""


def fingerprint(key: OperationKey, *command: object) -> str:
    """A hash of a command and its key, which detects the reuse of a key for another command."""
    parts = (key.kind.value, key.intent_id, key.op_id, *command)
    return hashlib.sha256("\n".join(map(dump, parts)).encode()).hexdigest()


def succeeded_answer(command_fingerprint: str, answer: object) -> StoredAnswer:
    return StoredAnswer(command_fingerprint, AnswerStatus.DONE, dump(answer))


def refused_answer(command_fingerprint: str, error: ProcessorRefused) -> StoredAnswer:
    return StoredAnswer(command_fingerprint, AnswerStatus.REFUSED, error.reason.value, str(error))


def replay(stored: StoredAnswer, command_fingerprint: str, answer_type: type[A]) -> A:
    """Return the stored answer or raise the stored error.

    Raises OperationKeyReused if the key was stored with another command, ProcessorRefused for
    a stored refusal and OutcomeUnknown for a stored 5xx.
    """
    if stored.fingerprint != command_fingerprint:
        raise OperationKeyReused("the key was used with another command")
    match stored.ending:
        case AnswerStatus.DONE:
            return load(stored.body, answer_type)
        case AnswerStatus.REFUSED:
            raise ProcessorRefused(RefusalCode(stored.body), stored.message)
        case AnswerStatus.ERROR:
            raise OutcomeUnknown("an internal error of the processor (500)")
