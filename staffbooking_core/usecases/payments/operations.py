"""Runs processor operations: with `payees`, the only writer to the payment processor.

1. An operation is claimed under a lease and marked as sent (`unknown`) in one transaction.
2. The call is made outside of transactions.
3. Its outcome is saved in another transaction, while the lease holds.

A crash between 1 and 3 leaves the operation unknown: it is sent again under the same key, and after
three attempts or a long time looked up first. Every step is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import (
    UNPAID_PAYOUT_STATUSES,
    Booking,
    PaymentIntent,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.bookings.payout_lifecycle import (
    PAYOUT_TRANSITIONS,
    PayoutTrigger,
    move_payout,
)
from staffbooking_core.domain.payments.operations import (
    FAILED_OPERATION_STATUSES,
    STAFF_PAYMENT_KINDS,
    Operation,
    OperationStatus,
    SettlementStatus,
    apply_operation_failure,
    backoff_delay,
    must_look_up_outcome,
)
from staffbooking_core.domain.payments.processor import (
    CheckoutStatus,
    CloseCheckout,
    OpenCheckout,
    OperationCommand,
    OperationKind,
    PayOut,
    ProcessorError,
    ProcessorEvent,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefundPayment,
    RefusalCode,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.state import find_result_ref, record_fact
from staffbooking_core.errors import Conflict, NotFound, ProcessorUnavailable
from staffbooking_core.ports import Lease, Ports, Transaction
from staffbooking_core.request_id import caused_by_request
from staffbooking_core.usecases.booking_writes import hold_disabled_payout, save_transition
from staffbooking_core.usecases.payments import payees, reconciliation
from staffbooking_core.validation import validated

_LOOK_UP_RESEND_DELAY = timedelta(minutes=10)
"""Within this time after a call, the processor has finished it. Money is not sent under a new key
before."""


@frozen
class _ClaimedOperation:
    """A claimed operation, with the processor's reference of its target."""

    operation: Operation
    lease: Lease
    look_up: bool
    target_ref: str = ""


_ALL_KINDS = frozenset(OperationKind)


@validated
async def run_due_operation(ports: Ports, kinds: frozenset[OperationKind] = _ALL_KINDS) -> int:
    """Run the earliest due operation of these kinds; returns 1 if there was one, else 0.

    Runs at most one: a lease covers one call, and a slow call must not outlast the leases of
    others.
    """
    claimed = await _claim_operation(ports, kinds=kinds)
    for sent in claimed:
        if sent is not None:
            await _run_claimed(ports, sent, ports.policy.processor_timeout)
    return len(claimed)


@validated
async def run_booking_operations(ports: Ports, booking_id: int) -> None:
    """Run the operations of one booking now, due or not, in their order, each kind until one of it
    has to be retried. For operators who wait for the outcome."""
    kinds = _ALL_KINDS
    while claimed := await _claim_operation(ports, booking_id, kinds):
        for sent in claimed:
            if sent is not None:
                await _run_claimed(ports, sent, ports.policy.processor_timeout)
                async with ports.store.read_view() as view:
                    ordered = await view.operations.operations_of(booking_id)
                if any(one.id == sent.operation.id and not one.is_finished for one in ordered):
                    kinds -= {sent.operation.kind}


@validated
async def open_checkout_now(ports: Ports, booking_id: int, deadline: datetime) -> Booking:
    """Run the operations of a booking until its checkout page is open or none is left: the booking
    was paid meanwhile, or the page was refused. Returns the booking.

    Raises NotFound, and ProcessorUnavailable where the first attempt under a key has no outcome or
    `deadline` (wall time) has passed: the operation is kept and retried.
    """
    while (remaining := deadline - ports.clock.wall()) > timedelta(0):
        claimed = await _claim_operation(ports, booking_id)
        for sent in claimed:
            if sent is not None:
                await _run_claimed(ports, sent, remaining)
        async with ports.store.read_view() as view:
            booking = await view.bookings.booking(booking_id)
            ordered = await view.operations.operations_of(booking_id)
        if booking is None or booking.intent is None:
            raise NotFound("Booking")
        waiting = [one for one in ordered if not one.is_finished]
        if booking.intent.checkout_url is not None or not waiting:
            return booking
        if claimed and waiting[0].attempts == 1:
            break  # Report the first failure at once; a repeated call waits until the deadline.
        await ports.clock.sleep(0.5 if claimed else 0.05)
    raise ProcessorUnavailable


# Claim and guard ------------------------------------------------------------------------


async def _claim_operation(
    ports: Ports, booking_id: int | None = None, kinds: frozenset[OperationKind] = _ALL_KINDS
) -> list[_ClaimedOperation | None]:
    """Claim at most one operation; None in the list is an operation that became void."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def unit(tx: Transaction) -> list[_ClaimedOperation | None]:
        claimed = await tx.operations.claim_operations(now, lease, 1, booking_id, kinds)
        return [await _prepare(tx, ports, operation, lease, now) for operation in claimed]

    return await ports.store.run_transaction(unit)


async def _prepare(
    tx: Transaction, ports: Ports, operation: Operation, lease: Lease, now: datetime
) -> _ClaimedOperation | None:
    """Mark a claimed operation as sent, or as void where it is no longer wanted. Money that may
    have been sent is looked up instead: it must be neither sent again nor forgotten."""
    # Locked where a concurrent transaction may settle the debt or put the payout on hold.
    read = (
        tx.bookings.lock_booking if operation.kind in STAFF_PAYMENT_KINDS else tx.bookings.booking
    )
    booking = await read(operation.booking_id)
    if booking is not None and operation.kind is OperationKind.PAY_OUT:
        business = ports.clock.business_at(await tx.sandbox.clock_offset())
        booking = await hold_disabled_payout(tx, ports, booking, business)
    others = await tx.operations.operations_of(operation.booking_id)
    target_ref = _target_ref(operation, others)
    is_wanted = booking is not None and _is_still_wanted(operation, booking)
    may_be_sent = operation.status is OperationStatus.UNKNOWN
    if target_ref is None or not (is_wanted or may_be_sent):
        await tx.operations.save_operation(evolve(operation, status=OperationStatus.VOID))
        return None
    # An unwanted checkout page is sent again under its key, so that it can be closed.
    if must_look_up_outcome(operation, now) or (
        not is_wanted and operation.kind in STAFF_PAYMENT_KINDS
    ):
        return _ClaimedOperation(operation, lease, look_up=True, target_ref=target_ref)
    operation = evolve(
        operation,
        command=await _with_payee_ref(tx, ports, operation),
        status=OperationStatus.UNKNOWN,
        attempts=operation.attempts + 1,
        first_sent_at=operation.first_sent_at or now,
        last_sent_at=now,
    )
    await tx.operations.save_operation(operation, lease)
    return _ClaimedOperation(operation, lease, look_up=False, target_ref=target_ref)


async def _with_payee_ref(tx: Transaction, ports: Ports, operation: Operation) -> OperationCommand:
    """The command as it is sent under this key: a payout goes to the payee that is known at the
    first attempt."""
    command = operation.command
    if isinstance(command, PayOut) and operation.first_sent_at is None:
        ref = await payees.payout_ref_of(
            tx.payees, tx.companions, ports.payments.name, command.companion_id
        )
        return evolve(command, payee_ref=ref)
    return command


def _target_ref(operation: Operation, others: Sequence[Operation]) -> str | None:
    """The reference that the call needs; "" where it needs none, None where it is missing."""
    match operation.command:
        case CloseCheckout(n) | ReversePayout(payout_n=n):
            return next((other.result_ref for other in others if other.n == n), None)
    return ""


def _is_still_wanted(operation: Operation, booking: Booking) -> bool:
    """Whether the reason for the operation still holds, checked just before sending."""
    match operation.kind:
        case OperationKind.OPEN_CHECKOUT:
            intent = booking.intent
            current = intent is not None and intent.checkout_n == operation.n
            return current and booking.status is BookingStatus.ACCEPTED
        case OperationKind.PAY_OUT:
            released = booking.payout_released_at is not None
            return (
                released
                and booking.payout_status in UNPAID_PAYOUT_STATUSES
                and booking.payout_n == operation.n
            )
        case OperationKind.REVERSE_PAYOUT:
            claimed = getattr(operation.command, "amount", 0)
            return booking.owed_by_staff >= claimed
    return True


# Call and record ------------------------------------------------------------------------


async def _run_claimed(ports: Ports, claimed: _ClaimedOperation, time_limit: timedelta) -> None:
    # A machine that was suspended since the claim must not send: the processor may have forgotten
    # the key of an earlier attempt meanwhile, and the operation may have a new holder.
    if ports.clock.wall() >= claimed.lease.until:
        return
    # Where the lease was lost, its new holder finishes the operation.
    with caused_by_request(claimed.operation.request_id), suppress(Conflict):
        try:
            if claimed.look_up:
                await _look_up(ports, claimed, time_limit)
            else:
                await _call_processor(ports, claimed, time_limit)
        except ProcessorError as error:
            await _record_failure(ports, claimed, error)


async def _call_processor(ports: Ports, claimed: _ClaimedOperation, time_limit: timedelta) -> None:
    operation, seconds = claimed.operation, time_limit.total_seconds()
    intent_id, call, key = operation.booking_id, ports.payments, operation.key
    match operation.command:
        case OpenCheckout() as command:
            checkout = await call.open_checkout(command, key, seconds)
            snapshot = Snapshot(intent_id, checkouts=(checkout,))
        case CloseCheckout():
            closed = await call.close_checkout(claimed.target_ref, key, seconds)
            await _record_closed_checkout(ports, claimed, closed.status, time_limit)
            return
        case RefundPayment() as command:
            refund = await call.refund(command, key, seconds)
            snapshot = Snapshot(intent_id, refunds=(refund,))
        case PayOut() as command:
            payout = await call.pay_out(command, key, seconds)
            snapshot = Snapshot(intent_id, payouts=(payout,))
        case ReversePayout() as command:
            reversal = await call.reverse_payout(command, claimed.target_ref, key, seconds)
            snapshot = Snapshot(intent_id, reversals=(reversal,))
    await _record_snapshot(ports, claimed, snapshot)


async def _record_snapshot(ports: Ports, claimed: _ClaimedOperation, snapshot: Snapshot) -> None:
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> None:
        await reconciliation.apply_snapshot(
            tx, ports, snapshot, now, claimed.operation.id, claimed.lease
        )

    await ports.store.run_transaction(unit)


async def _record_closed_checkout(
    ports: Ports, claimed: _ClaimedOperation, status: CheckoutStatus, time_limit: timedelta
) -> None:
    """Finish a closed checkout. A page that was paid before it could be closed is synced first."""
    if status is CheckoutStatus.PAID:
        await reconciliation.sync_intent(ports, claimed.operation.booking_id, time_limit)

    async def unit(tx: Transaction) -> None:
        operation = await tx.operations.lock_operation(claimed.operation.id, claimed.lease)
        await tx.operations.save_operation(
            evolve(operation, status=OperationStatus.DONE, last_error=None)
        )

    await ports.store.run_transaction(unit)


async def _look_up(ports: Ports, claimed: _ClaimedOperation, time_limit: timedelta) -> None:
    """Adopt the result of an earlier attempt. Without one, send again under a new key: a checkout
    page at once, since the address of a lost page is unknown, money after _LOOK_UP_RESEND_DELAY."""
    operation = claimed.operation
    snapshot, _ = await reconciliation.get_snapshot(ports, operation.booking_id, time_limit)
    if find_result_ref(operation, snapshot) is not None:
        # Chargebacks are left to the events that announce them: this snapshot may be stale.
        await _record_snapshot(ports, claimed, evolve(snapshot, chargebacks=()))
        return
    now = ports.clock.wall()
    resend_at = (operation.last_sent_at or now) + _LOOK_UP_RESEND_DELAY

    async def unit(tx: Transaction) -> None:
        held = await tx.operations.lock_operation(operation.id, claimed.lease)
        if now < resend_at and operation.kind is not OperationKind.OPEN_CHECKOUT:
            await tx.operations.save_operation(evolve(held, next_at=resend_at))
            return
        again = evolve(
            held,
            status=OperationStatus.PENDING,
            generation=held.generation + 1,
            attempts=0,
            first_sent_at=None,
            next_at=now,
        )
        await tx.operations.save_operation(again)

    await ports.store.run_transaction(unit)


async def _record_failure(ports: Ports, claimed: _ClaimedOperation, error: ProcessorError) -> None:
    now, business = ports.clock.wall(), await ports.clock.business()

    async def unit(tx: Transaction) -> None:
        booking = await tx.bookings.lock_booking(claimed.operation.booking_id)
        operation = await tx.operations.lock_operation(claimed.operation.id, claimed.lease)
        if claimed.look_up:
            failed = evolve(operation, next_at=now + backoff_delay(operation.attempts))
        else:
            failed = apply_operation_failure(operation, error, now)
        await tx.operations.save_operation(failed)
        if failed.status is OperationStatus.REFUSED and failed.kind is OperationKind.REFUND:
            # The bank may have returned the money already: a sync shows it.
            name = f"refused:{failed.id}:{failed.generation}"
            await tx.inbox.add_event(
                ports.payments.name, ProcessorEvent(name, failed.booking_id), now
            )
        if isinstance(error, ProcessorRefused) and error.reason is RefusalCode.PAYEE_NOT_READY:
            await _request_payee_sync(tx, ports, failed)
        is_known_failure = (
            failed.status is OperationStatus.PENDING and failed.last_error == operation.last_error
        )
        if booking is None or is_known_failure:
            return
        if (result := _refusal_result(booking, failed)) is not None:
            await save_transition(tx, ports, booking, result, business)

    await ports.store.run_transaction(unit)
    if isinstance(error, ProcessorMisconfigured) and claimed.operation.attempts == 1:
        await ports.notifier.alert_operators(
            claimed.operation.booking_id, f"the processor refuses us: {error}"
        )


async def _request_payee_sync(tx: Transaction, ports: Ports, operation: Operation) -> None:
    if isinstance(operation.command, PayOut):
        await payees.request_sync(
            tx.payees, ports.payments.name, operation.command.companion_id, ports.clock.wall()
        )


def _refusal_result(booking: Booking, operation: Operation) -> TransitionResult | None:
    """Changes of the booking after a refusal: the money is still owed, and operators are
    alerted."""
    refused = operation.status in (
        OperationStatus.REFUSED,
        OperationStatus.DEAD,
        OperationStatus.PENDING,
    )
    if not refused or operation.kind is OperationKind.CLOSE_CHECKOUT:
        return None
    if (
        operation.kind is OperationKind.PAY_OUT
        and PayoutTrigger.REFUSED not in PAYOUT_TRANSITIONS[booking.payout_status]
    ):
        return None  # Alerted before, or frozen: there is nothing to send now.
    text = f"{operation.kind} of booking {booking.code} was refused: {operation.last_error}"
    result = record_fact(booking).with_alert(text)
    if operation.status in FAILED_OPERATION_STATUSES:
        result = result.with_refund_change(operation.n, status=SettlementStatus.FAILED)
    match operation.kind, booking.intent:
        case OperationKind.PAY_OUT, _:
            result = move_payout(result, PayoutTrigger.REFUSED)
        case OperationKind.OPEN_CHECKOUT, PaymentIntent() as intent if (
            intent.checkout_n == operation.n
        ):
            # Treated as lapsed: the customer's next visit orders another page.
            lapsed = evolve(intent, checkout_expires_at=booking.created_at)
            result = result.with_changes(intent=lapsed)
    return result
