"""What a staff member has earned: the figures, the chart and the rows of a year, and their file."""

import csv
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any

from attrs import frozen
from litestar import Response, get

from staffbooking_core.bounds import IntegerBounds
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.earnings import Earning, EarningsMonth, EarningState
from staffbooking_core.domain.companions.availability import local_date
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.usecases.payments.earnings import (
    FIRST_YEAR,
    LAST_YEAR,
    EarningsOverview,
    get_earnings,
)
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.query_string import PageNumber
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    get_call,
    require_staff_member,
)

_ROWS_OF_A_PAGE = 25
_CHART_HEIGHT = 100
_STATE_LABELS: Mapping[EarningState, str] = {
    EarningState.EXPECTED: "In escrow",
    EarningState.SCHEDULED: "Scheduled",
    EarningState.PAID: "Paid out",
    EarningState.DELAYED: "Delayed",
    EarningState.HELD: "On hold",
    EarningState.REVERSED: "Taken back",
}
"""The label of each state, as a message id."""
_STATE_KINDS = {
    EarningState.EXPECTED: "waits",
    EarningState.SCHEDULED: "waits",
    EarningState.PAID: "good",
    EarningState.DELAYED: "bad",
    EarningState.HELD: "bad",
}
"""The kind of the badge of each state."""
_COLUMN_LABELS = (
    *("Booking", "Event date", "Service", "Customer", "State", "Price"),
    *("Returned to the customer", "Fee", "You get", "Currency", "Payout date"),
)
"""The heads of the file's columns, as message ids."""
_FORMULA_SIGNS = tuple("=+-@\t\r\n")
"""Signs at the beginning of a cell from which programs make a formula."""


@frozen(kw_only=True)
class _EarningsQuery:
    year: Annotated[int, IntegerBounds(FIRST_YEAR, LAST_YEAR)] | None = None
    page: PageNumber = 1


@frozen
class _Bar:
    """A month of the chart: the tops and heights of its two parts, in percent of the chart."""

    month: EarningsMonth
    place: int
    paid_height: int
    ahead_height: int

    @property
    def paid_top(self) -> int:
        return _CHART_HEIGHT - self.paid_height

    @property
    def ahead_top(self) -> int:
        return self.paid_top - self.ahead_height


async def earnings_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context of the visitor's earnings, of the year and page of the query."""
    query = _parse(call)
    overview = await get_earnings(call.ports, visitor.actor, query.year)
    first = (query.page - 1) * _ROWS_OF_A_PAGE
    shown = overview.earnings[first : first + _ROWS_OF_A_PAGE]
    return {
        "overview": overview,
        "paid_of_year": sum(month.paid for month in overview.months),
        "ahead_of_year": sum(month.ahead for month in overview.months),
        "fees_of_year": sum(month.fees for month in overview.months),
        "highest": max(month.paid + month.ahead for month in overview.months),
        "bars": _draw_bars(overview.months),
        "rows": shown,
        "state_labels": _STATE_LABELS,
        "state_kinds": _STATE_KINDS,
        "currency": call.ports.policy.currency.code,
        "decimal": call.ports.policy.currency.to_decimal,
        "decimal_of": _decimal_of,
        "number": query.page,
        "has_more": len(overview.earnings) > first + _ROWS_OF_A_PAGE,
    }


def _parse(call: Call) -> _EarningsQuery:
    return query_string.parse_query(_EarningsQuery, drop_empty_fields(call.scope["query_string"]))


def _decimal_of(booking: Booking, amount: int) -> Decimal:
    """An amount of a booking in the units of its currency."""
    return Currency(booking.currency).to_decimal(amount)


def _draw_bars(months: Sequence[EarningsMonth]) -> Sequence[_Bar]:
    """The bars of the months, the highest as high as the chart; none where all are empty."""
    highest = max(month.paid + month.ahead for month in months)
    if not highest:
        return ()

    def height(amount: int) -> int:
        # What is more than nothing is seen.
        return max(round(_CHART_HEIGHT * amount / highest), 2) if amount else 0

    return [
        _Bar(month, place, height(month.paid), min(height(month.ahead), 100 - height(month.paid)))
        for place, month in enumerate(months)
    ]


@get("/staff/payouts/earnings.csv")
async def download_earnings(request: PageRequest) -> Response[bytes]:
    """The year's earnings as comma-separated values, one booking a row."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to="/staff/payouts")
    overview = await get_earnings(call.ports, visitor.actor, _parse(call).year)
    translate = view_of_scope(call.scope).locale.translations.gettext
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([translate(name) for name in _COLUMN_LABELS])
    for earning in overview.earnings:
        cells = _cells(earning, overview, translate(_STATE_LABELS[earning.state]))
        writer.writerow([_without_formula(cell) for cell in cells])
    headers = {"content-disposition": f'attachment; filename="earnings-{overview.year}.csv"'}
    content = text.getvalue().encode("utf-8-sig")  # The mark tells spreadsheets the encoding.
    return Response(content, media_type="text/csv", headers=headers)


def _cells(earning: Earning, overview: EarningsOverview, state: str) -> Sequence[str]:
    booking, payout_at = earning.booking, earning.payout_at
    amounts = (booking.price, earning.returned, earning.fee, earning.amount)
    day = "" if payout_at is None else local_date(overview.timezone, payout_at).isoformat()
    return [
        booking.code,
        booking.event_date.isoformat(),
        booking.service_type,
        booking.customer_name,
        state,
        *(str(_decimal_of(booking, amount)) for amount in amounts),
        booking.currency.upper(),
        day,
    ]


def _without_formula(cell: str) -> str:
    """The cell as text that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA_SIGNS) else cell


PAGES = (download_earnings,)
