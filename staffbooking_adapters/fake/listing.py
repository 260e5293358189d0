"""The fake processor's lists: the events after a cursor, and the statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import documents, outbox
from staffbooking_adapters.fake.calls import store_errors_as_unknown
from staffbooking_adapters.fake.documents import FakeDocumentStore
from staffbooking_adapters.fake.signing import FakeEvent
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.ports import Clock

_EVENT_PAGE_SIZE: Final = 100
"""Maximum number of events per call."""


async def list_events(
    store: FakeDocumentStore, clock: Clock, cursor: str | None
) -> tuple[Sequence[ProcessorEvent], str]:
    """The next page of the event log and its cursor. At the end of the log the page is empty and
    the cursor is the same. The log keeps delivered and lost events for 30 days."""
    await outbox.advance_due_intents(store, await clock.business())
    beyond = await store.read(lambda view: view.after(documents.EVENT_LOG_KIND, cursor or ""))
    page = beyond[:_EVENT_PAGE_SIZE]
    events = [load(body, FakeEvent).processor_event for _, body in page]
    return events, page[-1][0] if page else cursor or ""


async def statement(store: FakeDocumentStore, clock: Clock) -> AsyncIterator[Movement]:
    """Every movement of the balance, by intent; their sum is the balance. Raises OutcomeUnknown if
    the store is unavailable."""
    with store_errors_as_unknown():
        await outbox.advance_due_intents(store, await clock.business())
    page = await _statement_page(store, "")
    while page:
        for _, body in page:
            yield load(body, Movement)
        page = await _statement_page(store, page[-1][0])


async def _statement_page(store: FakeDocumentStore, key: str) -> Sequence[tuple[str, str]]:
    with store_errors_as_unknown():
        return await store.read(lambda view: view.after(documents.STATEMENT_LINE_KIND, key))
