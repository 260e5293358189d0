"""Stored responses: a repeated call with the same idempotency key gets the first response, byte for
byte (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from attrs import frozen

from staffbooking_core.errors import ConstraintViolated, RuleBroken
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, Ports, StoredResponse, Transaction

T = TypeVar("T")


@frozen
class IdempotencyRequest(Generic[T]):
    """An idempotent call: the scope and value of its key, the fingerprint of its request, and the
    function that encodes its result as a status and a body."""

    scope: str
    key: str
    fingerprint: bytes
    build_response: Callable[[T], tuple[int, bytes]]


class AlreadyAnswered(Exception):
    """The call has a stored response, perhaps one that a concurrent call stored just now."""

    def __init__(self, response: StoredResponse) -> None:
        self.response = response
        super().__init__()


async def find_response(
    ports: Ports, idempotency: IdempotencyRequest[Any]
) -> StoredResponse | None:
    """The response stored for a call; None without one.

    Raises RuleBroken `idempotency_mismatch` where the key was used for another request.
    """
    async with ports.store.read_view() as view:
        stored = await view.idempotency.stored_response(
            idempotency.scope, idempotency.key, ports.clock.wall()
        )
    if stored is not None and stored.fingerprint != idempotency.fingerprint:
        raise RuleBroken("idempotency_mismatch", "The key was used for another request")
    return stored


async def check_replay(ports: Ports, idempotency: IdempotencyRequest[Any] | None) -> None:
    """Refuse a call that has a stored response. Does nothing without an idempotency key.

    Raises AlreadyAnswered, and RuleBroken `idempotency_mismatch`.
    """
    if idempotency is not None and (stored := await find_response(ports, idempotency)) is not None:
        raise AlreadyAnswered(stored)


@asynccontextmanager
async def replay_on_conflict(
    ports: Ports, idempotency: IdempotencyRequest[Any] | None
) -> AsyncIterator[None]:
    """Context of a transaction that saves its response. Where a concurrent call with the same key
    committed first, the transaction is rolled back and `check_replay` raises.

    Raises AlreadyAnswered, and RuleBroken `idempotency_mismatch`.
    """
    try:
        yield
    except ConstraintViolated as error:
        if error.constraint == IDEMPOTENCY_KEY_TAKEN:
            await check_replay(ports, idempotency)
        raise


def response_for(ports: Ports, idempotency: IdempotencyRequest[T], result: T) -> StoredResponse:
    """The response of a successful call, to be saved in the transaction of its changes."""
    status, body = idempotency.build_response(result)
    return _stored_response(ports, idempotency, status, body)


async def store_failure(
    ports: Ports, idempotency: IdempotencyRequest[Any], status: int, body: bytes
) -> StoredResponse:
    """Store the response of a call that changed nothing. Returns the response that was stored first
    for this key, by this call or by a concurrent one.

    Raises RuleBroken `idempotency_mismatch`.
    """
    response = _stored_response(ports, idempotency, status, body)

    async def unit(tx: Transaction) -> None:
        await tx.idempotency.save_response(response)

    try:
        await ports.store.run_transaction(unit)
    except ConstraintViolated as error:
        if error.constraint != IDEMPOTENCY_KEY_TAKEN:
            raise
        return await find_response(ports, idempotency) or response
    return response


def _stored_response(
    ports: Ports, idempotency: IdempotencyRequest[Any], status: int, body: bytes
) -> StoredResponse:
    expires_at = ports.clock.wall() + ports.policy.idempotency_lifetime
    return StoredResponse(
        idempotency.scope, idempotency.key, idempotency.fingerprint, status, body, expires_at
    )
