"""Pages on which staff members say when they work: hours of the week, of single dates, and what
their own calendars tell. They do what `/staff/availability`, `/staff/calendar-feed` and
`/staff/busy-times` do; hours are written in words."""

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
    local_date,
    timezones,
)
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import Fault, InvalidInput
from staffbooking_core.inputs import DateHours, SetAvailability
from staffbooking_core.representations.records import instant
from staffbooking_core.usecases.companions import calendars, profiles
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import Refused
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.session import (
    Asked,
    Proof,
    Visitor,
    Written,
    call_of,
    proven,
    read_file,
    read_form,
    refused,
    shown,
    staff_member,
    told,
)
from staffbooking_http.routes.calendars import address_of

_HOURS, _CALENDARS = "/staff/hours", "/staff/calendars"
_LISTED = 10
"""Busy times that are shown."""

_HOURS_DONE = {
    "hours": "Your hours are saved.",
    "date": "The hours of that date are saved.",
    "cleared": "Your weekly hours hold on that date again.",
}
"""What happened, by the word that the page's address ends in."""
_CALENDARS_DONE = {
    "revoked": "The feed is revoked: its address shows nothing any more.",
    "taken": "Your busy times are taken from the file.",
    "forgotten": "Your busy times are forgotten.",
}
"""The same of the other page."""


@frozen(kw_only=True)
class _Week:
    """What somebody filled in for all weeks, whether it can be taken or not."""

    timezone: Written = ""
    monday: Written = ""
    tuesday: Written = ""
    wednesday: Written = ""
    thursday: Written = ""
    friday: Written = ""
    saturday: Written = ""
    sunday: Written = ""


_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@frozen(kw_only=True)
class _Day:
    """What somebody filled in for one date, whether it can be taken or not."""

    date: Written = ""
    hours: Written = ""


@frozen(kw_only=True)
class _Cleared:
    date: date


def _back(path: str, word: str) -> Redirect:
    return Redirect(f"{path}?{word}", status_code=303)


# Hours as they are written ----------------------------------------------------------------

_TO = re.compile(r"[-\u2010-\u2015\u2212]|to")
"""What stands between two times: also a dash, or the minus."""
_SHORT = re.compile(r"[0-9]:[0-9]{2}")


def _text(slots: Iterable[Slot]) -> str:
    return ", ".join(f"{format_hhmm(slot.start)}-{format_hhmm(slot.end)}" for slot in slots)


def _parts(text: str) -> list[str]:
    """What stands for a slot each in a text such as `09:00-12:00, 13:00-18:00`."""
    parts = (" ".join(part.split()) for part in re.split("[,;]", text))
    return [part for part in parts if part]


def _slot(part: str) -> dict[str, str]:
    """A slot as the interface takes it, or refuses it."""
    start, end = (*_TO.split(part, 1), "")[:2]
    return {"start": _clock(start), "end": _clock(end)}


def _clock(text: str) -> str:
    text = text.strip()
    return f"0{text}" if _SHORT.fullmatch(text) else text


_PLACE = re.compile(r"(?:weekly|slots)\.([0-9]+)\.(start|end)")
_NAMES = {"weekly": "weekly hours", "slots": "hours"}


def _placed(
    error: InvalidInput | LimitExceeded, written: Sequence[tuple[str, str]]
) -> InvalidInput | LimitExceeded:
    """The same refusal, where it is of a slot by the field in which it was written, and how."""
    if not isinstance(error, InvalidInput):
        return error
    faults = []
    for fault in error.faults:
        name, message = _NAMES.get(fault.field, fault.field), fault.message
        if place := _PLACE.fullmatch(fault.field):
            name, part = written[int(place[1])]
            message = f"{part[:40]}: {place[2]} {message}"
        faults.append(Fault(name, message))
    return type(error)(faults)


# Hours ------------------------------------------------------------------------------------


@get(_HOURS)
async def hours(request: Asked) -> Template:
    """The hours of all weeks, and of the dates that have others."""
    call = call_of(request)
    visitor = await staff_member(call, _HOURS)
    return shown("hours.html", visitor, done=told(call, _HOURS_DONE), **await _kept(call, visitor))


@post(_HOURS, status_code=200)
async def save(request: Asked) -> Template | Redirect:
    """Save those of all weeks, with the zone; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await staff_member(call, _HOURS)
    week = query_string.read_form(_Week, await proven(call, visitor))
    written = [(name, part) for name in _DAYS for part in _parts(getattr(week, name))]
    wanted = {
        "timezone": week.timezone or None,
        "weekly": [{"weekday": _DAYS.index(name), **_slot(part)} for name, part in written],
    }
    try:
        await rate_limits.count(call, f"user:{visitor.user.id}")
        given = structure(SetAvailability, wanted)
        await profiles.set_availability(call.ports, visitor.actor, given)
    except (InvalidInput, LimitExceeded) as error:
        placed = _placed(error, written)
        return refused("hours.html", visitor, placed, **await _kept(call, visitor, week=week))
    return _back(_HOURS, "hours")


@post("/staff/hours/dates", status_code=200)
async def save_date(request: Asked) -> Template | Redirect:
    """Save those of one date; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await staff_member(call, _HOURS)
    day = query_string.read_form(_Day, await proven(call, visitor))
    parts = _parts(day.hours)
    wanted = {"date": day.date or None, "slots": [_slot(part) for part in parts]}
    try:
        await rate_limits.count(call, f"user:{visitor.user.id}")
        await profiles.set_day(call.ports, visitor.actor, structure(DateHours, wanted))
    except (InvalidInput, LimitExceeded) as error:
        placed = _placed(error, [("hours", part) for part in parts])
        return refused("hours.html", visitor, placed, **await _kept(call, visitor, day=day))
    return _back(_HOURS, "date")


@post("/staff/hours/dates/clear", status_code=200)
async def clear_date(request: Asked) -> Redirect:
    """Let the weekly hours rule a date again."""
    call = call_of(request)
    visitor = await staff_member(call, _HOURS)
    day = (await read_form(call, visitor, _Cleared)).date
    await profiles.clear_day(call.ports, visitor.actor, day)
    return _back(_HOURS, "cleared")


async def _kept(
    call: Call, visitor: Visitor, week: _Week | None = None, day: _Day | None = None
) -> dict[str, Any]:
    """What the page shows: all as it is stored, but for what somebody has filled in."""
    calendar = (await profiles.profile(call.ports, visitor.actor)).calendar
    now = await call.ports.clock.business()
    today = local_date(calendar.timezone, now)
    coming = sorted(
        (each.date, _text(each.slots)) for each in calendar.overrides if each.date >= today
    )
    return {
        "week": week or _week(calendar),
        "timezones": sorted(timezones()),
        "days": _DAYS,
        "always": not calendar.weekly,
        "dates": [(f"{each:%A}", each, text) for each, text in coming],
        "day": day or _Day(),
        "today": today,
    }


def _week(calendar: Calendar) -> _Week:
    texts = {
        name: _text(each.slot for each in calendar.weekly if each.weekday == number)
        for number, name in enumerate(_DAYS)
    }
    return _Week(timezone=calendar.timezone, **texts)


# Calendars --------------------------------------------------------------------------------


@get(_CALENDARS)
async def elsewhere(request: Asked) -> Template:
    """What other calendars are told, and have told."""
    call = call_of(request)
    visitor = await staff_member(call, _CALENDARS)
    return shown(
        "calendars.html", visitor, done=told(call, _CALENDARS_DONE), **await _known(call, visitor)
    )


@post("/staff/calendars/feed", status_code=200)
async def make_feed(request: Asked) -> Template:
    """Make a feed, or a new one in its place: its address stands on this answer alone."""
    call = call_of(request)
    visitor = await staff_member(call, _CALENDARS)
    await read_form(call, visitor, Proof)
    secret, _ = await calendars.make_feed(call.ports, visitor.actor)
    url = address_of(call, secret)
    return shown("calendars.html", visitor, url=url, **await _known(call, visitor))


@post("/staff/calendars/feed/revoke", status_code=200)
async def revoke_feed(request: Asked) -> Redirect:
    """Let its address open nothing any more."""
    call = call_of(request)
    visitor = await staff_member(call, _CALENDARS)
    await read_form(call, visitor, Proof)
    await calendars.remove_feed(call.ports, visitor.actor)
    return _back(_CALENDARS, "revoked")


@post("/staff/calendars/busy", status_code=200)
async def take_busy(request: Asked) -> Template | Redirect:
    """Take the busy times of a file; one that can't be read changes nothing."""
    call = call_of(request)
    visitor = await staff_member(call, _CALENDARS)

    async def work(upload: Upload) -> None:
        await calendars.set_busy_times(call.ports, visitor.actor, upload.content)

    most = call.ports.policy.max_calendar_bytes
    try:
        await read_file(call, visitor, "/staff/busy-times", most, work)
    except (InvalidInput, LimitExceeded, Refused) as error:
        return refused("calendars.html", visitor, error, **await _known(call, visitor))
    return _back(_CALENDARS, "taken")


@post("/staff/calendars/busy/forget", status_code=200)
async def forget_busy(request: Asked) -> Redirect:
    """Know of none any more."""
    call = call_of(request)
    visitor = await staff_member(call, _CALENDARS)
    await read_form(call, visitor, Proof)
    await calendars.clear_busy_times(call.ports, visitor.actor)
    return _back(_CALENDARS, "forgotten")


async def _known(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows: since when there is a feed, and the busy times that come next."""
    since = await calendars.feed_since(call.ports, visitor.actor)
    calendar = (await profiles.profile(call.ports, visitor.actor)).calendar
    now, zone = await call.ports.clock.business(), ZoneInfo(calendar.timezone)
    coming = [span for span in calendar.busy if span.ends_at > now]
    return {
        "since": since and instant(since),
        "most": call.ports.policy.max_calendar_bytes,
        "count": len(coming),
        "until": calendar.busy_until,
        "timezone": calendar.timezone,
        "coming": [
            _local(span.starts_at.astimezone(zone), span.ends_at.astimezone(zone))
            for span in coming[:_LISTED]
        ],
    }


def _local(start: datetime, end: datetime) -> tuple[str, str]:
    """A day, and the times from there on."""
    times = "%H:%M" if start.date() == end.date() else "%H:%M on %Y-%m-%d"
    return f"{start:%A, %Y-%m-%d}", f"{start:%H:%M} to {end.strftime(times)}"


PAGES = (
    hours,
    save,
    save_date,
    clear_date,
    elsewhere,
    make_feed,
    revoke_feed,
    take_busy,
    forget_busy,
)
