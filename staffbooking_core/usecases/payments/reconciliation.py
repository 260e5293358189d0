"""Facts from the processor: nudges come in, a snapshot is taken, `reconcile` applies it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import (
    ProcessorError,
    ProcessorEvent,
    ProcessorRefused,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.snapshots import find_intent_refs, reconcile
from staffbooking_core.errors import Conflict, ConstraintViolated, RuleBroken
from staffbooking_core.ports import Lease, Ports, Transaction
from staffbooking_core.usecases.booking_writes import save_transition
from staffbooking_core.usecases.payments import inbox, payees

SYNC_RETRY_DELAY = timedelta(seconds=5)
EVENT_BATCH_SIZE = 16


async def sync_intent(ports: Ports, intent_id: int, time_limit: timedelta) -> None:
    """Ask the processor all about one intent, and apply what is new. Safe at any time."""
    snapshot = await get_snapshot(ports, intent_id, time_limit)
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> None:
        await apply_snapshot(tx, ports, snapshot, now)

    await ports.store.run_transaction(unit)


async def sync_intent_on_visit(ports: Ports, intent_id: int, time_limit: timedelta) -> None:
    """A look for somebody who waits on a page, at most one every few seconds."""
    name = inbox.visit_event_id(intent_id, ports.clock.wall())
    if await inbox.add_events(ports, [ProcessorEvent(name, intent_id=intent_id)]):
        await sync_intent(ports, intent_id, time_limit)


async def get_snapshot(ports: Ports, intent_id: int, time_limit: timedelta) -> Snapshot:
    """All that the processor knows of one intent; nothing of one that is not ours."""
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking(intent_id)
        operations = await view.operations.operations_of(intent_id)
    if booking is None:
        return Snapshot(intent_id)
    refs = find_intent_refs(booking, operations)
    return await ports.payments.snapshot(refs, time_limit.total_seconds())


async def apply_snapshot(
    tx: Transaction,
    ports: Ports,
    snapshot: Snapshot,
    now: datetime,
    operation_id: int | None = None,
    lease: Lease | None = None,
) -> None:
    """Apply what a snapshot says that is new. With the operation that brought it, only
    while its lease holds: raises Conflict where it was lost."""
    booking = await tx.bookings.lock_booking(snapshot.intent_id)
    if booking is None:
        return
    if operation_id is not None and lease is not None:
        await tx.operations.lock_operation(operation_id, lease)
    operations = await tx.operations.operations_of(booking.id)
    postings = await tx.ledger.postings_of(booking.id)
    for found in reconcile(booking, operations, postings, snapshot, now, ports.policy):
        await save_transition(tx, ports, booking, found.result, now)
        booking = found.result.booking
        if found.operation is not None:
            await tx.operations.save_operation(found.operation)


async def receive_webhook(ports: Ports, headers: Mapping[str, str], body: bytes) -> int:
    """Take an event of the processor into the inbox; how many nudges were new.

    Raises BadSignature. Once this returns, the event is not lost.
    """
    received = ports.payments.parse_webhook(headers, body, ports.clock.wall())
    return await inbox.add_events(ports, received)


async def process_events(ports: Ports, limit: int = EVENT_BATCH_SIZE) -> int:
    """Look at what the inbox points to; how many events were taken up."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def claim(tx: Transaction) -> list[tuple[str, ProcessorEvent]]:
        return list(await tx.inbox.claim_events(now, lease, limit))

    claimed = await ports.store.run_transaction(claim)
    for provider, nudge in claimed:
        await _process_event(ports, provider, nudge, lease)
    return len(claimed)


async def _process_event(ports: Ports, provider: str, event: ProcessorEvent, lease: Lease) -> None:
    retry_at = None
    try:
        await _sync_event_subject(ports, event)
    except (ProcessorRefused, RuleBroken, ConstraintViolated) as error:
        # What can't be seen or booked must not keep others from being looked at.
        text = f"event {event.event_id} could not be booked: {error}"
        await ports.notifier.alert_operators(event.intent_id or 0, text)
    except (ProcessorError, Conflict):
        retry_at = ports.clock.wall() + SYNC_RETRY_DELAY

    async def unit(tx: Transaction) -> None:
        await tx.inbox.finish_event(provider, event.event_id, lease, retry_at)

    try:
        await ports.store.run_transaction(unit)
    except Conflict:
        return  # The claim was lost; looking once more does no harm.


async def _sync_event_subject(ports: Ports, event: ProcessorEvent) -> None:
    time_limit, intent_id = ports.policy.processor_timeout, event.intent_id
    if event.payee_ref is not None:
        await payees.sync_payee(ports, event.payee_ref, time_limit)
    if event.payment_ref is not None:
        intent_id = await ports.payments.find_intent(event.payment_ref, time_limit.total_seconds())
    if intent_id is not None:
        await sync_intent(ports, intent_id, time_limit)


async def deliver_sandbox_events(ports: Ports, limit: int = EVENT_BATCH_SIZE) -> int:
    """Bring the pretended processor's due events in, by the same way as real ones, and
    follow them at once; how many there were."""
    if ports.sandbox is None:
        return 0
    events = await ports.sandbox.take_due_events(limit)
    for headers, body in events:
        try:
            await receive_webhook(ports, headers, body)
        except ProcessorError:
            continue  # A forged one, as a fault: it is refused, as it would be by HTTP.
    if events:
        await process_events(ports, limit)
    return len(events)
