"""Events of the processor that were lost: caught up with from its own list, and by looking
again at whatever it has not decided yet (PAYMENTS 4).

Both only put nudges into the inbox, by names that are the same for every worker that comes
upon them; what an event that had not been lost has done already is done once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus
from staffbooking_core.domain.payments.processor import ProcessorError, ProcessorEvent
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import inbox

BOOKING_BATCH_SIZE = 500
MAX_LIST_CALLS = 20
"""How often the list is asked on in one go, until its end: then other work has its turn."""
CHECKOUT_GRACE_PERIOD = timedelta(hours=1)
"""For so long after its end a checkout page is still looked at."""
SYNC_CURSOR_NAME = "looks"
"""The name under which it is kept when everything undecided was last looked at."""


async def poll_events(ports: Ports) -> int:
    """Do both where their time has come; how many nudges were new."""
    return await _poll_event_list(ports) + await _enqueue_syncs(ports)


async def _poll_event_list(ports: Ports) -> int:
    name, wall = ports.payments.name, ports.clock.wall()
    async with ports.store.read_view() as view:
        last_cursor = await view.cursors.cursor(name)
    if (
        last_cursor is not None
        and wall < last_cursor[1] + ports.policy.processor_event_poll_interval
    ):
        return 0
    timeout_seconds = ports.policy.processor_timeout.total_seconds()
    cursor, added = None if last_cursor is None else last_cursor[0], 0
    for _ in range(MAX_LIST_CALLS):
        try:
            nudges, next_cursor = await ports.payments.list_events(cursor, timeout_seconds)
        except ProcessorError:
            break  # The time of the last success is what `doctor` and the metrics show.
        added += await inbox.add_events(ports, nudges, (name, next_cursor))
        if next_cursor == cursor:
            break
        cursor = next_cursor
    return added


async def _enqueue_syncs(ports: Ports) -> int:
    """Once in a while: pages that could be paid by now, refunds that could have settled."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        last_cursor = await view.cursors.cursor(SYNC_CURSOR_NAME)
    since = None if last_cursor is None else datetime.fromisoformat(last_cursor[0])
    if since is not None and now < since + ports.policy.open_intent_poll_interval:
        return 0
    added = 0
    async for batch in _unsettled_batches(ports):
        if nudges := [*_sync_events(ports, batch, since, now)]:
            added += await inbox.add_events(ports, nudges)
    await inbox.add_events(ports, (), (SYNC_CURSOR_NAME, now.isoformat()))
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
        refunding = booking.payment_status is PaymentStatus.REFUND_PENDING
        interval = (
            ports.policy.refund_poll_interval
            if refunding
            else ports.policy.open_intent_poll_interval
        )
        period = _period_number(now, interval)
        is_due = since is None or period != _period_number(since, interval)
        if is_due and (refunding or _may_be_paid(booking, now, interval)):
            yield ProcessorEvent(f"look:{booking.id}:{period}", intent_id=booking.id)


def _period_number(at: datetime, interval: timedelta) -> int:
    return int(at.timestamp() // interval.total_seconds())


def _may_be_paid(booking: Booking, now: datetime, settlement_period: timedelta) -> bool:
    """Whether a client may have paid without our knowing: just accepted ones hear of it."""
    intent, accepted_at = booking.intent, booking.accepted_at
    if intent is None or accepted_at is None or intent.checkout_ref is None:
        return False
    return (
        accepted_at + settlement_period <= now < intent.checkout_expires_at + CHECKOUT_GRACE_PERIOD
    )
