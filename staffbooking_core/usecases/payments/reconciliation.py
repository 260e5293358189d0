"""Reconciliation of bookings with the payment processor: events name a subject, a snapshot of it is
taken, and `reconcile` applies the snapshot (decision 0008).

1. `receive_webhook` and `event_polling` add events to the inbox.
2. `process_event` claims an event and syncs its subject.
3. `sync_intent` reads a snapshot outside of transactions; `apply_snapshot` locks the booking and
   saves what is new in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from attrs import evolve

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.processor import (
    ProcessorError,
    ProcessorEvent,
    ProcessorRefused,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.snapshots import find_intent_refs, reconcile
from staffbooking_core.domain.reconciliation.state import record_fact
from staffbooking_core.errors import Conflict, ConstraintViolated, RuleBroken
from staffbooking_core.ports import Lease, Ports, Transaction
from staffbooking_core.usecases.booking_writes import save_transition, to_booking_write
from staffbooking_core.usecases.payments import inbox, payees
from staffbooking_core.validation import validated

__all__ = [
    "apply_snapshot",
    "deliver_sandbox_events",
    "get_snapshot",
    "process_event",
    "receive_webhook",
    "sync_intent",
    "sync_intent_on_visit",
]

SYNC_RETRY_DELAY = timedelta(seconds=5)
_SANDBOX_EVENT_BATCH_SIZE = 16


@validated
async def sync_intent(ports: Ports, intent_id: int, time_limit: timedelta) -> None:
    """Read one intent from the processor and apply what is new. Repeatable at any time.

    Raises ProcessorError, and RuleBroken or ConstraintViolated where the facts cannot be booked.
    """
    snapshot, before = await get_snapshot(ports, intent_id, time_limit)
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> None:
        await apply_snapshot(tx, ports, snapshot, now, before=before)

    await ports.store.run_transaction(unit)


@validated
async def sync_intent_on_visit(ports: Ports, intent_id: int, time_limit: timedelta) -> None:
    """`sync_intent` for a user who waits on a page, at most once in 5 seconds."""
    name = inbox.visit_event_id(intent_id, ports.clock.wall())
    if await inbox.add_events(ports, [ProcessorEvent(name, intent_id=intent_id)]):
        await sync_intent(ports, intent_id, time_limit)


@validated
async def get_snapshot(
    ports: Ports, intent_id: int, time_limit: timedelta
) -> tuple[Snapshot, Booking | None]:
    """The processor's state of one intent, and its booking as it was before the processor was
    asked; an empty snapshot and None for an unknown intent. Raises ProcessorError."""
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking(intent_id)
        operations = await view.operations.operations_of(intent_id)
    if booking is None:
        return Snapshot(intent_id), None
    refs = find_intent_refs(booking, operations)
    return await ports.payments.snapshot(refs, time_limit.total_seconds()), booking


async def apply_snapshot(
    tx: Transaction,
    ports: Ports,
    snapshot: Snapshot,
    now: datetime,
    operation_id: int | None = None,
    lease: Lease | None = None,
    before: Booking | None = None,
) -> None:
    """Apply the new facts of a snapshot. Locks the booking, then the operation that brought the
    snapshot, if any.

    `before` is the booking as it was before the snapshot was taken. Where it has changed since, a
    newer snapshot may have been applied meanwhile. A verdict of this one may be stale then, since
    verdicts change, and change back: it is left out, and an event in the inbox orders a new
    snapshot. Therefore a snapshot with a chargeback makes a new revision of the booking, also if it
    tells nothing new.

    Raises Conflict where the operation's lease was lost.
    """
    booking = await tx.bookings.lock_booking(snapshot.intent_id)
    if booking is None:
        return
    if operation_id is not None and lease is not None:
        await tx.operations.lock_operation(operation_id, lease)
    if snapshot.chargebacks and before is not None and before.revision != booking.revision:
        snapshot = evolve(snapshot, chargebacks=())
        again = ProcessorEvent(f"stale:{booking.id}:{booking.revision}", intent_id=booking.id)
        await tx.inbox.add_event(ports.payments.name, again, ports.clock.wall())
    operations = await tx.operations.operations_of(booking.id)
    postings = await tx.ledger.postings_of(booking.id)
    known_revision = booking.revision
    for found in reconcile(booking, operations, postings, snapshot, now, ports.policy):
        booking = await save_transition(tx, ports, booking, found.result, now)
        if found.operation is not None:
            await tx.operations.save_operation(found.operation)
    if snapshot.chargebacks and booking.revision == known_revision:
        write = to_booking_write(ports, booking, record_fact(booking), now)
        await tx.bookings.save_booking(write)


@validated
async def receive_webhook(ports: Ports, headers: Mapping[str, str], body: bytes) -> int:
    """Verify an event of the processor and add it to the inbox; returns the number of new events.
    The event is stored when this returns.

    Raises BadEventSignature.
    """
    received = ports.payments.parse_webhook(headers, body, ports.clock.wall())
    return await inbox.add_events(ports, received)


async def process_event(ports: Ports) -> int:
    """Claim the earliest due event of the inbox and sync its subject; returns 1 if there was one,
    else 0. An event whose facts cannot be booked is finished with an alert, so that it does not
    block others; one that failed otherwise is retried after SYNC_RETRY_DELAY.

    Claims one at a time: a sync takes up to `policy.processor_timeout`, which is nearly the lease.
    """
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def claim(tx: Transaction) -> list[tuple[str, ProcessorEvent]]:
        return list(await tx.inbox.claim_events(now, lease, 1))

    claimed = await ports.store.run_transaction(claim)
    for provider, event in claimed:
        await _sync_claimed_event(ports, provider, event, lease)
    return len(claimed)


async def _sync_claimed_event(
    ports: Ports, provider: str, event: ProcessorEvent, lease: Lease
) -> None:
    retry_at = None
    try:
        await _sync_event_subject(ports, event)
    except (ProcessorRefused, RuleBroken, ConstraintViolated) as error:
        # An event that cannot be processed must not block others.
        text = f"event {event.event_id} could not be booked: {error}"
        await ports.notifier.alert_operators(event.intent_id or 0, text)
    except (ProcessorError, Conflict):
        retry_at = ports.clock.wall() + SYNC_RETRY_DELAY

    async def unit(tx: Transaction) -> None:
        await tx.inbox.finish_event(provider, event.event_id, lease, retry_at)

    try:
        await ports.store.run_transaction(unit)
    except Conflict:
        return  # The claim was lost: syncing once more does no harm.


async def _sync_event_subject(ports: Ports, event: ProcessorEvent) -> None:
    time_limit, intent_id = ports.policy.processor_timeout, event.intent_id
    if event.payee_ref is not None:
        await payees.sync_payee(ports, event.payee_ref, time_limit)
    if event.payment_ref is not None:
        intent_id = await ports.payments.find_intent(event.payment_ref, time_limit.total_seconds())
    if intent_id is not None:
        await sync_intent(ports, intent_id, time_limit)


@validated
async def deliver_sandbox_events(ports: Ports, limit: int = _SANDBOX_EVENT_BATCH_SIZE) -> int:
    """Deliver due events of the fake processor in the same way as real ones, and process them at
    once; returns their number. Returns 0 without a sandbox. `limit`: 16 events by default."""
    if ports.sandbox is None:
        return 0
    events = await ports.sandbox.take_due_events(limit)
    for headers, body in events:
        try:
            await receive_webhook(ports, headers, body)
        except ProcessorError:
            continue  # A forged event (injected fault) is refused, as over HTTP.
    for _ in events:
        await process_event(ports)
    return len(events)
