"""What the fake does by itself: time moves its intents on, and its events are brought."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import book as books
from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.book import FakeBook, Reading, Writing
from staffbooking_adapters.fake.charge import LATER
from staffbooking_adapters.fake.faults import EVENT
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

    async def due(view: Reading) -> Sequence[tuple[str, str]]:
        return await view.due(books.INTENT, now)

    while found := await book.read(due):
        for key, _ in found:
            await _move_on(book, int(key), now)


async def _move_on(book: FakeBook, intent_id: int, now: datetime) -> None:
    async def unit(tx: Writing) -> None:
        was = await books.lock_intent(tx, intent_id)
        await books.save_intent(tx, was, machine.at(was, now), now)

    await book.transact(unit)


async def take(book: FakeBook, now: datetime, limit: int) -> list[Sending]:
    """The events that are due, the oldest first; whoever takes them has to bring them."""

    async def due(view: Reading) -> Sequence[tuple[str, str]]:
        return await view.due(books.EVENTS, now)

    async def unit(tx: Writing) -> list[Sending]:
        await tx.lock(books.EVENTS)
        sendings: list[Sending] = []
        behind: list[Sending] = []
        for _, body in (await due(tx))[:limit]:
            event = load(body, Event)
            fault = await books.take_fault(tx, EVENT)
            (behind if fault == "reorder" else sendings).extend(_sendings(event, fault))
            await _put_off(tx, event, fault, now)
        return sendings + behind

    return await book.transact(unit) if await book.read(due) else []


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
