"""Search, detail and availability of listed companions (SPECIFICATION 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time

from staffbooking_core.domain.companions.availability import (
    DAY,
    MAX_CALENDAR_DATE,
    MIN_CALENDAR_DATE,
    daily_availability,
    has_free_hour,
)
from staffbooking_core.domain.companions.booking_limits import (
    NO_LIMITS,
    DateBounds,
    date_bounds,
)
from staffbooking_core.domain.companions.companion import CompanionQuery, normalize_place
from staffbooking_core.errors import FieldError, InvalidField, NotFound, invalid_field
from staffbooking_core.ports import Ports, ReadView, SearchCandidate
from staffbooking_core.representations.calendars import FreeDaysRecord, free_days_record
from staffbooking_core.usecases.candidates import MAX_CANDIDATES, find_candidates
from staffbooking_core.validation import validated

__all__ = [
    "count_cities",
    "count_service_types",
    "get_availability",
    "get_detail",
    "last_listed_id",
    "list_listed_ids",
    "list_service_names",
    "search",
]


@validated
async def search(ports: Ports, query: CompanionQuery) -> Sequence[bytes]:
    """Encoded summaries of a page, up to `query.limit + 1`: one more means that another page
    follows (SPECIFICATION 4.2).

    1. A date that is over everywhere, or beyond every horizon, finds nobody without a query.
    2. A date on which companions without limits can be booked all day, in any time zone, is one
       query of the index, unless the limits of a companion are close to that date.
    3. Of other dates the index gives candidates, whose hours are looked at: the first 5,000.

    Raises InvalidField on `min_price` above `max_price`.
    """
    low, high = query.min_price, query.max_price
    if low is not None and high is not None and low > high:
        raise invalid_field("min_price", "must not be above max_price")
    if query.location and not normalize_place(query.location).strip():
        return ()  # Accents alone: what is left is part of every place.
    if query.date is None:
        async with ports.store.read_view() as view:
            return (await view.companions.search(query)).summaries
    if not MIN_CALENDAR_DATE <= query.date <= MAX_CALENDAR_DATE:
        return ()
    now = await ports.clock.business()
    bounds = date_bounds(query.date, now)
    if bounds.allow_nobody:
        return ()
    async with ports.store.read_view() as view:
        if bounds.surely_allow(NO_LIMITS):
            page = await view.companions.search(query, bounds)
            if page.is_exact:
                return page.summaries
        return await _search_by_hours(view, query, query.date, bounds, now)


async def _search_by_hours(
    view: ReadView, query: CompanionQuery, day: date, bounds: DateBounds, now: datetime
) -> Sequence[bytes]:
    """A page of the companions with an hour on a day that can be booked now: the hours of the
    candidates are looked at in the order of the result."""
    start = (query.page - 1) * query.limit
    if start >= MAX_CANDIDATES:
        return ()
    midnight = datetime.combine(day, time(), UTC)

    def is_wanted(candidate: SearchCandidate) -> bool:
        agenda = candidate.availability
        return has_free_hour(agenda.calendar, agenda.busy, day, now)

    busy_within = (midnight - DAY, midnight + 2 * DAY)
    count = start + query.limit + 1
    found = await find_candidates(view, query, busy_within, bounds, is_wanted, count)
    return found[start:]


@validated
async def get_detail(ports: Ports, companion_id: int) -> bytes:
    """The encoded detail of a listed companion (SPECIFICATION 4.3). Raises NotFound."""
    async with ports.store.read_view() as view:
        found = await view.companions.detail(companion_id)
    if found is None:
        raise NotFound("Companion")
    return found


@validated
async def get_availability(
    ports: Ports, companion_id: int, start_date: date, end_date: date
) -> FreeDaysRecord:
    """The free slots of each local day, `start_date` and `end_date` included (SPECIFICATION 4.4,
    CONTRACT 3). Only what can be booked now is free.

    Raises InvalidField on `start_date` or `end_date`, and NotFound for a companion that is not
    listed.
    """
    _check_range(start_date, end_date, ports.policy.availability_days)
    first = datetime.combine(start_date, time(), UTC) - DAY
    last = datetime.combine(end_date, time(), UTC) + 2 * DAY
    async with ports.store.read_view() as view:
        agenda = await view.companions.availability(companion_id, first, last)
    if agenda is None:
        raise NotFound("Companion")
    now = await ports.clock.business()
    days = daily_availability(agenda.calendar, agenda.busy, start_date, end_date, now)
    return free_days_record(companion_id, agenda.calendar.timezone, start_date, end_date, days)


def _check_range(start_date: date, end_date: date, max_days: int) -> None:
    faults = [
        FieldError(name, f"must lie between {MIN_CALENDAR_DATE} and {MAX_CALENDAR_DATE}")
        for name, day in (("start_date", start_date), ("end_date", end_date))
        if not MIN_CALENDAR_DATE <= day <= MAX_CALENDAR_DATE
    ]
    if not faults and end_date < start_date:
        faults = [FieldError("end_date", "must not be before start_date")]
    elif not faults and (end_date - start_date).days >= max_days:
        faults = [FieldError("end_date", f"is too far from start_date: at most {max_days} days")]
    if faults:
        raise InvalidField(faults)


async def count_service_types(ports: Ports) -> Sequence[tuple[str, int]]:
    """Every offered service type with the number of listed companions that offer it."""
    async with ports.store.read_view() as view:
        return await view.companions.service_type_counts()


@validated
async def count_cities(ports: Ports, limit: int) -> Sequence[tuple[str, str, int]]:
    """The cities with the most listed companions, with their country and that number."""
    async with ports.store.read_view() as view:
        return await view.companions.city_counts(limit)


async def last_listed_id(ports: Ports) -> int:
    """The highest id of a listed companion; 0 where none is listed."""
    async with ports.store.read_view() as view:
        return await view.companions.last_listed_id()


@validated
async def list_listed_ids(ports: Ports, first_id: int, last_id: int) -> Sequence[int]:
    """The ids of the listed companions from `first_id` to `last_id`, ascending."""
    async with ports.store.read_view() as view:
        return await view.companions.listed_ids(first_id, last_id)


async def list_service_names(ports: Ports) -> Sequence[str]:
    """The names of all offered service types."""
    async with ports.store.read_view() as view:
        return await view.companions.service_names()
