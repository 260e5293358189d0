"""Where the fake processor keeps its state: a small store of documents.

A store implements `FakeBook` (in memory, on SQL). Its transactions are its own, never the
service's: nobody may lean on an atomicity that a real processor does not give. The rest of
this module says what the documents hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeVar

from attrs import evolve

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import faults, machine
from staffbooking_adapters.fake.answers import Kept
from staffbooking_adapters.fake.faults import Fault
from staffbooking_adapters.fake.machine import Intent
from staffbooking_adapters.fake.signing import Event

T = TypeVar("T")


class Reading(Protocol):
    async def get(self, kind: str, key: str) -> str | None:
        """The body of a document."""
        ...

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        """Keys and bodies of documents whose `due_at` has come, the earliest first, a
        hundred at most."""
        ...

    async def total(self, kind: str) -> int:
        """The sum of the documents' amounts."""
        ...


class Writing(Reading, Protocol):
    async def lock(self, name: str) -> None:
        """Wait until nobody else holds this name, in whatever process, and hold it until the
        transaction ends. What is read afterwards is what the last holder left."""
        ...

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        """Insert or replace a document."""
        ...

    async def delete(self, kind: str, key: str) -> None: ...


class FakeBook(Protocol):
    async def read(self, work: Callable[[Reading], Awaitable[T]]) -> T:
        """Look at what is committed. Several reads need not be of one moment."""
        ...

    async def transact(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        """Run `work` in a transaction: committed when it returns, undone when it raises. It
        may be run again, so it must do nothing outside of the book."""
        ...


# Documents ----------------------------------------------------------------------------------
# Locks are taken in this order: an intent or EVENTS, then FAULTS.

INTENT: Final = "intent"
PAGE: Final = "page"
ANSWER: Final = "answer"
EVENTS: Final = "event"
FAULTS: Final = "faults"
PAYEE: Final = "payee"
"""Of a companion who is not ready to be paid: all others are."""


async def intent(view: Reading, intent_id: int) -> Intent:
    """As it was last written; an unknown one is empty."""
    body = await view.get(INTENT, str(intent_id))
    return Intent(intent_id) if body is None else load(body, Intent)


async def lock_intent(tx: Writing, intent_id: int) -> Intent:
    """The same, with nobody else at it."""
    await tx.lock(f"{INTENT}:{intent_id}")
    return await intent(tx, intent_id)


async def save_intent(tx: Writing, was: Intent, changed: Intent, now: datetime) -> None:
    """Write what changed, if anything did, and let an event tell of it."""
    if changed == was:
        return
    changed = evolve(changed, version=was.version + 1)
    due_at, amount = machine.next_change(changed), machine.balance(changed)
    await tx.put(INTENT, str(changed.id), dump(changed), due_at, amount)
    for page in changed.pages[len(was.pages) :]:
        await tx.put(PAGE, page.ref, str(changed.id))
    await save_event(tx, Event(f"fev_{changed.id}_{changed.version:06d}", changed.id, now), now)


async def intent_of_page(view: Reading, ref: str) -> int | None:
    """The intent that a checkout page belongs to; None for any text that is no page's."""
    if not (ref.isascii() and ref.isalnum()):
        return None
    body = await view.get(PAGE, ref)
    return None if body is None else int(body)


async def save_event(tx: Writing, event: Event, due_at: datetime) -> None:
    await tx.put(EVENTS, event.id, dump(event), due_at)


async def kept_answer(tx: Reading, key: str) -> Kept | None:
    body = await tx.get(ANSWER, key)
    return None if body is None else load(body, Kept)


async def take_fault(tx: Writing, op: str) -> str:
    """The fault that strikes this call, used up by it; "" for none."""
    if await tx.get(FAULTS, FAULTS) is None:
        return ""  # The usual case, in which calls must not wait for each other.
    known = await lock_faults(tx)
    kind, left = faults.take(known, op)
    if left != known:
        await save_faults(tx, left)
    return kind


async def lock_faults(tx: Writing) -> tuple[Fault, ...]:
    await tx.lock(FAULTS)
    body = await tx.get(FAULTS, FAULTS)
    return () if body is None else load(body, tuple[Fault, ...])


async def save_faults(tx: Writing, left: tuple[Fault, ...]) -> None:
    if left:
        await tx.put(FAULTS, FAULTS, dump(left, tuple[Fault, ...]))
    else:
        await tx.delete(FAULTS, FAULTS)
