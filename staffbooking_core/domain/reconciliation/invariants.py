"""The invariants of one booking's money (RELIABILITY 6), as a list of what is wrong.

Everything that is kept twice is compared here: the sums of the ledger with the columns
of the booking, both with the operations, and the timeline with the lifecycle table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import TABLE, Status, Trigger
from staffbooking_core.domain.payments.ledger import OWED, Account, Posting, balances
from staffbooking_core.domain.payments.processor import Operation, OpKind, OpStatus, Refund
from staffbooking_core.domain.reconciliation.refunds import refunds_owed


def faults_of(
    booking: Booking, postings: Sequence[Posting], operations: Sequence[Operation]
) -> Iterator[str]:
    """What is wrong with a booking's money; nothing where all is well."""
    sums = balances(postings)
    owed = {account: -sums[account] for account in sums}
    yield from _accounts(booking, owed, sums[Account.STAFF_RECEIVABLE])
    yield from _statuses(booking, owed)
    yield from _movements(booking, owed, operations)
    yield from _timeline(booking)


def _differs(what: str, found: int, wanted: int) -> Iterator[str]:
    if found != wanted:
        yield f"{what} is {found}, should be {wanted}"


def _accounts(booking: Booking, owed: dict[Account, int], receivable: int) -> Iterator[str]:
    for account in OWED:
        if owed.get(account, 0) < 0:
            yield f"{account} is negative: {owed[account]}"
    yield from _differs("escrow", owed.get(Account.ESCROW, 0), booking.escrow)
    yield from _differs("staff_receivable", receivable, booking.owed_by_staff)
    yield from _differs("staff_netting", owed.get(Account.STAFF_NETTING, 0), booking.netted)
    if booking.escrow > booking.total_amount:
        yield f"escrow {booking.escrow} is above the total {booking.total_amount}"
    ended = booking.status in (Status.COMPLETED, Status.CANCELLED)
    if ended:
        fees = owed.get(Account.PLATFORM_FEES, 0)
        yield from _differs("platform_fees", fees, booking.platform_fee)
        yield from _differs(
            "staff_payable", owed.get(Account.STAFF_PAYABLE, 0), booking.payout_left
        )


def _statuses(booking: Booking, owed: dict[Account, int]) -> Iterator[str]:
    held = owed.get(Account.ESCROW, 0)
    match booking.status:
        case Status.PENDING | Status.ACCEPTED:
            yield from _differs(f"escrow while {booking.status}", held, 0)
        case Status.PAID | Status.DISPUTED:
            wanted = booking.total_amount - booking.refunded_amount
            yield from _differs(f"escrow while {booking.status}", held, wanted)
            payable = owed.get(Account.STAFF_PAYABLE, 0)
            yield from _differs(f"staff_payable while {booking.status}", payable, 0)
        case Status.COMPLETED | Status.CANCELLED:
            yield from _differs(f"escrow while {booking.status}", held, 0)


def _movements(
    booking: Booking, owed: dict[Account, int], operations: Sequence[Operation]
) -> Iterator[str]:
    """What is owed in refunds is exactly what refunds are still on their way for."""
    open_refunds = sum(
        operation.command.amount
        for operation in refunds_owed(operations)
        if isinstance(operation.command, Refund)
    )
    yield from _differs("refund_payable", owed.get(Account.REFUND_PAYABLE, 0), open_refunds)
    yield from _differs("paid out", booking.paid_out, _moved_to_staff(operations))
    if booking.payout_status is PayoutStatus.PAID and booking.payout_left:
        yield f"the payout counts as paid, but {booking.payout_left} is left"
    if booking.payout_status is PayoutStatus.NONE and booking.payout_due_at is not None:
        yield "no payout is due, but it has a due time"


def _moved_to_staff(operations: Sequence[Operation]) -> int:
    signs = {OpKind.PAY_OUT: 1, OpKind.REVERSE_PAYOUT: -1}
    return sum(
        signs[operation.kind] * getattr(operation.command, "amount", 0)
        for operation in operations
        if operation.kind in signs and operation.status is OpStatus.DONE
    )


def _timeline(booking: Booking) -> Iterator[str]:
    """The history of statuses is a path through the lifecycle table."""
    at: Status | None = None
    for entry in booking.timeline:
        if entry.was is not at:
            yield f"the timeline jumps from {at} to {entry.was}"
        elif at is None and (entry.trigger, entry.to) != (Trigger.REQUEST, Status.PENDING):
            yield f"the timeline begins with {entry.trigger}"
        elif at is not None:
            move = TABLE[at].get(entry.trigger)
            if move is None or move.to is not entry.to:
                yield f"{at} can't become {entry.to} by {entry.trigger}"
        at = entry.to
    if at is not booking.status:
        yield f"the timeline ends with {at}, the booking is {booking.status}"
