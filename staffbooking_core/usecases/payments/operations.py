"""The runner of operations: the only caller of the payment processor.

An operation is claimed and marked as sent in one transaction, the call is made outside of
any, and its outcome is saved in another. A crash between the two leaves it as unknown,
which is what it is: it is sent again under the same key, and after three tries or a long
time looked up first (PAYMENTS 3). Running an operation twice is safe at every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import UNPAID, Booking, Intent, PayoutStatus, Step
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.payments.processor import (
    CheckoutStatus,
    CloseCheckout,
    Command,
    Misconfigured,
    Nudge,
    OpenCheckout,
    Operation,
    OpKind,
    OpStatus,
    PaymentsError,
    PayOut,
    Refund,
    RefusalCode,
    Refused,
    ReversePayout,
    Snapshot,
    after_failure,
    backoff,
    find_result,
    must_look_up,
)
from staffbooking_core.errors import Conflict, NotFound, ProcessorUnavailable
from staffbooking_core.ports import Lease, Ports, Writing
from staffbooking_core.usecases.booking_writes import save
from staffbooking_core.usecases.payments import payees, reconciliation

RESEND_AFTER_LOOK_UP = timedelta(minutes=10)
"""What the processor may still be doing with a call, it has done by then."""


@frozen
class _Sent:
    """A claimed operation on its way, with what it refers to at the processor."""

    operation: Operation
    lease: Lease
    look_up: bool
    target_ref: str = ""


ALL = frozenset(OpKind)


async def run_due(ports: Ports, kinds: frozenset[OpKind] = ALL) -> int:
    """Run the operation of these kinds that is due first; whether there was one, as 1 or 0.

    Never more than one: a lease covers one call, and a slow call must not outlast the
    leases of others that wait behind it.
    """
    claimed = await _claim(ports, kinds=kinds)
    for sent in claimed:
        if sent is not None:
            await _run(ports, sent, ports.policy.processor_deadline)
    return len(claimed)


async def run_of_booking(ports: Ports, booking_id: int) -> None:
    """Run what is ordered for one booking now, due or not, in its order, until all is done
    or something has to wait: for an operator who wants to see the outcome."""
    while claimed := await _claim(ports, booking_id):
        for sent in claimed:
            if sent is not None:
                await _run(ports, sent, ports.policy.processor_deadline)
                async with ports.store.reading() as view:
                    ordered = await view.money.operations_of(booking_id)
                if any(one.id == sent.operation.id and not one.is_finished for one in ordered):
                    return


async def open_checkout_now(ports: Ports, booking_id: int, deadline: datetime) -> Booking:
    """Run what a booking waits for until its checkout page is open, or nothing is left to
    wait for: it was paid in the meantime, or the page was refused.

    Raises ProcessorUnavailable when the first try under a key has no outcome, or the time for
    an answer is up: the operation stays.
    """
    while (left := deadline - ports.clock.wall()) > timedelta(0):
        claimed = await _claim(ports, booking_id)
        for sent in claimed:
            if sent is not None:
                await _run(ports, sent, left)
        async with ports.store.reading() as view:
            booking = await view.bookings.booking(booking_id)
            ordered = await view.money.operations_of(booking_id)
        if booking is None or booking.intent is None:
            raise NotFound("Booking")
        waiting = [one for one in ordered if not one.is_finished]
        if booking.intent.checkout_url is not None or not waiting:
            return booking
        if claimed and waiting[0].attempts == 1:
            break  # Whoever waits is told at once; a repetition goes on to the end of the road.
        await ports.clock.sleep(0.5 if claimed else 0.05)
    raise ProcessorUnavailable


# Claim and guard ------------------------------------------------------------------------


async def _claim(
    ports: Ports, booking_id: int | None = None, kinds: frozenset[OpKind] = ALL
) -> list[_Sent | None]:
    """Claim at most one operation; None stands for one that is void by now."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease)

    async def unit(tx: Writing) -> list[_Sent | None]:
        claimed = await tx.money.claim_operations(now, lease, 1, booking_id, kinds)
        return [await _prepare(tx, ports, operation, lease, now) for operation in claimed]

    return await ports.store.write(unit)


async def _prepare(
    tx: Writing, ports: Ports, operation: Operation, lease: Lease, now: datetime
) -> _Sent | None:
    """Mark a claimed operation as sent, unless its reason went away. Then money that was
    perhaps sent is looked up: it must not be sent again, nor be forgotten."""
    # Held where a debt may just now be settled otherwise, or the payout be put on hold.
    read = tx.bookings.lock_booking if operation.kind in _TO_STAFF else tx.bookings.booking
    booking = await read(operation.booking_id)
    others = await tx.money.operations_of(operation.booking_id)
    target = _target(operation, others)
    wanted = booking is not None and _still_wanted(operation, booking)
    perhaps_sent = operation.status is OpStatus.UNKNOWN
    if target is None or not (wanted or perhaps_sent):
        await tx.money.save_operation(evolve(operation, status=OpStatus.VOID))
        return None
    if must_look_up(operation, now) or (not wanted and operation.kind in _TO_STAFF):
        return _Sent(operation, lease, look_up=True, target_ref=target)
    operation = evolve(
        operation,
        command=await _addressed(tx, ports, operation),
        status=OpStatus.UNKNOWN,
        attempts=operation.attempts + 1,
        first_sent_at=operation.first_sent_at or now,
        last_sent_at=now,
    )
    await tx.money.save_operation(operation, lease)
    return _Sent(operation, lease, look_up=False, target_ref=target)


async def _addressed(tx: Writing, ports: Ports, operation: Operation) -> Command:
    """The command as it is sent under this key from now on: a payout goes to the payee that
    is known when the key is first used."""
    command = operation.command
    if isinstance(command, PayOut) and operation.first_sent_at is None:
        ref = await payees.ref_of(tx, ports, command.companion_id)
        return evolve(command, payee_ref=ref)
    return command


def _target(operation: Operation, others: Sequence[Operation]) -> str | None:
    """The reference that the call needs; "" where it needs none, None where it has none."""
    match operation.command:
        case CloseCheckout(n) | ReversePayout(payout_n=n):
            return next((other.result_ref for other in others if other.n == n), None)
    return ""


_TO_STAFF = frozenset({OpKind.PAY_OUT, OpKind.REVERSE_PAYOUT})
"""Money that goes to or comes from a staff member. A checkout page whose opening has no
answer yet is different: it is opened once more under its key, so that it can be closed."""


def _still_wanted(operation: Operation, booking: Booking) -> bool:
    """The guard again, just before sending."""
    match operation.kind:
        case OpKind.OPEN_CHECKOUT:
            intent = booking.intent
            current = intent is not None and intent.checkout_n == operation.n
            return current and booking.status is Status.ACCEPTED
        case OpKind.PAY_OUT:
            released = booking.payout_released_at is not None
            return released and booking.payout_status in UNPAID and booking.payout_n == operation.n
        case OpKind.REVERSE_PAYOUT:
            claimed = getattr(operation.command, "amount", 0)
            return booking.owed_by_staff >= claimed
    return True


# Call and record ------------------------------------------------------------------------


async def _run(ports: Ports, sent: _Sent, within: timedelta) -> None:
    try:
        if sent.look_up:
            await _look_up(ports, sent, within)
        else:
            await _send(ports, sent, within)
    except PaymentsError as error:
        await _failed(ports, sent, error)
    except Conflict:
        return  # The lease was lost: whoever has it now sees the operation through.


async def _send(ports: Ports, sent: _Sent, within: timedelta) -> None:
    operation, seconds = sent.operation, within.total_seconds()
    intent_id, call, key = operation.booking_id, ports.payments, operation.key
    match operation.command:
        case OpenCheckout() as command:
            checkout = await call.open_checkout(command, key, seconds)
            snapshot = Snapshot(intent_id, checkouts=(checkout,))
        case CloseCheckout():
            closed = await call.close_checkout(sent.target_ref, key, seconds)
            await _closed(ports, sent, closed.status, within)
            return
        case Refund() as command:
            refund = await call.refund(command, key, seconds)
            snapshot = Snapshot(intent_id, refunds=(refund,))
        case PayOut() as command:
            payout = await call.pay_out(command, key, seconds)
            snapshot = Snapshot(intent_id, payouts=(payout,))
        case ReversePayout() as command:
            reversal = await call.reverse_payout(command, sent.target_ref, key, seconds)
            snapshot = Snapshot(intent_id, reversals=(reversal,))
    await _record(ports, sent, snapshot)


async def _record(ports: Ports, sent: _Sent, snapshot: Snapshot) -> None:
    now = await ports.clock.business()

    async def unit(tx: Writing) -> None:
        await reconciliation.apply_snapshot(tx, ports, snapshot, now, sent.operation.id, sent.lease)

    await ports.store.write(unit)


async def _closed(ports: Ports, sent: _Sent, status: CheckoutStatus, within: timedelta) -> None:
    """A page that had been paid before it could be closed is a payment to be looked at."""
    if status is CheckoutStatus.PAID:
        await reconciliation.look(ports, sent.operation.booking_id, within)

    async def unit(tx: Writing) -> None:
        operation = await tx.money.lock_operation(sent.operation.id, sent.lease)
        await tx.money.save_operation(evolve(operation, status=OpStatus.DONE, last_error=None))

    await ports.store.write(unit)


async def _look_up(ports: Ports, sent: _Sent, within: timedelta) -> None:
    """Adopt what an earlier try has made; where it made nothing, a new key may send again:
    money after a rest, a checkout page at once, since nobody knows the lost one's address."""
    operation = sent.operation
    snapshot = await reconciliation.snapshot_of(ports, operation.booking_id, within)
    if find_result(operation, snapshot) is not None:
        await _record(ports, sent, snapshot)
        return
    now = ports.clock.wall()
    rests = (operation.last_sent_at or now) + RESEND_AFTER_LOOK_UP

    async def unit(tx: Writing) -> None:
        held = await tx.money.lock_operation(operation.id, sent.lease)
        if now < rests and operation.kind is not OpKind.OPEN_CHECKOUT:
            await tx.money.save_operation(evolve(held, next_at=rests))
            return
        again = evolve(
            held,
            status=OpStatus.PENDING,
            generation=held.generation + 1,
            attempts=0,
            first_sent_at=None,
            next_at=now,
        )
        await tx.money.save_operation(again)

    await ports.store.write(unit)


async def _failed(ports: Ports, sent: _Sent, error: PaymentsError) -> None:
    now, business = ports.clock.wall(), await ports.clock.business()

    async def unit(tx: Writing) -> None:
        booking = await tx.bookings.lock_booking(sent.operation.booking_id)
        operation = await tx.money.lock_operation(sent.operation.id, sent.lease)
        if sent.look_up:
            failed = evolve(operation, next_at=now + backoff(operation.attempts))
        else:
            failed = after_failure(operation, error, now)
        await tx.money.save_operation(failed)
        if failed.status is OpStatus.REFUSED and failed.kind is OpKind.REFUND:
            # Perhaps the bank gave the money back already: a look shows it.
            name = f"refused:{failed.id}:{failed.generation}"
            await tx.money.add_nudge(ports.payments.name, Nudge(name, failed.booking_id), now)
        if isinstance(error, Refused) and error.reason is RefusalCode.PAYEE_NOT_READY:
            await _doubt_payee(tx, ports, failed)
        told = failed.status is OpStatus.PENDING and failed.last_error == operation.last_error
        if booking is None or told:
            return
        if (step := _refused(booking, failed)) is not None:
            await save(tx, ports, booking, step, business)

    await ports.store.write(unit)
    if isinstance(error, Misconfigured) and sent.operation.attempts == 1:
        await ports.notifier.alert(sent.operation.booking_id, f"the processor refuses us: {error}")


async def _doubt_payee(tx: Writing, ports: Ports, operation: Operation) -> None:
    if isinstance(operation.command, PayOut):
        await payees.doubt(tx, ports, operation.command.companion_id)


def _refused(booking: Booking, operation: Operation) -> Step | None:
    """What a refusal does to the booking: the money is still owed, and somebody is told."""
    refused = operation.status in (OpStatus.REFUSED, OpStatus.DEAD, OpStatus.PENDING)
    if not refused or operation.kind is OpKind.CLOSE_CHECKOUT:
        return None
    if operation.kind is OpKind.PAY_OUT and booking.payout_status is not PayoutStatus.SCHEDULED:
        return None  # Told of before, or frozen: then there is nothing to send for now.
    text = f"{operation.kind} of booking {booking.code} was refused: {operation.last_error}"
    step = evolve(Step(booking).changing(version=booking.version + 1), alerts=(text,))
    match operation.kind, booking.intent:
        case OpKind.PAY_OUT, _:
            step = step.changing(payout_status=PayoutStatus.FAILED)
        case OpKind.OPEN_CHECKOUT, Intent() as intent if intent.checkout_n == operation.n:
            # As if lapsed: the next visit of the client orders another page.
            lapsed = evolve(intent, checkout_expires_at=booking.created_at)
            step = step.changing(intent=lapsed)
    return step
