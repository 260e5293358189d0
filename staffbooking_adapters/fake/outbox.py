"""The fake processor's background work: changes due by time, deletion of expired documents, and
due events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from attrs import evolve, frozen

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import documents
from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD
from staffbooking_adapters.fake.documents import (
    FakeDocumentStore,
    FakeStoreReader,
    FakeStoreTransaction,
)
from staffbooking_adapters.fake.faults import EVENT_OP, FaultInjector
from staffbooking_adapters.fake.signing import FakeEvent, encode_body, sign_headers

_REDELIVERY_INTERVAL: Final = timedelta(seconds=10)
"""Each event is delivered twice, this far apart, because the first receiver may have crashed
before it stored the event. The inbox detects the duplicate by the event's id."""


@frozen
class OutgoingEvent:
    """An event to deliver, optionally signed with a wrong secret."""

    event: FakeEvent
    has_bad_signature: bool = False

    def sign(self, secret: bytes, wall_now: datetime) -> tuple[Mapping[str, str], bytes]:
        """The event's headers, signature included, and its body."""
        body = encode_body(self.event)
        used_secret = b"forged:" + secret if self.has_bad_signature else secret
        return sign_headers(body, used_secret, wall_now), body


async def advance_due_intents(store: FakeDocumentStore, now: datetime) -> None:
    """Save the intents that time alone has changed: expired pages, ended refunds, chargebacks."""
    while found := await store.read(lambda view: view.due(documents.INTENT_KIND, now)):
        for key, _ in found:
            await documents.lock_and_change_intent(
                store, int(key), now, lambda intent: (intent, None)
            )


async def delete_expired(store: FakeDocumentStore, now: datetime, wall_now: datetime) -> None:
    """Delete expired log events (business time) and expired stored answers (wall time)."""
    for kind, at in ((documents.EVENT_LOG_KIND, now), (documents.ANSWER_KIND, wall_now)):
        if await store.read(partial(_due_documents, kind=kind, at=at)):
            await store.transact(partial(_delete_due, kind=kind, at=at))


async def _due_documents(
    view: FakeStoreReader, kind: str, at: datetime
) -> Sequence[tuple[str, str]]:
    return await view.due(kind, at)


async def _delete_due(tx: FakeStoreTransaction, kind: str, at: datetime) -> None:
    await tx.delete_due(kind, at)


async def take_due_events(
    store: FakeDocumentStore, now: datetime, limit: int, injector: FaultInjector
) -> list[OutgoingEvent]:
    """Take at most `limit` due events, the oldest first, and reschedule or delete them. The caller
    delivers them."""

    async def unit(tx: FakeStoreTransaction) -> list[OutgoingEvent]:
        await tx.lock(documents.PENDING_EVENT_KIND)
        in_order: list[OutgoingEvent] = []
        delayed: list[OutgoingEvent] = []
        for _, body in (await _due_documents(tx, documents.PENDING_EVENT_KIND, now))[:limit]:
            event = load(body, FakeEvent)
            fault = await documents.consume_fault(tx, EVENT_OP, injector)
            deliveries = delayed if fault == "reorder" else in_order
            deliveries.extend(_outgoing_events(event, fault))
            await _reschedule(tx, event, fault, now)
        return in_order + delayed

    due = await store.read(partial(_due_documents, kind=documents.PENDING_EVENT_KIND, at=now))
    return await store.transact(unit) if due else []


async def was_delivered(
    view: FakeStoreReader, subject: int | str, since: datetime, now: datetime
) -> bool:
    """Whether an event of this intent or payee, created since `since`, was delivered once and
    awaits its second delivery."""
    events = [
        load(body, FakeEvent)
        for _, body in await view.due(documents.PENDING_EVENT_KIND, now + _REDELIVERY_INTERVAL)
    ]
    return any(
        event.sent and event.created_at >= since and subject in (event.intent_id, event.payee_ref)
        for event in events
    )


def _outgoing_events(event: FakeEvent, fault: str) -> list[OutgoingEvent]:
    match fault:
        case "drop" | "delay":
            return []
        case "duplicate":
            return [OutgoingEvent(event), OutgoingEvent(event)]
        case "bad_signature":
            return [OutgoingEvent(event, has_bad_signature=True)]
    return [OutgoingEvent(event)]


async def _reschedule(
    tx: FakeStoreTransaction, event: FakeEvent, fault: str, now: datetime
) -> None:
    """Set the event's next delivery, or delete it after its last one."""
    if fault == "delay":
        await documents.save_event(tx, event, now + DELAYED_EFFECT_PERIOD)
    elif event.sent or fault in ("drop", "bad_signature"):
        await tx.delete(documents.PENDING_EVENT_KIND, event.id)
    else:
        await documents.save_event(tx, evolve(event, sent=True), now + _REDELIVERY_INTERVAL)
