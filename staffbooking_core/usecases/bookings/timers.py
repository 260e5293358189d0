"""What comes due by itself: expiry, completion after 72 hours, payouts (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from staffbooking_core.domain.bookings.booking import Booking, Occurrence, TimerKind, due as due_of
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.reconciliation import debts as reconciliation_debts
from staffbooking_core.domain.reconciliation.debts import Debt
from staffbooking_core.errors import StaffbookingError, Unavailable
from staffbooking_core.ports import Lease, Ports, Timer, Writing
from staffbooking_core.usecases.booking_writes import apply, to_change
from staffbooking_core.usecases.messaging import offline_notifications
from staffbooking_core.usecases.notifications import notifications
from staffbooking_core.usecases.payments import event_polling, operations, payees, reconciliation
from staffbooking_core.usecases.webhooks import deliveries

TRIGGERS = {
    TimerKind.EXPIRE: Trigger.EXPIRE,
    TimerKind.AUTO_COMPLETE: Trigger.AUTO_COMPLETE,
    TimerKind.PAY_OUT: Trigger.RELEASE_PAYOUT,
    TimerKind.PAYOUT_ALARM: Trigger.PAYOUT_ALARM,
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
        debts = await _debts(tx, timer)
        booking = await tx.bookings.lock_booking(timer.booking_id)
        due = None if booking is None else due_of(booking, ports.policy)
        if booking is None or due is None or due.kind is not timer.kind:
            return  # Somebody else moved the booking, and with it the timer.
        if due.at > business:  # The policy gives more time now than when the timer was set.
            until = ports.clock.wall() + (due.at - business)
            await tx.money.defer_timer(timer.booking_id, lease, until)
            return
        booking = await _net(tx, ports, booking, debts, due.at)
        what = Occurrence(TRIGGERS[timer.kind], Party.SYSTEM, due.at)
        await apply(tx, ports, booking, what)

    try:
        await ports.store.write(unit)
    except Unavailable:
        raise
    except StaffbookingError as error:
        await _put_off(ports, timer, lease)
        await ports.notifier.alert(timer.booking_id, f"timer {timer.kind} failed: {error}")


async def _debts(tx: Writing, timer: Timer) -> Sequence[int]:
    """Before a payout: the bookings for which its staff member owes money, held in the order
    of their ids, as all bookings are; those that come after this one are held later."""
    if timer.kind is not TimerKind.PAY_OUT:
        return ()
    booking = await tx.bookings.booking(timer.booking_id)
    owing = () if booking is None else await tx.money.debts_of(booking.companion_id)
    for debtor in owing:
        if debtor < timer.booking_id:
            await tx.bookings.lock_booking(debtor)
    return owing


async def _net(
    tx: Writing, ports: Ports, payer: Booking, owing: Sequence[int], now: datetime
) -> Booking:
    """Keep of a payout what is owed for other bookings; the payer as it is then."""
    debts = []
    for booking_id in owing:
        debtor = await tx.bookings.lock_booking(booking_id)
        if debtor is not None and debtor.id != payer.id:
            operations = await tx.money.operations_of(debtor.id)
            debts.append(Debt(debtor, tuple(operations)))
    known = {payer.id: payer, **{debt.booking.id: debt.booking for debt in debts}}
    for step in reconciliation_debts.net(payer, debts, now):
        number = step.booking.id
        await tx.bookings.save(to_change(ports, known[number], step, now))
        known[number] = step.booking
    return known[payer.id]


async def _put_off(ports: Ports, timer: Timer, lease: Lease) -> None:
    until = ports.clock.wall() + reconciliation.LOOK_AGAIN * 2 ** min(timer.attempts, 8)

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
    """Do everything that is due, until nothing new is, but for sending deliveries
    (`deliveries.deliver_due`): for tests and for a clock that jumped. Timers fire one by one,
    so that they keep their order over all bookings, and what one brings about is done before
    the next. Raises GivenUp as soon as notices are: what is left is for the next call."""
    done = 0
    while (
        step := await operations.run_due(ports)
        or await payees.run_due(ports)
        or await reconciliation.deliver_sandbox_events(ports)
        or await reconciliation.follow_nudges(ports)
        or await event_polling.run(ports)
        or await run_due(ports, 1)
        or await tell_alerts(ports)
        or await deliveries.publish(ports)
        or await offline_notifications.tell_of_messages(ports)
        or await notifications.tell_notices(ports)
    ):
        done += step
    return done
