"""What the fake does by itself: time moves its intents on, old things are forgotten, and its
events are brought."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from attrs import evolve, frozen

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import book as books
from staffbooking_adapters.fake.book import FakeBook, Reading, Writing
from staffbooking_adapters.fake.charge import LATER
from staffbooking_adapters.fake.faults import EVENT, Chance
from staffbooking_adapters.fake.signing import Event

AGAIN: Final = timedelta(seconds=30)
"""Each event is brought twice, this far apart: who took it first may have crashed before
it was safe. The inbox knows the second one by its id."""


@frozen
class Sending:
    """An event on its way, perhaps to be signed with a wrong secret."""

    event: Event
    forged: bool = False


async def move_on(book: FakeBook, now: datetime) -> None:
    """Write down what time alone has changed: lapsed pages, refunds that ended."""
    while found := await book.read(lambda view: view.due(books.INTENT, now)):
        for key, _ in found:
            await _move_on(book, int(key), now)


async def _move_on(book: FakeBook, intent_id: int, now: datetime) -> None:
    async def unit(tx: Writing) -> None:
        await tx.lock(books.lock_of_intent(intent_id))
        await books.change(tx, intent_id, now, lambda intent: (intent, None))

    await book.transact(unit)


async def forget(book: FakeBook, now: datetime, wall: datetime) -> None:
    """Delete events that are listed no longer, and answers whose keys are too old."""
    for kind, at in ((books.LOG, now), (books.ANSWER, wall)):
        if await book.read(partial(_due, kind=kind, at=at)):
            await book.transact(partial(_forget, kind=kind, at=at))


async def _due(view: Reading, kind: str, at: datetime) -> Sequence[tuple[str, str]]:
    return await view.due(kind, at)


async def _forget(tx: Writing, kind: str, at: datetime) -> None:
    await tx.forget(kind, at)


async def take(book: FakeBook, now: datetime, limit: int, chance: Chance) -> list[Sending]:
    """The events that are due, the oldest first; whoever takes them has to bring them."""

    async def unit(tx: Writing) -> list[Sending]:
        await tx.lock(books.EVENTS)
        sendings: list[Sending] = []
        behind: list[Sending] = []
        for _, body in (await _due(tx, books.EVENTS, now))[:limit]:
            event = load(body, Event)
            fault = await books.take_fault(tx, EVENT, chance)
            (behind if fault == "reorder" else sendings).extend(_sendings(event, fault))
            await _put_off(tx, event, fault, now)
        return sendings + behind

    due = await book.read(partial(_due, kind=books.EVENTS, at=now))
    return await book.transact(unit) if due else []


async def was_taken(view: Reading, subject: int | str, since: datetime, now: datetime) -> bool:
    """Whether an event of an intent or a payee was taken to be brought, and not lost."""
    events = [load(body, Event) for _, body in await view.due(books.EVENTS, now + AGAIN)]
    return any(
        event.sent and event.created_at >= since and subject in (event.intent_id, event.payee_ref)
        for event in events
    )


def _sendings(event: Event, fault: str) -> list[Sending]:
    match fault:
        case "drop" | "delay":
            return []
        case "duplicate":
            return [Sending(event), Sending(event)]
        case "bad_signature":
            return [Sending(event, forged=True)]
    return [Sending(event)]


async def _put_off(tx: Writing, event: Event, fault: str, now: datetime) -> None:
    """When the event comes again, or that it never does."""
    if fault == "delay":
        await books.save_event(tx, event, now + LATER)
    elif event.sent or fault in ("drop", "bad_signature"):
        await tx.delete(books.EVENTS, event.id)
    else:
        await books.save_event(tx, evolve(event, sent=True), now + AGAIN)
