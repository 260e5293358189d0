"""What a staff member has earned and will be paid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Annotated, TypeAlias

from attrs import frozen

from staffbooking_core.bounds import IntegerBounds
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.earnings import (
    Earning,
    EarningsMonth,
    EarningState,
    NextPayout,
    describe_earning,
    find_next_payout,
    sum_months,
)
from staffbooking_core.domain.companions.availability import local_date
from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated

__all__ = ["EarningsOverview", "get_earnings"]

FIRST_YEAR, LAST_YEAR = 2000, 2100
"""The years that may be asked for."""
_Year: TypeAlias = Annotated[int, IntegerBounds(FIRST_YEAR, LAST_YEAR)]
_MAX_OF_A_YEAR = 5_000
_MAX_OPEN = 500


@frozen
class EarningsOverview:
    """A year of earnings, the newest event first, and what is open of all years. Amounts are minor
    units of the service's currency; bookings in another one are listed and not summed."""

    year: int
    years: Sequence[int]
    """The years to choose from, the newest first."""
    timezone: str
    earnings: Sequence[Earning]
    months: Sequence[EarningsMonth]
    next_payout: NextPayout | None
    scheduled: int
    """Of all years, as all that follows."""
    expected: int
    held: int
    delayed: int
    owed: int
    """What is withheld from the next payouts, for bookings whose payout was taken back."""


@validated
async def get_earnings(ports: Ports, actor: Actor, year: _Year | None = None) -> EarningsOverview:
    """The staff member's earnings of a year, by default of the present one in their time zone. At
    most 5,000 bookings of the year and 500 open ones are read."""
    policy, now = ports.policy, await ports.clock.business()
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
        timezone = "UTC" if companion is None else companion.calendar.timezone
        today = local_date(timezone, now)
        shown = today.year if year is None else year
        rows = await view.bookings.earnings_of(
            actor.user_id, date(shown, 1, 1), date(shown, 12, 31), _MAX_OF_A_YEAR
        )
        open_rows = await view.bookings.open_earnings_of(actor.user_id, _MAX_OPEN)
    code = policy.currency.code
    earnings = [describe_earning(booking, policy) for booking in rows]
    awaited = [
        describe_earning(booking, policy) for booking in open_rows if booking.currency == code
    ]
    sums = dict.fromkeys(EarningState, 0)
    for earning in awaited:
        sums[earning.state] += earning.booking.payout_left
    first = today.year if companion is None else companion.member_since.year
    last = max((booking.event_date.year for booking in open_rows), default=today.year)
    return EarningsOverview(
        year=shown,
        years=sorted({shown, *range(first, max(last, today.year) + 1)}, reverse=True),
        timezone=timezone,
        earnings=earnings,
        months=sum_months(shown, (each for each in earnings if each.booking.currency == code)),
        next_payout=find_next_payout(awaited, partial(local_date, timezone)),
        scheduled=sums[EarningState.SCHEDULED],
        expected=sums[EarningState.EXPECTED],
        held=sums[EarningState.HELD],
        delayed=sums[EarningState.DELAYED],
        owed=sum(earning.booking.owed_by_staff for earning in awaited),
    )
