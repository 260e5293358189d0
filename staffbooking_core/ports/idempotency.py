"""Idempotency: stored responses of calls that carry an idempotency key (CONTRACT 4)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from attrs import frozen

IDEMPOTENCY_KEY_TAKEN = "uq_answers_key"
"""Constraint: a response is already stored for this scope and idempotency key."""


@frozen
class StoredResponse:
    """The first response of an idempotent call, byte for byte."""

    scope: str
    key: str
    fingerprint: bytes
    """Digest of the request's body."""
    status: int
    body: bytes
    expires_at: datetime


class IdempotencyReadPort(Protocol):
    """Queries on stored responses."""

    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        """The response stored for a key, unless it has expired; `now` is wall time."""
        ...


class IdempotencyWritePort(IdempotencyReadPort, Protocol):
    """Commands on stored responses."""

    async def save_response(self, response: StoredResponse) -> None:
        """Store the first response of a key; an expired one is replaced.

        Raises ConstraintViolated(IDEMPOTENCY_KEY_TAKEN).
        """
        ...
