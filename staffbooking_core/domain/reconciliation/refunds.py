"""Refunds that are still owed: which operations stand for them, and how they are tried anew."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.bookings.booking import Booking, Step
from staffbooking_core.domain.payments.processor import Operation, OpStatus, Refund, Settlement


def refunds_owed(operations: Sequence[Operation]) -> list[Operation]:
    """The refunds that the client does not have yet: on their way, refused or failed."""
    refunds = [one for one in operations if isinstance(one.command, Refund)]
    replaced = {one.command.replaces for one in refunds if isinstance(one.command, Refund)}
    return [
        one
        for one in refunds
        if one.settlement is not Settlement.SETTLED
        and one.status is not OpStatus.VOID
        and one.n not in replaced
    ]


def failed_refunds(operations: Sequence[Operation]) -> list[Operation]:
    """Those of them that nobody will try again by themselves."""
    return [
        one
        for one in refunds_owed(operations)
        if one.status in (OpStatus.REFUSED, OpStatus.DEAD) or one.settlement is Settlement.FAILED
    ]


def order_anew(booking: Booking, failed: Sequence[Operation]) -> Step:
    """Order each of these refunds once more; the new order stands for the old one."""
    step = Step(booking).changing(version=booking.version + 1)
    for one in failed:
        command = one.command
        assert isinstance(command, Refund)
        again = Refund(command.payment_ref, command.amount, command.currency, one.n)
        step = step.ordering(again)
    return step
