"""Idempotency: stored responses of calls that carry an idempotency key (CONTRACT 4)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from attrs import field, frozen

from staffbooking_core.ports.leases import Lease

__all__ = [
    "IDEMPOTENCY_KEY_TAKEN",
    "IN_PROGRESS",
    "IdempotencyReadPort",
    "IdempotencyWritePort",
    "StoredResponse",
]

IDEMPOTENCY_KEY_TAKEN = "uq_answers_key"
"""Constraint: a response is already stored for this scope and idempotency key."""

IN_PROGRESS = 0
"""The status of a call that has claimed its key and has no response yet."""


@frozen
class StoredResponse:
    """The first response of an idempotent call, byte for byte, or the claim of a call that is in
    progress."""

    scope: str
    """The caller: the API key or the user."""
    key: str
    """SHA-256 of the idempotency key in hexadecimal digits."""
    fingerprint: bytes
    """Digest of the request's path and body."""
    status: int
    headers: str = field(repr=False)
    """One `name: value` a line."""
    body: bytes = field(repr=False)
    is_sealed: bool
    """Whether the body is sealed, since it shows a secret."""
    expires_at: datetime


class IdempotencyReadPort(Protocol):
    """Queries on stored responses."""

    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        """The response or the claim stored for a key, unless it has expired; `now` is wall time."""
        ...


class IdempotencyWritePort(IdempotencyReadPort, Protocol):
    """Commands on stored responses."""

    async def save_response(self, response: StoredResponse) -> None:
        """Store the first response of a key; an expired one is replaced. The time of the call is
        the response's `expires_at` less `Policy.idempotency_lifetime`.

        Raises ConstraintViolated(IDEMPOTENCY_KEY_TAKEN), also where a call holds the key.
        """
        ...

    async def claim_key(self, claim: StoredResponse, lease: Lease, now: datetime) -> bool:
        """Claim a key for a call that is IN_PROGRESS: one that is free, one that has expired, or
        one that was claimed with the same fingerprint by a lease that is over. Returns whether it
        was claimed; `now` is wall time."""
        ...

    async def finish_call(self, response: StoredResponse, lease: Lease) -> bool:
        """Store the response of a claimed call. Returns False, and stores nothing, where another
        call has taken the key over."""
        ...

    async def release_key(self, scope: str, key: str, lease: Lease) -> None:
        """Give a claimed key back without a response, unless another call has taken it over."""
        ...
