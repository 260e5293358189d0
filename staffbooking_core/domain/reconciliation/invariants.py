"""The invariants of one booking's money, checked as a list of violations.

Redundant data is compared:

1. The ledger's sums with the booking's columns.
2. The escrow with the booking's status.
3. Refunds and payouts with the operations.
4. The timeline with the lifecycle table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import (
    ENDED_STATUSES,
    TRANSITIONS,
    BookingStatus,
    Trigger,
)
from staffbooking_core.domain.payments.ledger import (
    LIABILITY_ACCOUNTS,
    Account,
    Posting,
    account_balances,
)
from staffbooking_core.domain.payments.operations import Operation, OperationStatus
from staffbooking_core.domain.payments.processor import OperationKind, RefundPayment
from staffbooking_core.domain.reconciliation.refunds import outstanding_refunds


def find_invariant_violations(
    booking: Booking, postings: Sequence[Posting], operations: Sequence[Operation]
) -> Iterator[str]:
    """The violations of one booking's invariants; empty if there are none."""
    account_sums = account_balances(postings)
    liabilities = {account: -account_sums[account] for account in account_sums}
    yield from _check_accounts(booking, liabilities, account_sums[Account.STAFF_RECEIVABLE])
    yield from _check_escrow_by_status(booking, liabilities)
    yield from _check_movements(booking, liabilities, operations)
    yield from _check_timeline(booking)
    if booking.status is BookingStatus.DISPUTED and booking.dispute_respond_by is None:
        yield "the dispute has no deadline"


def _check_equal(label: str, actual: int, expected: int) -> Iterator[str]:
    if actual != expected:
        yield f"{label} is {actual}, should be {expected}"


def _check_accounts(
    booking: Booking, liabilities: dict[Account, int], receivable: int
) -> Iterator[str]:
    for account in LIABILITY_ACCOUNTS:
        if liabilities.get(account, 0) < 0:
            yield f"{account} is negative: {liabilities[account]}"
    yield from _check_equal("escrow", liabilities.get(Account.ESCROW, 0), booking.escrow)
    yield from _check_equal("staff_receivable", receivable, booking.owed_by_staff)
    yield from _check_equal(
        "staff_netting", liabilities.get(Account.STAFF_NETTING, 0), booking.netted
    )
    if booking.escrow > booking.total_amount:
        yield f"escrow {booking.escrow} is above the total {booking.total_amount}"
    if booking.status in ENDED_STATUSES:
        fees = liabilities.get(Account.PLATFORM_FEES, 0)
        yield from _check_equal("platform_fees", fees, booking.platform_fee)
        yield from _check_equal(
            "staff_payable", liabilities.get(Account.STAFF_PAYABLE, 0), booking.payout_left
        )


def _check_escrow_by_status(booking: Booking, liabilities: dict[Account, int]) -> Iterator[str]:
    held = liabilities.get(Account.ESCROW, 0)
    match booking.status:
        case BookingStatus.PENDING | BookingStatus.ACCEPTED:
            yield from _check_equal(f"escrow while {booking.status}", held, 0)
        case BookingStatus.PAID | BookingStatus.DISPUTED:
            expected_escrow = booking.total_amount - booking.refunded_amount
            yield from _check_equal(f"escrow while {booking.status}", held, expected_escrow)
            payable = liabilities.get(Account.STAFF_PAYABLE, 0)
            yield from _check_equal(f"staff_payable while {booking.status}", payable, 0)
        case BookingStatus.COMPLETED | BookingStatus.CANCELLED:
            yield from _check_equal(f"escrow while {booking.status}", held, 0)


def _check_movements(
    booking: Booking, liabilities: dict[Account, int], operations: Sequence[Operation]
) -> Iterator[str]:
    """The refunds owed equal the outstanding refund operations."""
    open_refunds = sum(
        operation.command.amount
        for operation in outstanding_refunds(operations)
        if isinstance(operation.command, RefundPayment)
    )
    yield from _check_equal(
        "refund_payable", liabilities.get(Account.REFUND_PAYABLE, 0), open_refunds
    )
    yield from _check_equal("paid out", booking.paid_out, _net_paid_to_staff(operations))
    if booking.payout_status is PayoutStatus.PAID and booking.payout_left:
        yield f"the payout counts as paid, but {booking.payout_left} is left"
    if booking.payout_status is PayoutStatus.NONE and booking.payout_due_at is not None:
        yield "no payout is due, but it has a due time"


def _net_paid_to_staff(operations: Sequence[Operation]) -> int:
    signs = {OperationKind.PAY_OUT: 1, OperationKind.REVERSE_PAYOUT: -1}
    return sum(
        signs[operation.kind] * getattr(operation.command, "amount", 0)
        for operation in operations
        if operation.kind in signs and operation.status is OperationStatus.DONE
    )


def _check_timeline(booking: Booking) -> Iterator[str]:
    """The timeline is a path through the lifecycle table."""
    status: BookingStatus | None = None
    previous: BookingStatus | None = None
    for entry in booking.timeline:
        if entry.was is not status:
            yield f"the timeline jumps from {status} to {entry.was}"
        elif status is None and (entry.trigger, entry.to) != (
            Trigger.REQUEST,
            BookingStatus.PENDING,
        ):
            yield f"the timeline begins with {entry.trigger}"
        elif status is not None:
            transition = TRANSITIONS[status].get(entry.trigger)
            if transition is None or transition.next_status(previous) is not entry.to:
                yield f"{status} can't become {entry.to} by {entry.trigger}"
        previous, status = status, entry.to
    if status is not booking.status:
        yield f"the timeline ends with {status}, the booking is {booking.status}"
