"""What comes due by itself: expiry, completion after 72 hours, payouts (CONTRACT 4)."""

from __future__ import annotations

from datetime import datetime

from staffbooking_core.domain.bookings import Occurrence, TimerKind
from staffbooking_core.domain.bookings import due as due_of
from staffbooking_core.domain.lifecycle import Party, Trigger
from staffbooking_core.errors import StaffbookingError, Unavailable
from staffbooking_core.ports import Lease, Ports, Timer, Writing
from staffbooking_core.usecases import operations, payments
from staffbooking_core.usecases.changes import apply

TRIGGERS = {
    TimerKind.EXPIRE: Trigger.EXPIRE,
    TimerKind.AUTO_COMPLETE: Trigger.AUTO_COMPLETE,
    TimerKind.PAY_OUT: Trigger.RELEASE_PAYOUT,
}

BATCH = 16


async def run_due(ports: Ports, limit: int = BATCH) -> int:
    """Fire timers that are due, the earliest first, each with its own due time as now; how
    many were claimed. A timer that fails is put off, and holds up no other."""
    now, business = ports.clock.wall(), await ports.clock.business()
    lease = Lease(ports.ids.token(), now + ports.policy.lease)

    async def claim(tx: Writing) -> list[Timer]:
        return list(await tx.money.claim_timers(business, now, lease, limit))

    timers = await ports.store.write(claim)
    for timer in timers:
        await _fire(ports, timer, lease, business)
    return len(timers)


async def _fire(ports: Ports, timer: Timer, lease: Lease, business: datetime) -> None:
    async def unit(tx: Writing) -> None:
        booking = await tx.bookings.lock_booking(timer.booking_id)
        due = None if booking is None else due_of(booking, ports.policy)
        if booking is None or due is None or due.kind is not timer.kind:
            return  # Somebody else moved the booking, and with it the timer.
        if due.at > business:  # The policy gives more time now than when the timer was set.
            until = ports.clock.wall() + (due.at - business)
            await tx.money.defer_timer(timer.booking_id, lease, until)
            return
        what = Occurrence(TRIGGERS[timer.kind], Party.SYSTEM, due.at)
        await apply(tx, ports, booking, what)

    try:
        await ports.store.write(unit)
    except Unavailable:
        raise
    except StaffbookingError as error:
        await _put_off(ports, timer, lease)
        await ports.notifier.alert(timer.booking_id, f"timer {timer.kind} failed: {error}")


async def _put_off(ports: Ports, timer: Timer, lease: Lease) -> None:
    until = ports.clock.wall() + payments.LOOK_AGAIN * 2 ** min(timer.attempts, 8)

    async def unit(tx: Writing) -> None:
        await tx.money.defer_timer(timer.booking_id, lease, until)

    await ports.store.write(unit)


async def tell_alerts(ports: Ports, limit: int = BATCH) -> int:
    """Tell the operators of new alerts; how many there were."""

    async def take(tx: Writing) -> list[tuple[int, str]]:
        return list(await tx.money.take_alerts(limit))

    taken = await ports.store.write(take)
    for booking_id, text in taken:
        await ports.notifier.alert(booking_id, text)
    return len(taken)


async def drain(ports: Ports) -> int:
    """Do everything that is due, until nothing new is: for tests and for a clock that
    jumped. Timers fire one by one, so that they keep their order over all bookings, and
    what one brings about is done before the next."""
    done = 0
    while (
        step := await operations.run_due(ports)
        or await payments.deliver_sandbox_events(ports)
        or await payments.follow_nudges(ports)
        or await run_due(ports, 1)
        or await tell_alerts(ports)
    ):
        done += step
    return done
