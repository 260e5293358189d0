"""The inbox of processor events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import and_, bindparam, false, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.leases import (
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.payments import processor_inbox
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.ports import Lease

IS_EVENT_DUE = and_(processor_inbox.c.done == false(), processor_inbox.c.next_at <= NOW_PARAM)
_EVENT_FIELDS = "event_id intent_id payment_ref payee_ref".split()


@cache
def claim_events_statement(limit: int) -> Statement:
    inbox = processor_inbox.c
    return claim_with_lease(
        processor_inbox,
        IS_EVENT_DUE,
        (inbox.next_at, inbox.id),
        limit,
        returning=(
            *(inbox.received_at, inbox.id, inbox.provider),
            *(inbox[name] for name in _EVENT_FIELDS),
        ),
    )


ADD_EVENT = Statement(
    upsert(processor_inbox)
    .values(
        **{name: bindparam(name) for name in ("provider", *_EVENT_FIELDS)},
        received_at=NOW_PARAM,
        next_at=NOW_PARAM,
        done=False,
    )
    .on_conflict_do_nothing(index_elements=["provider", "event_id"])
)
_UPDATE_EVENT = update(processor_inbox).where(
    processor_inbox.c.provider == bindparam("from_provider"),
    processor_inbox.c.event_id == bindparam("event"),
    is_held_by_caller(processor_inbox),
)
FINISH_EVENT = Statement(_UPDATE_EVENT.values(done=True, **RELEASED_LEASE_VALUES))
RETRY_EVENT = Statement(
    _UPDATE_EVENT.values(next_at=bindparam("at", type_=Instant), **RELEASED_LEASE_VALUES)
)
GET_UNFINISHED_EVENT = Statement(
    select(processor_inbox.c.id)
    .where(
        processor_inbox.c.intent_id == bindparam("intent_id"),
        processor_inbox.c.done == false(),
        processor_inbox.c.received_at <= bindparam("until", type_=Instant),
    )
    .limit(1)
)


@frozen
class InboxWriter:
    """Adds, claims and finishes processor events."""

    connection: Connection

    async def add_event(self, provider: str, event: ProcessorEvent, now: datetime) -> bool:
        event_params = {name: getattr(event, name) for name in _EVENT_FIELDS}
        return bool(
            await self.connection.execute(ADD_EVENT, provider=provider, now=now, **event_params)
        )

    async def claim_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        rows = await self.connection.fetch_all(
            claim_events_statement(min(limit, MAX_CLAIM_SIZE)),
            now=now,
            **lease_parameters(lease),
        )
        ordered = sorted(rows, key=lambda row: row[:2])
        return [(provider, ProcessorEvent(*fields)) for _, _, provider, *fields in ordered]

    async def finish_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        held = {"from_provider": provider, "event": event_id, "held_by": lease.token}
        if retry_at is None:
            await self.connection.execute(FINISH_EVENT, **held)
        else:
            await self.connection.execute(RETRY_EVENT, **held, at=retry_at)

    async def has_unfinished_event(self, intent_id: int, until: datetime) -> bool:
        found = await self.connection.fetch_one(
            GET_UNFINISHED_EVENT, intent_id=intent_id, until=until
        )
        return found is not None
