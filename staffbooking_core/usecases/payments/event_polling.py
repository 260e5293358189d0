"""Recovery of lost processor events: polls the processor's event list, and syncs intents that it
has not decided yet (decision 0008).

Both add events to the inbox under names that all workers share, so that each is added once. An
event that was not lost has no second effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    ProcessorError,
    ProcessorEvent,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import inbox

BOOKING_BATCH_SIZE = 500
_MAX_LIST_CALLS = 20
"""Maximum calls of the list per poll, so that other work gets its turn."""
_CHECKOUT_GRACE_PERIOD = timedelta(hours=1)
"""How long an expired checkout page is still synced."""
_SYNC_CURSOR_NAME = "looks"
"""Name of the cursor with the time of the last sync of undecided intents."""


async def poll_events(ports: Ports) -> int:
    """Poll the event list and sync undecided intents, each if its interval has passed; returns the
    number of new events. A processor that is unavailable is tried again next time."""
    interval = ports.policy.processor_event_poll_interval
    return await poll_event_list(ports, interval) + await _enqueue_syncs(ports)


async def poll_event_list(ports: Ports, interval: timedelta = timedelta()) -> int:
    """Poll the event list if the interval has passed; returns the number of new events.

    They may be as old as the last poll, and count as such: a booking whose payment is among them
    does not expire before that is booked.
    """
    name, wall = ports.payments.name, ports.clock.wall()
    async with ports.store.read_view() as view:
        last_cursor = await view.cursors.cursor(name)
    if last_cursor is not None and wall < last_cursor[1] + interval:
        return 0
    timeout_seconds = ports.policy.processor_timeout.total_seconds()
    cursor, came_at = (None, None) if last_cursor is None else last_cursor
    added = 0
    for _ in range(_MAX_LIST_CALLS):
        try:
            events, next_cursor = await ports.payments.list_events(cursor, timeout_seconds)
        except ProcessorError:
            break  # `doctor` and the metrics show the cursor's time: the last success.
        added += await inbox.add_events(ports, events, (name, next_cursor), came_at)
        if next_cursor == cursor:
            break
        cursor = next_cursor
    return added


async def _enqueue_syncs(ports: Ports) -> int:
    """Enqueue intents whose page may be paid, whose refund may be settled, or whose chargeback may
    be decided by now: the processor forgets its events, so the list alone would not do."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        last_cursor = await view.cursors.cursor(_SYNC_CURSOR_NAME)
    since = None if last_cursor is None else datetime.fromisoformat(last_cursor[0])
    if since is not None and now < since + ports.policy.open_intent_poll_interval:
        return 0
    added = 0
    async for batch in _unsettled_batches(ports):
        if events := [*_sync_events(ports, batch, since, now)]:
            added += await inbox.add_events(ports, events)
    await inbox.add_events(ports, (), (_SYNC_CURSOR_NAME, now.isoformat()))
    return added


async def _unsettled_batches(ports: Ports) -> AsyncIterator[Sequence[Booking]]:
    after_id = 0
    while True:
        async with ports.store.read_view() as view:
            batch = await view.bookings.unsettled_bookings(after_id, BOOKING_BATCH_SIZE)
        if not batch:
            return
        yield batch
        after_id = batch[-1].id


def _sync_events(
    ports: Ports, bookings: Sequence[Booking], since: datetime | None, now: datetime
) -> Iterator[ProcessorEvent]:
    for booking in bookings:
        is_slow = (
            booking.payment_status is PaymentStatus.REFUND_PENDING
            or booking.chargeback_status is ChargebackStatus.OPEN
        )
        interval = (
            ports.policy.refund_poll_interval if is_slow else ports.policy.open_intent_poll_interval
        )
        period = _period_number(now, interval)
        is_due = since is None or period != _period_number(since, interval)
        if is_due and (is_slow or _may_be_paid(booking, now, interval)):
            yield ProcessorEvent(f"look:{booking.id}:{period}", intent_id=booking.id)


def _period_number(at: datetime, interval: timedelta) -> int:
    return int(at.timestamp() // interval.total_seconds())


def _may_be_paid(booking: Booking, now: datetime, settlement_period: timedelta) -> bool:
    """Whether a payment may have been missed. Just accepted bookings are left to events."""
    intent, accepted_at = booking.intent, booking.accepted_at
    if intent is None or accepted_at is None or intent.checkout_ref is None:
        return False
    return (
        accepted_at + settlement_period <= now < intent.checkout_expires_at + _CHECKOUT_GRACE_PERIOD
    )
