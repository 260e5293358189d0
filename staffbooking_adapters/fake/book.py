"""Where the fake processor keeps its state: a small store of documents.

A store implements `FakeBook` (in memory, on SQL). Its transactions are its own, never the
service's: nobody may lean on an atomicity that a real processor does not give. The rest of
this module says what the documents hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from attrs import evolve

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import faults, machine
from staffbooking_adapters.fake.answers import KEPT, Kept
from staffbooking_adapters.fake.faults import Chance, Fault
from staffbooking_adapters.fake.machine import Intent
from staffbooking_adapters.fake.payees import Payee
from staffbooking_adapters.fake.signing import Event
from staffbooking_core.domain.payments.processor import OpKey, OpKind

T = TypeVar("T")


class Reading(Protocol):
    async def get(self, kind: str, key: str) -> str | None:
        """The body of a document."""
        ...

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        """Keys and bodies of documents whose `due_at` has come, the earliest first, a
        hundred at most."""
        ...

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        """Keys and bodies of documents beyond a key, five hundred at most. Keys of such a
        kind are digits, all as many, so that no collation matters."""
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

    async def forget(self, kind: str, now: datetime) -> None:
        """Delete the documents whose `due_at` has come."""
        ...


class FakeBook(Protocol):
    async def read(self, work: Callable[[Reading], Awaitable[T]]) -> T:
        """Look at what is committed. Several reads need not be of one moment."""
        ...

    async def transact(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        """Run `work` in a transaction: committed when it returns, undone when it raises. It
        may be run again, so it must do nothing outside of the book."""
        ...


# Documents ----------------------------------------------------------------------------------
# Locks are taken in this order: an intent, a payee or EVENTS, then FAULTS, then LOG.

INTENT: Final = "intent"
PAGE: Final = "page"
LINE: Final = "line"
"""Of the statement, by intent and number."""
PAYEE: Final = "payee"
ACCOUNT: Final = "account"
"""Which companion's payee has a reference."""
ANSWER: Final = "answer"
FAULTS: Final = "faults"
EVENTS: Final = "event"
"""Those that are still to be brought."""
LOG: Final = "log"
"""All events, numbered in the order in which they can be seen."""
LAST: Final = "last"
"""The last number that the log has given."""

LISTED: Final = timedelta(days=30)
"""How long an event stays in the log, in business time."""


def lock_of(key: OpKey) -> str:
    """What a call has to itself: its intent or, where it has none, its payee."""
    if key.kind is OpKind.OPEN_PAYEE:
        return lock_of_payee(key.op_id)
    return lock_of_intent(key.intent_id)


def lock_of_intent(intent_id: int) -> str:
    return f"{INTENT}:{intent_id}"


def lock_of_payee(companion_id: int) -> str:
    return f"{PAYEE}:{companion_id}"


# Intents ------------------------------------------------------------------------------------


async def intent(view: Reading, intent_id: int) -> Intent:
    """As it was last written; an unknown one is empty."""
    body = await view.get(INTENT, str(intent_id))
    return Intent(intent_id) if body is None else load(body, Intent)


async def change(
    tx: Writing, intent_id: int, now: datetime, move: Callable[[Intent], tuple[Intent, T]]
) -> T:
    """Make a move from how an intent stands now, and write down what it changes, if anything.
    The intent has to be locked."""
    was = await intent(tx, intent_id)
    changed, answer = move(machine.at(was, now))
    if changed != was:
        await _save_intent(tx, was, changed, now)
    return answer


async def _save_intent(tx: Writing, was: Intent, changed: Intent, now: datetime) -> None:
    lines = was.lines
    for lines, movement in enumerate(machine.movements(was, changed, now), was.lines + 1):
        await tx.put(LINE, f"{changed.id:019d}{lines:06d}", dump(movement))
    changed = evolve(changed, version=was.version + 1, lines=lines)
    due_at, amount = machine.next_change(changed), machine.balance(changed)
    await tx.put(INTENT, str(changed.id), dump(changed), due_at, amount)
    for page in changed.pages[len(was.pages) :]:
        await tx.put(PAGE, page.ref, str(changed.id))
    await _tell(tx, Event(f"fev_{changed.id}_{changed.version:06d}", now, changed.id))


async def intent_of_page(view: Reading, ref: str) -> int | None:
    """The intent that a checkout page belongs to; None for any text that is no page's."""
    if not (ref.isascii() and ref.isalnum()):
        return None
    body = await view.get(PAGE, ref)
    return None if body is None else int(body)


# Payees -------------------------------------------------------------------------------------


async def payee(view: Reading, companion_id: int) -> Payee | None:
    body = await view.get(PAYEE, str(companion_id))
    return None if body is None else load(body, Payee)


async def save_payee(tx: Writing, was: Payee, changed: Payee, now: datetime) -> None:
    """Write what changed, and let an event tell of an open account's readiness."""
    if changed.ready != was.ready:
        changed = evolve(changed, version=was.version + 1)
    await tx.put(PAYEE, str(changed.companion_id), dump(changed))
    if changed.ref != was.ref:
        await tx.put(ACCOUNT, changed.ref, str(changed.companion_id))
    if changed.version != was.version and changed.ref:
        name = f"fev_p{changed.companion_id}_{changed.version:06d}"
        await _tell(tx, Event(name, now, payee_ref=changed.ref))


async def companion_of(view: Reading, payee_ref: str) -> int | None:
    """Whose payee has a reference; None for any text that is no payee's."""
    if not (payee_ref.isascii() and payee_ref.replace("_", "").isalnum()):
        return None
    body = await view.get(ACCOUNT, payee_ref)
    return None if body is None else int(body)


# Events -------------------------------------------------------------------------------------


async def _tell(tx: Writing, event: Event) -> None:
    """Let a new event be brought from now on, and list it: in the order of numbers that are
    given one after the other, so that whoever has seen one has seen all before it."""
    await save_event(tx, event, event.created_at)
    await tx.lock(LOG)
    number = 1 + int(await tx.get(LAST, LOG) or 0)
    await tx.put(LAST, LOG, str(number))
    await tx.put(LOG, f"{number:019d}", dump(event), event.created_at + LISTED)


async def save_event(tx: Writing, event: Event, due_at: datetime) -> None:
    await tx.put(EVENTS, event.id, dump(event), due_at)


# Answers and faults -------------------------------------------------------------------------


async def kept_answer(tx: Reading, key: str, wall: datetime) -> Kept | None:
    body = await tx.get(ANSWER, key)
    kept = None if body is None else load(body, Kept)
    is_old = kept is not None and kept.until is not None and kept.until <= wall
    return None if is_old else kept


async def keep_answer(tx: Writing, key: str, kept: Kept, wall: datetime) -> None:
    until = wall + KEPT
    await tx.put(ANSWER, key, dump(evolve(kept, until=until)), until)


async def take_fault(tx: Writing, op: str, chance: Chance) -> str:
    """The fault that strikes this call, used up by it; else what chance wants; "" for none."""
    if await tx.get(FAULTS, FAULTS) is not None:  # Else calls must not wait for each other.
        known = await lock_faults(tx)
        kind, left = faults.take(known, op)
        if left != known:
            await save_faults(tx, left)
            return kind
    kind = chance(op)
    return faults.fault(op, kind, 1).kind if kind else ""


async def waiting_faults(view: Reading) -> tuple[Fault, ...]:
    body = await view.get(FAULTS, FAULTS)
    return () if body is None else load(body, tuple[Fault, ...])


async def lock_faults(tx: Writing) -> tuple[Fault, ...]:
    await tx.lock(FAULTS)
    return await waiting_faults(tx)


async def save_faults(tx: Writing, left: tuple[Fault, ...]) -> None:
    if left:
        await tx.put(FAULTS, FAULTS, dump(left, tuple[Fault, ...]))
    else:
        await tx.delete(FAULTS, FAULTS)
