"""Kept answers: a repeated call with the same idempotency key gets the first answer,
byte for byte (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from attrs import frozen

from staffbooking_core.errors import ConstraintViolated, RuleBroken
from staffbooking_core.ports import ANSWER_KEPT, Answer, Ports, Writing

T = TypeVar("T")


@frozen
class Keep(Generic[T]):
    """What it takes to keep the answer of a call: whose key it is, the digest of the
    request, and how the answer will read that tells what was made."""

    scope: str
    key: str
    fingerprint: bytes
    answer: Callable[[T], tuple[int, bytes]]


class AnsweredBefore(Exception):
    """The call was answered already, perhaps a moment ago by a twin: here is the answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__()


async def find(ports: Ports, keep: Keep[Any]) -> Answer | None:
    """The answer kept for this call; RuleBroken `idempotency_mismatch` where the key was
    used for another request."""
    async with ports.store.reading() as view:
        kept = await view.bookings.answer(keep.scope, keep.key, ports.clock.wall())
    if kept is not None and kept.fingerprint != keep.fingerprint:
        raise RuleBroken("idempotency_mismatch", "The key was used for another request")
    return kept


async def check(ports: Ports, keep: Keep[Any] | None) -> None:
    """Raises AnsweredBefore, and RuleBroken as `find` does."""
    if keep is not None and (kept := await find(ports, keep)) is not None:
        raise AnsweredBefore(kept)


@asynccontextmanager
async def once(ports: Ports, keep: Keep[Any] | None) -> AsyncIterator[None]:
    """A unit of work that saves its answer runs in here. Raises as `check` where a twin of the
    call was faster: nothing of ours was saved, its answer counts."""
    try:
        yield
    except ConstraintViolated as error:
        if error.constraint == ANSWER_KEPT:
            await check(ports, keep)
        raise


def made(ports: Ports, keep: Keep[T], what: T) -> Answer:
    """The answer of a call that succeeded, to be saved with what it did."""
    status, body = keep.answer(what)
    return _answer(ports, keep, status, body)


async def keep_failure(ports: Ports, keep: Keep[Any], status: int, body: bytes) -> Answer:
    """Keep the answer of a call that changed nothing; whichever was kept first counts."""
    answer = _answer(ports, keep, status, body)

    async def unit(tx: Writing) -> None:
        await tx.bookings.keep_answer(answer)

    try:
        await ports.store.write(unit)
    except ConstraintViolated as error:
        if error.constraint != ANSWER_KEPT:
            raise
        return await find(ports, keep) or answer
    return answer


def _answer(ports: Ports, keep: Keep[Any], status: int, body: bytes) -> Answer:
    expires_at = ports.clock.wall() + ports.policy.idempotency_lifetime
    return Answer(keep.scope, keep.key, keep.fingerprint, status, body, expires_at)
