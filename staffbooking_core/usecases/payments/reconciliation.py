"""Facts from the processor: nudges come in, a snapshot is taken, `reconcile` applies it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import Nudge, PaymentsError, Refused, Snapshot
from staffbooking_core.domain.reconciliation.snapshots import reconcile, refs_of
from staffbooking_core.errors import Conflict, ConstraintViolated, RuleBroken
from staffbooking_core.ports import Lease, Ports, Writing
from staffbooking_core.usecases.booking_writes import save
from staffbooking_core.usecases.payments import inbox, payees

LOOK_AGAIN = timedelta(seconds=5)
BATCH = 16


async def look(ports: Ports, intent_id: int, within: timedelta) -> None:
    """Ask the processor all about one intent, and apply what is new. Safe at any time."""
    snapshot = await snapshot_of(ports, intent_id, within)
    now = await ports.clock.business()

    async def unit(tx: Writing) -> None:
        await apply_snapshot(tx, ports, snapshot, now)

    await ports.store.write(unit)


async def look_on_visit(ports: Ports, intent_id: int, within: timedelta) -> None:
    """A look for somebody who waits on a page, at most one every few seconds."""
    name = inbox.visit(intent_id, ports.clock.wall())
    if await inbox.note(ports, [Nudge(name, intent_id=intent_id)]):
        await look(ports, intent_id, within)


async def snapshot_of(ports: Ports, intent_id: int, within: timedelta) -> Snapshot:
    """All that the processor knows of one intent; nothing of one that is not ours."""
    async with ports.store.reading() as view:
        booking = await view.bookings.booking(intent_id)
        operations = await view.money.operations_of(intent_id)
    if booking is None:
        return Snapshot(intent_id)
    refs = refs_of(booking, operations)
    return await ports.payments.snapshot(refs, within.total_seconds())


async def apply_snapshot(
    tx: Writing,
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
        await tx.money.lock_operation(operation_id, lease)
    operations = await tx.money.operations_of(booking.id)
    postings = await tx.money.postings_of(booking.id)
    for found in reconcile(booking, operations, postings, snapshot, now, ports.policy):
        await save(tx, ports, booking, found.step, now)
        booking = found.step.booking
        if found.operation is not None:
            await tx.money.save_operation(found.operation)


async def receive(ports: Ports, headers: Mapping[str, str], body: bytes) -> int:
    """Take an event of the processor into the inbox; how many nudges were new.

    Raises BadSignature. Once this returns, the event is not lost.
    """
    nudges = ports.payments.parse_webhook(headers, body, ports.clock.wall())
    return await inbox.note(ports, nudges)


async def follow_nudges(ports: Ports, limit: int = BATCH) -> int:
    """Look at what the inbox points to; how many events were taken up."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease)

    async def claim(tx: Writing) -> list[tuple[str, Nudge]]:
        return list(await tx.money.claim_nudges(now, lease, limit))

    claimed = await ports.store.write(claim)
    for provider, nudge in claimed:
        await _follow(ports, provider, nudge, lease)
    return len(claimed)


async def _follow(ports: Ports, provider: str, nudge: Nudge, lease: Lease) -> None:
    retry_at = None
    try:
        await _look_where_it_says(ports, nudge)
    except (Refused, RuleBroken, ConstraintViolated) as error:
        # What can't be seen or booked must not keep others from being looked at.
        text = f"event {nudge.event_id} could not be booked: {error}"
        await ports.notifier.alert(nudge.intent_id or 0, text)
    except (PaymentsError, Conflict):
        retry_at = ports.clock.wall() + LOOK_AGAIN

    async def unit(tx: Writing) -> None:
        await tx.money.finish_nudge(provider, nudge.event_id, lease, retry_at)

    try:
        await ports.store.write(unit)
    except Conflict:
        return  # The claim was lost; looking once more does no harm.


async def _look_where_it_says(ports: Ports, nudge: Nudge) -> None:
    within, intent_id = ports.policy.processor_deadline, nudge.intent_id
    if nudge.payee_ref is not None:
        await payees.look(ports, nudge.payee_ref, within)
    if nudge.payment_ref is not None:
        intent_id = await ports.payments.find_intent(nudge.payment_ref, within.total_seconds())
    if intent_id is not None:
        await look(ports, intent_id, within)


async def deliver_sandbox_events(ports: Ports, limit: int = BATCH) -> int:
    """Bring the pretended processor's due events in, by the same way as real ones, and
    follow them at once; how many there were."""
    if ports.sandbox is None:
        return 0
    events = await ports.sandbox.due_events(limit)
    for headers, body in events:
        try:
            await receive(ports, headers, body)
        except PaymentsError:
            continue  # A forged one, as a fault: it is refused, as it would be by HTTP.
    if events:
        await follow_nudges(ports, limit)
    return len(events)
