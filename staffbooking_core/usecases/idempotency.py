"""Kept answers: a repeated call with the same idempotency key gets the first answer,
byte for byte (CONTRACT 4)."""

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
    """What it takes to keep the answer of a call: whose key it is, the digest of the
    request, and how the answer will read that tells what was made."""

    scope: str
    key: str
    fingerprint: bytes
    build_response: Callable[[T], tuple[int, bytes]]


class AlreadyAnswered(Exception):
    """The call was answered already, perhaps a moment ago by a twin: here is the answer."""

    def __init__(self, response: StoredResponse) -> None:
        self.response = response
        super().__init__()


async def find_response(
    ports: Ports, idempotency: IdempotencyRequest[Any]
) -> StoredResponse | None:
    """The answer kept for this call; RuleBroken `idempotency_mismatch` where the key was
    used for another request."""
    async with ports.store.read_view() as view:
        stored = await view.idempotency.stored_response(
            idempotency.scope, idempotency.key, ports.clock.wall()
        )
    if stored is not None and stored.fingerprint != idempotency.fingerprint:
        raise RuleBroken("idempotency_mismatch", "The key was used for another request")
    return stored


async def check_replay(ports: Ports, idempotency: IdempotencyRequest[Any] | None) -> None:
    """Raises AnsweredBefore, and RuleBroken as `find` does."""
    if idempotency is not None and (stored := await find_response(ports, idempotency)) is not None:
        raise AlreadyAnswered(stored)


@asynccontextmanager
async def replay_on_conflict(
    ports: Ports, idempotency: IdempotencyRequest[Any] | None
) -> AsyncIterator[None]:
    """A unit of work that saves its answer runs in here. Raises as `check` where a twin of the
    call was faster: nothing of ours was saved, its answer counts."""
    try:
        yield
    except ConstraintViolated as error:
        if error.constraint == IDEMPOTENCY_KEY_TAKEN:
            await check_replay(ports, idempotency)
        raise


def response_for(ports: Ports, idempotency: IdempotencyRequest[T], result: T) -> StoredResponse:
    """The answer of a call that succeeded, to be saved with what it did."""
    status, body = idempotency.build_response(result)
    return _stored_response(ports, idempotency, status, body)


async def store_failure(
    ports: Ports, idempotency: IdempotencyRequest[Any], status: int, body: bytes
) -> StoredResponse:
    """Keep the answer of a call that changed nothing; whichever was kept first counts."""
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
