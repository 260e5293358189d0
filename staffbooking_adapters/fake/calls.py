"""One call to the fake processor: faults strike, an answer under the key is replayed, or
the command is executed and its answer kept. All of it is one transaction of the book, with
the intent or payee held: of many calls with one key one is executed, and all get its answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

import anyio
from attrs import frozen

from staffbooking_adapters.fake import book as books
from staffbooking_adapters.fake.answers import (
    Ending,
    Kept,
    done,
    fingerprint,
    refused,
    replay,
)
from staffbooking_adapters.fake.book import FakeBook, Writing
from staffbooking_adapters.fake.faults import NOT_EXECUTED, Chance, refusal
from staffbooking_adapters.fake.machine import Intent
from staffbooking_core.domain.payments.processor import Busy, OpKey, Refused, Unknown
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Clock

A = TypeVar("A")

Move: TypeAlias = Callable[[Intent, datetime, str], tuple[Intent, A]]
"""From an intent, business time and the fault that strikes: the next state, the answer."""

Act: TypeAlias = Callable[[Writing, datetime, str], Awaitable[A]]
"""The same in a transaction, for what is more than a move. It writes nothing and then raises."""

SLOW: Final = 2.0
"""Seconds that a slow call takes."""


@contextmanager
def in_reach() -> Iterator[None]:
    """A book that is out of reach is a processor that does not answer."""
    try:
        yield
    except Unavailable as error:
        raise Unknown(error.reason or "the book is out of reach") from error


@contextmanager
def deadline(within: float) -> Iterator[None]:
    """End what is inside after `within` seconds; without an answer the outcome is Unknown."""
    if within <= 0:
        raise Unknown("no time for an answer")
    try:
        with in_reach(), anyio.fail_after(within):
            yield
    except TimeoutError:
        raise Unknown("no answer in time") from None


@frozen
class Calls:
    book: FakeBook
    clock: Clock
    chance: Chance

    async def move(
        self, key: OpKey, command: tuple[object, ...], answer: type[A], within: float, move: Move[A]
    ) -> A:
        """`make` a move of the key's intent."""

        async def act(tx: Writing, now: datetime, fault: str) -> A:
            return await books.change(
                tx, key.intent_id, now, lambda intent: move(intent, now, fault)
            )

        return await self.make(key, command, answer, within, act)

    async def make(
        self, key: OpKey, command: tuple[object, ...], answer: type[A], within: float, act: Act[A]
    ) -> A:
        """Execute `act` once under this key; `command` is what it was made from.

        Raises Refused, Busy, Unknown and KeyReused."""
        with deadline(within):
            print_ = fingerprint(key, *command)
            now, wall = await self.clock.business(), self.clock.wall()

            async def unit(tx: Writing) -> tuple[str, Kept | None]:
                await tx.lock(books.lock_of(key))
                fault = await books.take_fault(tx, key.kind, self.chance)
                if fault in NOT_EXECUTED:
                    return fault, None
                kept = await books.kept_answer(tx, key.text, wall)
                if kept is None:
                    kept = await _execute(tx, now, fault, print_, act)
                    await books.keep_answer(tx, key.text, kept, wall)
                return fault, kept

            fault, kept = await self.book.transact(unit)
            await self._misbehave(fault, within)
            assert kept is not None, "what was not executed has raised"
            return replay(kept, print_, answer)

    async def _misbehave(self, fault: str, within: float) -> None:
        """What a fault does to the answer on its way."""
        match fault:
            case "timeout_before" | "timeout_after":
                raise Unknown("no answer in time")
            case "rate_limit":
                raise Busy(1.0)
            case "conflict":
                raise Busy
            case "slow":
                await self.clock.sleep(min(within, SLOW))
                if within < SLOW:
                    raise Unknown("no answer in time")


async def _execute(tx: Writing, now: datetime, fault: str, print_: str, act: Act[A]) -> Kept:
    """Act, unless the fault is in the way; the answer that the key keeps."""
    if fault == "error_500":
        return Kept(print_, Ending.ERROR)
    try:
        if (code := refusal(fault)) is not None:
            raise Refused(code)
        kept = done(print_, await act(tx, now, fault))
    except Refused as error:
        kept = refused(print_, error)
    return Kept(print_, Ending.ERROR) if fault == "error_500_after" else kept
