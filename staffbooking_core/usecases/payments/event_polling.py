"""Events of the processor that were lost: caught up with from its own list, and by looking
again at whatever it has not decided yet (PAYMENTS 4).

Both only put nudges into the inbox, by names that are the same for every worker that comes
upon them; what an event that had not been lost has done already is done once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus
from staffbooking_core.domain.payments.processor import Nudge, PaymentsError
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import inbox

BATCH = 500
CALLS = 20
"""How often the list is asked on in one go, until its end: then other work has its turn."""
LINGER = timedelta(hours=1)
"""For so long after its end a checkout page is still looked at."""
LOOKS = "looks"
"""The name under which it is kept when everything undecided was last looked at."""


async def run(ports: Ports) -> int:
    """Do both where their time has come; how many nudges were new."""
    return await _list_events(ports) + await _look_again(ports)


async def _list_events(ports: Ports) -> int:
    name, wall = ports.payments.name, ports.clock.wall()
    async with ports.store.reading() as view:
        last = await view.money.cursor(name)
    if last is not None and wall < last[1] + ports.policy.catch_up_every:
        return 0
    within = ports.policy.processor_deadline.total_seconds()
    cursor, added = None if last is None else last[0], 0
    for _ in range(CALLS):
        try:
            nudges, reached = await ports.payments.changes(cursor, within)
        except PaymentsError:
            break  # The time of the last success is what `doctor` and the metrics show.
        added += await inbox.note(ports, nudges, (name, reached))
        if reached == cursor:
            break
        cursor = reached
    return added


async def _look_again(ports: Ports) -> int:
    """Once in a while: pages that could be paid by now, refunds that could have settled."""
    now = await ports.clock.business()
    async with ports.store.reading() as view:
        last = await view.money.cursor(LOOKS)
    since = None if last is None else datetime.fromisoformat(last[0])
    if since is not None and now < since + ports.policy.look_at_open_every:
        return 0
    added = 0
    async for batch in _unsettled(ports):
        if nudges := [*_looks(ports, batch, since, now)]:
            added += await inbox.note(ports, nudges)
    await inbox.note(ports, (), (LOOKS, now.isoformat()))
    return added


async def _unsettled(ports: Ports) -> AsyncIterator[Sequence[Booking]]:
    after_id = 0
    while True:
        async with ports.store.reading() as view:
            batch = await view.money.unsettled(after_id, BATCH)
        if not batch:
            return
        yield batch
        after_id = batch[-1].id


def _looks(
    ports: Ports, bookings: Sequence[Booking], since: datetime | None, now: datetime
) -> Iterator[Nudge]:
    for booking in bookings:
        refunding = booking.payment_status is PaymentStatus.REFUND_PENDING
        every = ports.policy.look_at_refunds_every if refunding else ports.policy.look_at_open_every
        turn = _turn(now, every)
        is_its_turn = since is None or turn != _turn(since, every)
        if is_its_turn and (refunding or _may_be_paid(booking, now, every)):
            yield Nudge(f"look:{booking.id}:{turn}", intent_id=booking.id)


def _turn(at: datetime, every: timedelta) -> int:
    return int(at.timestamp() // every.total_seconds())


def _may_be_paid(booking: Booking, now: datetime, settled_in: timedelta) -> bool:
    """Whether a client may have paid without our knowing: just accepted ones hear of it."""
    intent, accepted_at = booking.intent, booking.accepted_at
    if intent is None or accepted_at is None or intent.checkout_ref is None:
        return False
    return accepted_at + settled_in <= now < intent.checkout_expires_at + LINGER
