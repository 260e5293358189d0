"""Search, detail and availability of listed companions (SPECIFICATION 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from attrs import evolve

from staffbooking_core.domain.companions.availability import (
    DAY,
    MAX_CALENDAR_DATE,
    MIN_CALENDAR_DATE,
    DayAvailability,
    add_years,
    daily_availability,
    has_free_hour,
    local_date,
)
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.errors import FieldError, InvalidField, NotFound, invalid_field
from staffbooking_core.ports import Ports
from staffbooking_core.representations.calendars import FreeDaysRecord, free_days_record
from staffbooking_core.validation import validated


@validated
async def search(ports: Ports, query: CompanionQuery) -> Sequence[bytes]:
    """Encoded summaries of a page, up to `query.limit + 1`: one more means that another page
    follows (SPECIFICATION 4.2).

    1. A date that is over everywhere, or beyond the days that can be booked, finds nobody.
    2. A date that has begun somewhere is searched in the order of the result, and only companions
       with a free hour ahead of now are found (`_search_current_day`).
    3. All other searches are one query.

    Raises InvalidField on `min_price` above `max_price`.
    """
    low, high = query.min_price, query.max_price
    if low is not None and high is not None and low > high:
        raise invalid_field("min_price", "must not be above max_price")
    if query.date is not None:
        now = await ports.clock.business()
        first_day = (now + _WESTERNMOST_OFFSET).date()
        last_day = (now + _EASTERNMOST_OFFSET).date()
        if not first_day <= query.date <= add_years(last_day, ports.policy.book_ahead_years):
            return ()
        if query.date <= last_day:
            return await _search_current_day(ports, query, query.date, now)
    async with ports.store.read_view() as view:
        return await view.companions.search(query)


_WESTERNMOST_OFFSET, _EASTERNMOST_OFFSET = timedelta(hours=-12), timedelta(hours=14)
_CANDIDATE_BATCH_SIZE = 100
MAX_CURRENT_DAY_CANDIDATES = 5_000
"""Companions whose hours are looked at for one page of a day that has begun. Those ranked after
them are not found."""


async def _search_current_day(
    ports: Ports, query: CompanionQuery, day: date, now: datetime
) -> Sequence[bytes]:
    """A page of the companions with a free hour ahead of `now` on a day that has begun somewhere:
    the search index knows whole days only, so the hours of each candidate are looked at."""
    start, found = (query.page - 1) * query.limit, list[bytes]()
    end = start + query.limit + 1
    midnight = datetime.combine(day, time(), UTC)
    async with ports.store.read_view() as view:
        for page in range(1, MAX_CURRENT_DAY_CANDIDATES // _CANDIDATE_BATCH_SIZE + 1):
            candidates = await view.companions.search_candidates(
                evolve(query, page=page, limit=_CANDIDATE_BATCH_SIZE),
                midnight - DAY,
                midnight + 2 * DAY,
            )
            agendas = ((one.summary, one.availability) for one in candidates)
            found += [
                summary
                for summary, agenda in agendas
                if has_free_hour(agenda.calendar, agenda.busy, day, now)
            ]
            if len(candidates) < _CANDIDATE_BATCH_SIZE or len(found) >= end:
                break
    return found[start:end]


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
    CONTRACT 3). Time that has begun, and days that cannot be booked yet, are not free.

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
    today = local_date(agenda.calendar.timezone, now)
    last_day = add_years(today, ports.policy.book_ahead_years)
    days = [day if day.date <= last_day else DayAvailability(day.date, ()) for day in days]
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


async def list_service_names(ports: Ports) -> Sequence[str]:
    """The names of all offered service types."""
    async with ports.store.read_view() as view:
        return await view.companions.service_names()
