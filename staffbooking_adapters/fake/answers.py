"""Idempotency as Stripe does it: what was answered under a key is answered again.

That holds for refusals and for errors of 5xx too: a refused command needs a new key once
the cause is gone, and repeating a 5xx alone leads nowhere. After a day a key is forgotten, and
whoever repeats a command under it moves money twice.
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
    ProcessorRefused,
    RefusalCode,
    Unknown,
)

A = TypeVar("A")

ANSWER_RETENTION: Final = timedelta(hours=24)
"""How long a key is known, in real time, which is also what callers go by."""


class AnswerStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    ERROR = "error"
    """An answer of 5xx, whether the command was executed or not."""


@frozen
class StoredAnswer:
    """The answer under a key. `body` is the answer's JSON, or the code of the refusal."""

    fingerprint: str
    ending: AnswerStatus
    body: str = ""
    message: str = ""
    until: datetime | None = None
    """From then on (real time) the key is forgotten."""


def fingerprint(key: OperationKey, *command: object) -> str:
    """What tells one command from another, so that a key cannot serve two."""
    parts = (key.kind.value, key.intent_id, key.op_id, *command)
    return hashlib.sha256("\n".join(map(dump, parts)).encode()).hexdigest()


def succeeded_answer(command_fingerprint: str, answer: object) -> StoredAnswer:
    return StoredAnswer(command_fingerprint, AnswerStatus.DONE, dump(answer))


def refused_answer(command_fingerprint: str, error: ProcessorRefused) -> StoredAnswer:
    return StoredAnswer(command_fingerprint, AnswerStatus.REFUSED, error.reason.value, str(error))


def replay(stored: StoredAnswer, command_fingerprint: str, answer_type: type[A]) -> A:
    """The answer again, as it was; KeyReused where the command is another one."""
    if stored.fingerprint != command_fingerprint:
        raise OperationKeyReused("the key was used with another command")
    match stored.ending:
        case AnswerStatus.DONE:
            return load(stored.body, answer_type)
        case AnswerStatus.REFUSED:
            raise ProcessorRefused(RefusalCode(stored.body), stored.message)
        case AnswerStatus.ERROR:
            raise Unknown("an internal error of the processor (500)")
