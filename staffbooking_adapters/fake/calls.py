"""One call to the fake processor: faults strike, an answer under the key is replayed, or
the command is executed and its answer kept. All of it is one transaction of the book, with
the intent held: of many calls with one key one is executed, and all get its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

import anyio
from attrs import frozen

from staffbooking_adapters.codec import dump
from staffbooking_adapters.fake import book as books
from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.answers import (
    Ending,
    Kept,
    done,
    fingerprint,
    refused,
    replay,
)
from staffbooking_adapters.fake.book import FakeBook, Writing
from staffbooking_adapters.fake.faults import NOT_EXECUTED, refusal
from staffbooking_adapters.fake.machine import Intent
from staffbooking_core.domain.payments import Busy, OpKey, Refused, Unknown
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Clock

A = TypeVar("A")

Move: TypeAlias = Callable[[Intent, datetime, str], tuple[Intent, A]]
"""From an intent, business time and the fault that strikes: the next state, the answer."""

SLOW: Final = 2.0
"""Seconds that a slow call takes."""


@contextmanager
def deadline(within: float) -> Iterator[None]:
    """End what is inside after `within` seconds; without an answer the outcome is Unknown."""
    if within <= 0:
        raise Unknown("no time for an answer")
    try:
        with anyio.fail_after(within):
            yield
    except TimeoutError:
        raise Unknown("no answer in time") from None
    except Unavailable as error:
        raise Unknown(error.reason or "the book is out of reach") from error


@frozen
class Calls:
    book: FakeBook
    clock: Clock

    async def make(
        self, key: OpKey, command: tuple[object, ...], answer: type[A], within: float, move: Move[A]
    ) -> A:
        """Execute `move` once under this key; `command` is what it was made from.

        Raises Refused, Busy, Unknown and KeyReused."""
        with deadline(within):
            print_ = fingerprint(key, *command)
            now = await self.clock.business()

            async def unit(tx: Writing) -> tuple[str, Kept | None]:
                intent = await books.lock_intent(tx, key.intent_id)
                fault = await books.take_fault(tx, key.kind)
                if fault in NOT_EXECUTED:
                    return fault, None
                kept = await books.kept_answer(tx, key.text)
                if kept is None:
                    kept = await _execute(tx, intent, now, fault, print_, move)
                    await tx.put(books.ANSWER, key.text, dump(kept))
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


async def _execute(
    tx: Writing, was: Intent, now: datetime, fault: str, print_: str, move: Move[A]
) -> Kept:
    """Make the move, unless the fault is in its way; the answer that the key keeps."""
    if fault == "error_500":
        return Kept(print_, Ending.ERROR)
    try:
        if (code := refusal(fault)) is not None:
            raise Refused(code)
        changed, answer = move(machine.at(was, now), now, fault)
    except Refused as error:
        kept = refused(print_, error)
    else:
        await books.save_intent(tx, was, changed, now)
        kept = done(print_, answer)
    return Kept(print_, Ending.ERROR) if fault == "error_500_after" else kept
