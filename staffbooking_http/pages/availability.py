"""Staff page for weekly hours and hours of single dates.

It calls the same use-cases as `/staff/availability`; hours are entered as text, such as
`09:00-12:00, 13:00-18:00`.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.companions.availability import (
    Calendar,
    Slot,
    format_hhmm,
    known_timezones,
    local_date,
)
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import FieldError, InvalidInput
from staffbooking_core.inputs import DateHours, SetAvailability
from staffbooking_core.usecases.companions import profiles
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    flash_text,
    get_call,
    read_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)

_HOURS_PATH = "/staff/hours"

_HOURS_FLASH_TEXTS = {
    "hours": "Your hours are saved.",
    "date": "The hours of that date are saved.",
    "cleared": "Your weekly hours hold on that date again.",
}
"""Messages of the hours page by flash code in the query string."""


@frozen(kw_only=True)
class _WeeklyHoursDraft:
    """The submitted weekly hours before validation, to refill the form."""

    timezone: DraftText = ""
    monday: DraftText = ""
    tuesday: DraftText = ""
    wednesday: DraftText = ""
    thursday: DraftText = ""
    friday: DraftText = ""
    saturday: DraftText = ""
    sunday: DraftText = ""


_WEEKDAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@frozen(kw_only=True)
class _DateHoursDraft:
    """The submitted hours of one date before validation, to refill the form."""

    date: DraftText = ""
    hours: DraftText = ""


@frozen(kw_only=True)
class _ClearDateForm:
    date: date


def _redirect_with_flash(path: str, code: str) -> Redirect:
    return Redirect(f"{path}?{code}", status_code=303)


# Parsing hours ----------------------------------------------------------------------------

_RANGE_SEPARATOR = re.compile(r"[-\u2010-\u2015\u2212]|to")
"""The separator of start and end: a hyphen, a dash, the minus sign or `to`."""
_ONE_DIGIT_HOUR = re.compile(r"[0-9]:[0-9]{2}")


def _format_slots(slots: Iterable[Slot]) -> str:
    return ", ".join(f"{format_hhmm(slot.start)}-{format_hhmm(slot.end)}" for slot in slots)


def _split_slots(text: str) -> list[str]:
    """The slot texts of a field such as `09:00-12:00, 13:00-18:00`."""
    parts = (" ".join(part.split()) for part in re.split("[,;]", text))
    return [part for part in parts if part]


def _parse_slot(part: str) -> dict[str, str]:
    """A slot as the API's input, not yet validated."""
    start, end = (*_RANGE_SEPARATOR.split(part, 1), "")[:2]
    return {"start": _normalize_clock_time(start), "end": _normalize_clock_time(end)}


def _normalize_clock_time(text: str) -> str:
    text = text.strip()
    return f"0{text}" if _ONE_DIGIT_HOUR.fullmatch(text) else text


_SLOT_FIELD_PATH = re.compile(r"(?:weekly|slots)\.([0-9]+)\.(start|end)")
_HOURS_FIELD_LABELS = {"weekly": "weekly hours", "slots": "hours"}


def _relabel_faults(
    error: InvalidInput | RateLimitExceeded, written: Sequence[tuple[str, str]]
) -> InvalidInput | RateLimitExceeded:
    """The error with each slot's fault named by its form field and its submitted text.

    `written` has the form field and text of each slot, in the order of the API's input.
    """
    if not isinstance(error, InvalidInput):
        return error
    faults = []
    for fault in error.field_errors:
        name, message = _HOURS_FIELD_LABELS.get(fault.field, fault.field), fault.message
        if place := _SLOT_FIELD_PATH.fullmatch(fault.field):
            name, part = written[int(place[1])]
            message = f"{part[:40]}: {place[2]} {message}"
        faults.append(FieldError(name, message))
    return type(error)(faults)


# Hours ------------------------------------------------------------------------------------


@get(_HOURS_PATH)
async def show_hours(request: PageRequest) -> Template:
    """Show the weekly hours and the dates with hours of their own."""
    call = get_call(request)
    visitor = await require_staff_member(call, _HOURS_PATH)
    return render(
        "hours.html",
        visitor,
        done=flash_text(call, _HOURS_FLASH_TEXTS),
        **await _hours_context(call, visitor),
    )


@post(_HOURS_PATH, status_code=200)
async def save_weekly_hours(request: PageRequest) -> Template | Redirect:
    """Save the weekly hours and the time zone; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call, _HOURS_PATH)
    week = query_string.parse_form(_WeeklyHoursDraft, await read_verified_form(call, visitor))
    written = [
        (name, part) for name in _WEEKDAY_NAMES for part in _split_slots(getattr(week, name))
    ]
    wanted = {
        "timezone": week.timezone or None,
        "weekly": [
            {"weekday": _WEEKDAY_NAMES.index(name), **_parse_slot(part)} for name, part in written
        ],
    }
    try:
        await rate_limits.count_user(call, visitor.user.id)
        given = structure(SetAvailability, wanted)
        await profiles.set_availability(call.ports, visitor.actor, given)
    except (InvalidInput, RateLimitExceeded) as error:
        placed = _relabel_faults(error, written)
        return render_error(
            "hours.html", visitor, placed, **await _hours_context(call, visitor, week=week)
        )
    return _redirect_with_flash(_HOURS_PATH, "hours")


@post("/staff/hours/dates", status_code=200)
async def save_date_hours(request: PageRequest) -> Template | Redirect:
    """Save the hours of one date; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call, _HOURS_PATH)
    day = query_string.parse_form(_DateHoursDraft, await read_verified_form(call, visitor))
    parts = _split_slots(day.hours)
    wanted = {"date": day.date or None, "slots": [_parse_slot(part) for part in parts]}
    try:
        await rate_limits.count_user(call, visitor.user.id)
        await profiles.set_date_hours(call.ports, visitor.actor, structure(DateHours, wanted))
    except (InvalidInput, RateLimitExceeded) as error:
        placed = _relabel_faults(error, [("hours", part) for part in parts])
        return render_error(
            "hours.html", visitor, placed, **await _hours_context(call, visitor, day=day)
        )
    return _redirect_with_flash(_HOURS_PATH, "date")


@post("/staff/hours/dates/clear", status_code=200)
async def clear_date_hours(request: PageRequest) -> Redirect:
    """Remove the hours of one date, so that its weekly hours apply again."""
    call = get_call(request)
    visitor = await require_staff_member(call, _HOURS_PATH)
    day = (await read_form(call, visitor, _ClearDateForm)).date
    await profiles.clear_date_hours(call.ports, visitor.actor, day)
    return _redirect_with_flash(_HOURS_PATH, "cleared")


async def _hours_context(
    call: Call,
    visitor: SignedInUser,
    week: _WeeklyHoursDraft | None = None,
    day: _DateHoursDraft | None = None,
) -> dict[str, Any]:
    """The template context: stored hours, except for the drafts given."""
    calendar = (await profiles.get_profile(call.ports, visitor.actor)).calendar
    now = await call.ports.clock.business()
    today = local_date(calendar.timezone, now)
    coming = sorted(
        (each.date, _format_slots(each.slots)) for each in calendar.overrides if each.date >= today
    )
    return {
        "week": week or _weekly_hours_draft(calendar),
        "timezones": sorted(known_timezones()),
        "days": _WEEKDAY_NAMES,
        "always": not calendar.weekly,
        "dates": [(f"{each:%A}", each, text) for each, text in coming],
        "day": day or _DateHoursDraft(),
        "today": today,
    }


def _weekly_hours_draft(calendar: Calendar) -> _WeeklyHoursDraft:
    texts = {
        name: _format_slots(each.slot for each in calendar.weekly if each.weekday == number)
        for number, name in enumerate(_WEEKDAY_NAMES)
    }
    return _WeeklyHoursDraft(timezone=calendar.timezone, **texts)


PAGES = (
    show_hours,
    save_weekly_hours,
    save_date_hours,
    clear_date_hours,
)
