"""What a staff member earns: the state of each booking's money, a year by months, the next payout.

Amounts are minor units. A year has the bookings whose event is in it, by their local date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.policy import Policy

__all__ = ["Earning", "EarningState", "EarningsMonth", "NextPayout"]


class EarningState(StrEnum):
    """Where the money of a booking is, as its staff member is told."""

    EXPECTED = "expected"
    """In escrow, before the booking is completed."""
    SCHEDULED = "scheduled"
    PAID = "paid"
    DELAYED = "delayed"
    """The payout has failed and is tried again."""
    HELD = "held"
    REVERSED = "reversed"


_STATE_BY_PAYOUT = {
    PayoutStatus.NONE: EarningState.EXPECTED,
    PayoutStatus.SCHEDULED: EarningState.SCHEDULED,
    PayoutStatus.PAID: EarningState.PAID,
    PayoutStatus.FAILED: EarningState.DELAYED,
    PayoutStatus.FROZEN: EarningState.HELD,
    PayoutStatus.REVERSED: EarningState.REVERSED,
}


@frozen
class Earning:
    """The money of one booking. `amount` is what the staff member gets for it, `returned` the part
    of the price that the customer got back."""

    booking: Booking
    state: EarningState
    amount: int
    fee: int
    returned: int
    payout_at: datetime | None
    """When it was or will be paid out; of expected money, when it will be at the latest."""


@frozen
class EarningsMonth:
    """What the events of a month bring; `month` is its first day."""

    month: date
    paid: int
    ahead: int
    """Not paid out yet."""
    fees: int


@frozen
class NextPayout:
    """All that is paid out on the earliest day, a local date of the staff member."""

    day: date
    amount: int
    bookings: int
    is_latest: bool
    """Whether it is expected and not scheduled yet: `day` is the latest day then."""


def has_earning(booking: Booking) -> bool:
    """Whether the booking brings money to its staff member, has brought it, or may."""
    return booking.payout_status is not PayoutStatus.NONE or booking.status in (
        BookingStatus.PAID,
        BookingStatus.DISPUTED,
    )


def has_open_earning(booking: Booking) -> bool:
    """Whether money of the booking is still to come to its staff member or from them."""
    return has_earning(booking) and (
        booking.payout_status not in (PayoutStatus.PAID, PayoutStatus.REVERSED)
        or booking.has_staff_debt
    )


def describe_earning(booking: Booking, policy: Policy) -> Earning:
    """The earning of a booking that has one."""
    state = _STATE_BY_PAYOUT[booking.payout_status]
    if booking.status is BookingStatus.DISPUTED and state is not EarningState.REVERSED:
        state = EarningState.HELD
    if state is EarningState.REVERSED:
        return Earning(booking, state, 0, 0, booking.price, None)
    payout_at: datetime | None = None
    if state is EarningState.EXPECTED:
        payout_at = booking.ends_at + policy.auto_complete_after + policy.payout_delay
    elif state in (EarningState.SCHEDULED, EarningState.PAID):
        payout_at = booking.payout_released_at or booking.payout_due_at
    returned = booking.price - booking.platform_fee - booking.payout_amount
    return Earning(booking, state, booking.payout_amount, booking.platform_fee, returned, payout_at)


def sum_months(year: int, earnings: Iterable[Earning]) -> Sequence[EarningsMonth]:
    """The twelve months of a year with the sums of the earnings."""
    paid, ahead, fees = [0] * 12, [0] * 12, [0] * 12
    for earning in earnings:
        place = earning.booking.event_date.month - 1
        (paid if earning.state is EarningState.PAID else ahead)[place] += earning.amount
        fees[place] += earning.fee
    return [
        EarningsMonth(date(year, place + 1, 1), paid[place], ahead[place], fees[place])
        for place in range(12)
    ]


def find_next_payout(
    earnings: Iterable[Earning], local_day: Callable[[datetime], date]
) -> NextPayout | None:
    """The payouts of the earliest day that has a scheduled one, else of the day by which expected
    money is paid out first; None without any. `local_day` is the staff member's date of an
    instant."""
    scheduled: dict[date, list[int]] = {}
    expected: dict[date, list[int]] = {}
    for earning in earnings:
        if earning.payout_at is not None:
            amounts = {EarningState.SCHEDULED: scheduled, EarningState.EXPECTED: expected}
            if (found := amounts.get(earning.state)) is not None:
                left = earning.booking.payout_left
                found.setdefault(local_day(earning.payout_at), []).append(left)
    days = scheduled or expected
    if not days:
        return None
    day = min(days)
    return NextPayout(day, sum(days[day]), len(days[day]), is_latest=not scheduled)
