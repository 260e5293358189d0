"""Staff pages for weekly hours, hours of single dates, the calendar feed and busy times.

They call the same use-cases as `/staff/availability`, `/staff/calendar-feed` and
`/staff/busy-times`; hours are entered as text, such as `09:00-12:00, 13:00-18:00`.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

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
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases.companions import calendars, profiles
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    flash_text,
    get_call,
    read_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)
from staffbooking_http.routes.calendars import feed_url

_HOURS_PATH, _CALENDARS_PATH = "/staff/hours", "/staff/calendars"
_MAX_BUSY_TIMES_SHOWN = 10
"""The number of coming busy times shown."""

_HOURS_FLASH_TEXTS = {
    "hours": "Your hours are saved.",
    "date": "The hours of that date are saved.",
    "cleared": "Your weekly hours hold on that date again.",
}
"""Messages of the hours page by flash code in the query string."""
_CALENDARS_FLASH_TEXTS = {
    "revoked": "The feed is revoked: its address shows nothing any more.",
    "taken": "Your busy times are taken from the file.",
    "forgotten": "Your busy times are forgotten.",
}
"""Messages of the calendars page by flash code."""


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


# Calendars --------------------------------------------------------------------------------


@get(_CALENDARS_PATH)
async def show_calendars(request: PageRequest) -> Template:
    """Show the calendar feed and the imported busy times."""
    call = get_call(request)
    visitor = await require_staff_member(call, _CALENDARS_PATH)
    return render(
        "calendars.html",
        visitor,
        done=flash_text(call, _CALENDARS_FLASH_TEXTS),
        **await _calendars_context(call, visitor),
    )


@post("/staff/calendars/feed", status_code=200)
async def create_calendar_feed(request: PageRequest) -> Template:
    """Create or replace the calendar feed; only this response shows its URL."""
    call = get_call(request)
    visitor = await require_staff_member(call, _CALENDARS_PATH)
    await read_form(call, visitor, CsrfForm)
    secret, _ = await calendars.create_feed(call.ports, visitor.actor)
    url = feed_url(call, secret)
    return render("calendars.html", visitor, url=url, **await _calendars_context(call, visitor))


@post("/staff/calendars/feed/revoke", status_code=200)
async def revoke_calendar_feed(request: PageRequest) -> Redirect:
    """Remove the calendar feed, so that its URL stops working."""
    call = get_call(request)
    visitor = await require_staff_member(call, _CALENDARS_PATH)
    await read_form(call, visitor, CsrfForm)
    await calendars.remove_feed(call.ports, visitor.actor)
    return _redirect_with_flash(_CALENDARS_PATH, "revoked")


@post("/staff/calendars/busy", status_code=200)
async def import_busy_times(request: PageRequest) -> Template | Redirect:
    """Replace the busy times with those of an uploaded file; an invalid file changes nothing."""
    call = get_call(request)
    visitor = await require_staff_member(call, _CALENDARS_PATH)

    async def work(upload: Upload) -> None:
        await calendars.set_busy_times(call.ports, visitor.actor, upload.content)

    most = call.ports.policy.max_calendar_bytes
    try:
        await read_upload_form(call, visitor, "/staff/busy-times", most, work)
    except (InvalidInput, RateLimitExceeded, HttpError) as error:
        return render_error(
            "calendars.html", visitor, error, **await _calendars_context(call, visitor)
        )
    return _redirect_with_flash(_CALENDARS_PATH, "taken")


@post("/staff/calendars/busy/forget", status_code=200)
async def clear_busy_times(request: PageRequest) -> Redirect:
    """Delete the imported busy times."""
    call = get_call(request)
    visitor = await require_staff_member(call, _CALENDARS_PATH)
    await read_form(call, visitor, CsrfForm)
    await calendars.clear_busy_times(call.ports, visitor.actor)
    return _redirect_with_flash(_CALENDARS_PATH, "forgotten")


async def _calendars_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context: the creation time of the feed and the coming busy times."""
    since = await calendars.feed_created_at(call.ports, visitor.actor)
    calendar = (await profiles.get_profile(call.ports, visitor.actor)).calendar
    now, zone = await call.ports.clock.business(), ZoneInfo(calendar.timezone)
    coming = [span for span in calendar.busy if span.ends_at > now]
    return {
        "since": since and format_instant(since),
        "most": call.ports.policy.max_calendar_bytes,
        "count": len(coming),
        "until": calendar.busy_until,
        "timezone": calendar.timezone,
        "coming": [
            _format_span(span.starts_at.astimezone(zone), span.ends_at.astimezone(zone))
            for span in coming[:_MAX_BUSY_TIMES_SHOWN]
        ],
    }


def _format_span(start: datetime, end: datetime) -> tuple[str, str]:
    """The start's day, and the time range with the end's date if it differs."""
    times = "%H:%M" if start.date() == end.date() else "%H:%M on %Y-%m-%d"
    return f"{start:%A, %Y-%m-%d}", f"{start:%H:%M} to {end.strftime(times)}"


PAGES = (
    show_hours,
    save_weekly_hours,
    save_date_hours,
    clear_date_hours,
    show_calendars,
    create_calendar_feed,
    revoke_calendar_feed,
    import_busy_times,
    clear_busy_times,
)
