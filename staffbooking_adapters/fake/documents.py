"""The fake processor's document store: its port, and the documents in it.

Memory and SQL adapters implement `FakeDocumentStore`. Its transactions are separate from the
service's, because a real processor offers no atomicity with the service. The functions read and
write the documents: intents, payees, events, stored answers and faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from attrs import evolve

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import faults, machine
from staffbooking_adapters.fake.answers import ANSWER_RETENTION, StoredAnswer
from staffbooking_adapters.fake.faults import FaultInjector, InjectedFault
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.fake.payees import FakePayee
from staffbooking_adapters.fake.signing import FakeEvent
from staffbooking_core.domain.payments.processor import OperationKey, OperationKind

T = TypeVar("T")


class FakeStoreReader(Protocol):
    """Reads documents by kind and key."""

    async def get(self, kind: str, key: str) -> str | None:
        """The body of a document; None if there is none."""
        ...

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        """Keys and bodies of the documents with `due_at` <= `now`, the earliest first, at most
        100."""
        ...

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        """Keys and bodies of the documents above a key, ascending, at most 500. Keys of such a
        kind have the same number of digits, so the order does not depend on the collation."""
        ...

    async def total(self, kind: str) -> int:
        """The sum of the documents' amounts."""
        ...


class FakeStoreTransaction(FakeStoreReader, Protocol):
    """Reads and writes documents in one transaction."""

    async def lock(self, name: str) -> None:
        """Lock a name across processes until the transaction ends; wait while another
        transaction holds it. Later reads see what the previous holder committed."""
        ...

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        """Insert or replace a document."""
        ...

    async def delete(self, kind: str, key: str) -> None:
        """Delete a document, if it exists."""
        ...

    async def delete_due(self, kind: str, now: datetime) -> None:
        """Delete the documents with `due_at` <= `now`."""
        ...


class FakeDocumentStore(Protocol):
    """The document store of the fake processor."""

    async def read(self, work: Callable[[FakeStoreReader], Awaitable[T]]) -> T:
        """Run `work` on committed documents. Its reads need not share one snapshot."""
        ...

    async def transact(self, work: Callable[[FakeStoreTransaction], Awaitable[T]]) -> T:
        """Run `work` in a transaction, committed when it returns and rolled back when it
        raises. It may run more than once, so it must have no effects outside the store."""
        ...


# Documents ----------------------------------------------------------------------------------
# Lock order: an intent, a payee or the pending events, then the faults, then the event log.

INTENT_KIND: Final = "intent"
_PAGE_KIND: Final = "page"
STATEMENT_LINE_KIND: Final = "line"
"""Lines of the statement, keyed by intent id and line number."""
_PAYEE_KIND: Final = "payee"
_PAYEE_REF_KIND: Final = "account"
"""The companion id of each payee reference."""
ANSWER_KIND: Final = "answer"
_FAULTS_KIND: Final = "faults"
PENDING_EVENT_KIND: Final = "event"
"""Events to be delivered."""
EVENT_LOG_KIND: Final = "log"
"""All events, numbered in the order of commit."""
_EVENT_COUNTER_KIND: Final = "last"
"""The last number of the event log."""

_EVENT_RETENTION: Final = timedelta(days=30)
"""Retention of events in the log, in business time."""


def lock_name(key: OperationKey) -> str:
    """The lock of a call: its payee for `OPEN_PAYEE`, otherwise its intent."""
    if key.kind is OperationKind.OPEN_PAYEE:
        return payee_lock_name(key.op_id)
    return _intent_lock_name(key.intent_id)


def _intent_lock_name(intent_id: int) -> str:
    return f"{INTENT_KIND}:{intent_id}"


def payee_lock_name(companion_id: int) -> str:
    return f"{_PAYEE_KIND}:{companion_id}"


# Intents ------------------------------------------------------------------------------------


async def get_intent(view: FakeStoreReader, intent_id: int) -> FakeIntent:
    """The intent as stored, not advanced in time; an empty intent if none is stored."""
    body = await view.get(INTENT_KIND, str(intent_id))
    return FakeIntent(intent_id) if body is None else load(body, FakeIntent)


async def change_intent(
    tx: FakeStoreTransaction,
    intent_id: int,
    now: datetime,
    transition: Callable[[FakeIntent], tuple[FakeIntent, T]],
) -> T:
    """Advance an intent to `now`, apply `transition`, and save it if it changed. Returns the
    transition's answer. The caller must hold the intent's lock."""
    before = await get_intent(tx, intent_id)
    changed, answer = transition(machine.advance_to(before, now))
    if changed != before:
        await _save_intent(tx, before, changed, now)
    return answer


async def lock_and_change_intent(
    store: FakeDocumentStore,
    intent_id: int,
    now: datetime,
    transition: Callable[[FakeIntent], tuple[FakeIntent, T]],
) -> T:
    """Lock an intent and change it in its own transaction (see `change_intent`)."""

    async def unit(tx: FakeStoreTransaction) -> T:
        await tx.lock(_intent_lock_name(intent_id))
        return await change_intent(tx, intent_id, now, transition)

    return await store.transact(unit)


async def _save_intent(
    tx: FakeStoreTransaction, before: FakeIntent, changed: FakeIntent, now: datetime
) -> None:
    line_count = before.lines
    for movement in machine.movements(before, changed, now):
        line_count += 1
        await tx.put(STATEMENT_LINE_KIND, f"{changed.id:019d}{line_count:06d}", dump(movement))
    changed = evolve(changed, version=before.version + 1, lines=line_count)
    due_at, amount = machine.next_change_at(changed), machine.balance(changed)
    await tx.put(INTENT_KIND, str(changed.id), dump(changed), due_at, amount)
    for page in changed.pages[len(before.pages) :]:
        await tx.put(_PAGE_KIND, page.ref, str(changed.id))
    await _emit_event(tx, FakeEvent(f"fev_{changed.id}_{changed.version:06d}", now, changed.id))


async def find_intent_by_page(view: FakeStoreReader, ref: str) -> int | None:
    """The id of the intent of a checkout page; None for an unknown or malformed reference."""
    if not (ref.isascii() and ref.isalnum()):
        return None
    body = await view.get(_PAGE_KIND, ref)
    return None if body is None else int(body)


# Payees -------------------------------------------------------------------------------------


async def find_payee(view: FakeStoreReader, companion_id: int) -> FakePayee | None:
    body = await view.get(_PAYEE_KIND, str(companion_id))
    return None if body is None else load(body, FakePayee)


async def save_payee(
    tx: FakeStoreTransaction, before: FakePayee, changed: FakePayee, now: datetime
) -> None:
    """Save a payee; emit an event if the readiness of an opened account changed."""
    if changed.ready != before.ready:
        changed = evolve(changed, version=before.version + 1)
    await tx.put(_PAYEE_KIND, str(changed.companion_id), dump(changed))
    if changed.ref != before.ref:
        await tx.put(_PAYEE_REF_KIND, changed.ref, str(changed.companion_id))
    if changed.version != before.version and changed.ref:
        name = f"fev_p{changed.companion_id}_{changed.version:06d}"
        await _emit_event(tx, FakeEvent(name, now, payee_ref=changed.ref))


async def find_companion_by_payee_ref(view: FakeStoreReader, payee_ref: str) -> int | None:
    """The companion id of a payee reference; None if it is unknown or malformed."""
    if not (payee_ref.isascii() and payee_ref.replace("_", "").isalnum()):
        return None
    body = await view.get(_PAYEE_REF_KIND, payee_ref)
    return None if body is None else int(body)


# Events -------------------------------------------------------------------------------------


async def _emit_event(tx: FakeStoreTransaction, event: FakeEvent) -> None:
    """Queue a new event for delivery and append it to the log. The log's lock serializes the
    numbers, so a reader that has seen a number can miss none below it."""
    await save_event(tx, event, event.created_at)
    await tx.lock(EVENT_LOG_KIND)
    number = 1 + int(await tx.get(_EVENT_COUNTER_KIND, EVENT_LOG_KIND) or 0)
    await tx.put(_EVENT_COUNTER_KIND, EVENT_LOG_KIND, str(number))
    await tx.put(EVENT_LOG_KIND, f"{number:019d}", dump(event), event.created_at + _EVENT_RETENTION)


async def save_event(tx: FakeStoreTransaction, event: FakeEvent, due_at: datetime) -> None:
    await tx.put(PENDING_EVENT_KIND, event.id, dump(event), due_at)


# Answers and faults -------------------------------------------------------------------------


async def find_stored_answer(
    tx: FakeStoreReader, key: str, wall_now: datetime
) -> StoredAnswer | None:
    body = await tx.get(ANSWER_KIND, key)
    answer = None if body is None else load(body, StoredAnswer)
    is_old = answer is not None and answer.until is not None and answer.until <= wall_now
    return None if is_old else answer


async def store_answer(
    tx: FakeStoreTransaction, key: str, answer: StoredAnswer, wall_now: datetime
) -> None:
    until = wall_now + ANSWER_RETENTION
    await tx.put(ANSWER_KIND, key, dump(evolve(answer, until=until)), until)


async def consume_fault(tx: FakeStoreTransaction, op: str, injector: FaultInjector) -> str:
    """Consume the queued fault for this call, or ask the injector; "" for none."""
    # Without queued faults, calls do not wait for the lock.
    if await tx.get(_FAULTS_KIND, _FAULTS_KIND) is not None:
        pending = await lock_faults(tx)
        kind, remaining = faults.consume(pending, op)
        if remaining != pending:
            await save_faults(tx, remaining)
            return kind
    kind = injector(op)
    return faults.make_fault(op, kind, 1).kind if kind else ""


async def pending_faults(view: FakeStoreReader) -> tuple[InjectedFault, ...]:
    body = await view.get(_FAULTS_KIND, _FAULTS_KIND)
    return () if body is None else load(body, tuple[InjectedFault, ...])


async def lock_faults(tx: FakeStoreTransaction) -> tuple[InjectedFault, ...]:
    await tx.lock(_FAULTS_KIND)
    return await pending_faults(tx)


async def save_faults(tx: FakeStoreTransaction, remaining: tuple[InjectedFault, ...]) -> None:
    if remaining:
        await tx.put(_FAULTS_KIND, _FAULTS_KIND, dump(remaining, tuple[InjectedFault, ...]))
    else:
        await tx.delete(_FAULTS_KIND, _FAULTS_KIND)
