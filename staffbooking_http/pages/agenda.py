"""The agenda of a week on a staff member's home page."""

from contextlib import suppress
from datetime import date, timedelta
from typing import Annotated, Any

from attrs import frozen

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.booking_limits import add_years
from staffbooking_core.errors import InvalidInput
from staffbooking_core.usecases.bookings.overview import BookingsOverview
from staffbooking_core.usecases.companions import hours
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import drop_empty_fields

_WEEK = timedelta(days=7)


@frozen(kw_only=True)
class _WeekQuery:
    week: Annotated[str, TextBounds(40, 0, characters=AllowedCharacters.OPAQUE)] = ""
    """A day of the week."""


async def agenda_context(
    call: Call, visitor: SignedInUser, overview: BookingsOverview
) -> dict[str, Any]:
    """The template context of `agenda.html`: the week that the query string asks for, by default
    the current one, and the bookings ahead that come after it. Open disputes are left out: the page
    lists them by themselves."""
    now = await call.ports.clock.business()
    bounds = add_years(now.date(), -1), add_years(now.date(), 3)
    wanted = _read_week(call.scope["query_string"])
    day = min(max(wanted or now.date(), bounds[0]), bounds[1])
    first_weekday = view_of_scope(call.scope).locale.formats.first_week_day
    first = day - timedelta(days=(day.weekday() - first_weekday) % 7)
    agenda = await hours.get_agenda(call.ports, visitor.actor, first, first + _WEEK - _DAY)
    if wanted is None and agenda.find_day(agenda.today) is None:
        # The calendar's day may be another one than that of the service.
        first += _WEEK if agenda.today > first else -_WEEK
        agenda = await hours.get_agenda(call.ports, visitor.actor, first, first + _WEEK - _DAY)
    last = agenda.days[-1].date
    return {
        "agenda": agenda,
        "now": agenda.now,
        "is_current": agenda.find_day(agenda.today) is not None,
        "week_before": first - _WEEK if first > bounds[0] else None,
        "week_after": first + _WEEK if last < bounds[1] else None,
        "later": [
            each
            for each in overview.ahead
            if each.booking.event_date > last and each.booking.status is not BookingStatus.DISPUTED
        ],
    }


_DAY = timedelta(days=1)


def _read_week(query: bytes) -> date | None:
    with suppress(InvalidInput, ValueError):
        found = query_string.parse_query(_WeekQuery, drop_empty_fields(query)).week
        return date.fromisoformat(found) if found else None
    return None
