"""Staff page of a month: hours of single days, bookings, and the limits of bookings."""

import re
from calendar import Calendar as WeekColumns, monthrange
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.companions.availability import DAY
from staffbooking_core.domain.companions.booking_limits import BookingLimits, add_years
from staffbooking_core.domain.companions.shifts import list_special_days
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import FieldError, InvalidInput, MissingField, invalid_field
from staffbooking_core.inputs import SetAvailability
from staffbooking_core.usecases.companions import hours, profiles
from staffbooking_core.usecases.companions.hours import Agenda, AgendaDay
from staffbooking_http.api import rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.free_days import parse_month
from staffbooking_http.pages.hours_forms import (
    SINGLE_DAY,
    HoursDraft,
    HoursRow,
    lead_to_draft,
    place_faults,
    read_draft,
    read_refused_draft,
    structure_hours,
    to_row,
)
from staffbooking_http.pages.hours_texts import format_shifts
from staffbooking_http.pages.locales import PageLocale
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    PageRequest,
    flash_text,
    get_call,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)

_PATH, _TEMPLATE = "/staff/hours/dates", "special_days.html"
_CLOSED, _SPECIAL, _WEEKLY = "closed", "special", "weekly"
"""Values of the field `kind`: what holds on the days."""
_FLASH_TEXTS = {
    "saved": "Those days are saved.",
    "weekly": "Your weekly hours hold on those days again.",
    "limits": "Your limits are saved.",
}
"""Messages of the page by flash code in the query string."""
_MAX_SPECIAL_SHOWN = 40
_LIMIT_CHOICES: Mapping[str, Sequence[int]] = {
    "buffer_minutes": (0, 15, 30, 45, 60, 90, 120, 180, 240),
    "min_notice_hours": (0, 1, 2, 3, 4, 6, 12, 24, 48, 72, 168, 336, 720),
    "horizon_days": (7, 14, 30, 60, 90, 180, 365, 730, 1095),
}
_WHOLE = re.compile(r"[0-9]{1,9}")
_UNITS = {"buffer_minutes": "minutes", "min_notice_hours": "hours", "horizon_days": "days"}


@frozen
class _Cell:
    """A day of the month table: the day, how it is drawn, and what is said of it."""

    day: AgendaDay
    kind: str
    hours: str
    label: str


@get(_PATH)
async def show_month(request: PageRequest) -> Template:
    """Show a month with the hours and bookings of each day, and a form for one or more days."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    draft = read_draft(call.scope["query_string"])
    context = await _context(call, visitor, draft, is_draft="kind" in draft.fields)
    return render(_TEMPLATE, visitor, done=flash_text(call, _FLASH_TEXTS), **context)


@post(_PATH, status_code=200)
async def save_days(request: PageRequest) -> Template | Redirect:
    """Save the hours of some days, or change the rows of the form; on an error, show the form
    refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    form = await read_verified_form(call, visitor)
    try:
        await rate_limits.count_user(call, visitor.user.id)
        draft = read_draft(form)
        if draft.step == "save":
            return await _save(call, visitor, draft)
    except (InvalidInput, RateLimitExceeded) as error:
        context = await _context(call, visitor, read_refused_draft(form), is_draft=True)
        return render_error(_TEMPLATE, visitor, error, **context)
    kept = {name: draft.fields.get(name, "") for name in ("first", "last")}
    changed = HoursDraft({**kept, "kind": _SPECIAL}, draft.rows).apply(draft.step)
    return lead_to_draft(_PATH, changed, "day-hours") or render(
        _TEMPLATE, visitor, **await _context(call, visitor, changed, is_draft=True)
    )


async def _save(call: Call, visitor: SignedInUser, draft: HoursDraft) -> Redirect:
    """Raises InvalidInput with the faults at their fields."""
    kind, first = draft.fields.get("kind", ""), draft.fields.get("first") or None
    shifts, places = draft.shifts((SINGLE_DAY,)) if kind == _SPECIAL else ([], [])
    wanted: dict[str, Any] = {
        "first": first,
        "last": draft.fields.get("last") or first,
        "shifts": None if kind == _WEEKLY else shifts,
    }
    given = structure_hours(hours.SetDays, wanted, places)
    if kind not in (_CLOSED, _SPECIAL, _WEEKLY):
        raise invalid_field("kind", "must be one of closed, special or weekly")
    if kind == _SPECIAL and not shifts:
        raise MissingField([FieldError(f"from-{SINGLE_DAY}-0", "is required")])
    try:
        await hours.set_days(call.ports, visitor.actor, given)
    except InvalidInput as error:
        raise place_faults(error, places) from None
    flash = "weekly" if kind == _WEEKLY else "saved"
    return Redirect(f"{_PATH}?{flash}&date={given.first}", status_code=303)


@post("/staff/hours/limits", status_code=200)
async def save_limits(request: PageRequest) -> Template | Redirect:
    """Save the free time around bookings, the notice and the horizon."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    form = await read_verified_form(call, visitor)
    try:
        await rate_limits.count_user(call, visitor.user.id)
        given = read_draft(form).fields
        calendar = (await profiles.get_profile(call.ports, visitor.actor)).calendar
        wanted = {
            name: int(given[name]) if _WHOLE.fullmatch(given.get(name, "")) else given.get(name)
            for name in _LIMIT_CHOICES
        }
        limits = structure(SetAvailability, {"timezone": calendar.timezone, **wanted})
        await profiles.set_availability(call.ports, visitor.actor, limits)
    except (InvalidInput, RateLimitExceeded) as error:
        context = await _context(call, visitor, HoursDraft(), is_draft=False)
        sent = read_refused_draft(form).fields
        context["chosen_limits"] |= {
            name: int(text)
            for name in _LIMIT_CHOICES
            if _WHOLE.fullmatch(text := sent.get(name, ""))
        }
        return render_error(_TEMPLATE, visitor, error, **context)
    return Redirect(f"{_PATH}?limits", status_code=303)


# The page -------------------------------------------------------------------------------


async def _context(
    call: Call, visitor: SignedInUser, draft: HoursDraft, *, is_draft: bool
) -> dict[str, Any]:
    """The template context: the month, the chosen day, and the form of that day or a draft."""
    locale = view_of_scope(call.scope).locale
    now = await call.ports.clock.business()
    fields = draft.fields
    today = now.date()
    bounds = add_years(today, -1), add_years(today, 3)
    chosen = _read_day(fields.get("date") or fields.get("first"), bounds)
    month = chosen or today
    with suppress(InvalidInput):
        month = parse_month(fields.get("month", ""))
    first = min(max(month, bounds[0]), bounds[1]).replace(day=1)
    last = first.replace(day=monthrange(first.year, first.month)[1])
    agenda = await hours.get_agenda(call.ports, visitor.actor, first, last)
    day = agenda.find_day(chosen) or agenda.find_day(agenda.today) or agenda.days[0]
    columns = WeekColumns(locale.formats.first_week_day)
    weeks = columns.monthdatescalendar(first.year, first.month)
    limits = agenda.calendar.limits
    shown = draft if is_draft else _draft_of_day(day)
    cells = {each.date: _to_cell(locale, agenda, each, now) for each in agenda.days}
    return {
        "month": {
            "first_day": first,
            "previous_month": first - DAY if first > bounds[0] else None,
            "next_month": last + DAY if last < bounds[1] else None,
            "weekdays": weeks[1],
            "weeks": [[cells.get(each) for each in week] for week in weeks],
        },
        "cell": cells[day.date],
        "agenda": agenda,
        "draft": shown,
        "rows_of_day": shown.rows.get(SINGLE_DAY) or [HoursRow()],
        "special": list_special_days(agenda.calendar, agenda.today)[:_MAX_SPECIAL_SHOWN],
        "limits": limits,
        "notice": timedelta(hours=limits.min_notice_hours),
        "chosen_limits": {name: getattr(limits, name) for name in _LIMIT_CHOICES},
        "limit_choices": {name: _limit_options(limits, name) for name in _LIMIT_CHOICES},
        "last_day": limits.last_day(agenda.today),
        "labels": _field_labels(locale, draft),
    }


def _read_day(text: str | None, bounds: tuple[date, date]) -> date | None:
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    return day if bounds[0] <= day <= bounds[1] else None


def _draft_of_day(day: AgendaDay) -> HoursDraft:
    """The form of a day as it stands."""
    kind = _WEEKLY
    if day.is_special:
        kind = _SPECIAL if day.shifts else _CLOSED
    fields = {"first": day.date.isoformat(), "last": day.date.isoformat(), "kind": kind}
    rows = [to_row(shift) for shift in day.shifts]
    return HoursDraft(fields, {SINGLE_DAY: rows})


def _to_cell(locale: PageLocale, agenda: Agenda, day: AgendaDay, now: datetime) -> _Cell:
    translate = locale.translations.gettext
    limits, text = agenda.calendar.limits, format_shifts(locale, day.shifts)
    kind = "open" if day.shifts else "closed"
    notes = [text]
    if day.is_special:
        notes.append(translate("not your weekly hours"))
    if day.date < agenda.today:
        kind = "past"
    elif day.date > limits.last_day(agenda.today):
        kind = "beyond"
        notes.append(translate("further ahead than you take bookings"))
    elif day.date < (now + limits.min_notice_hours * timedelta(hours=1) - DAY).date():
        kind = "beyond"
        notes.append(translate("too soon to be booked"))
    if count := len(day.bookings):
        many = locale.translations.ngettext("%(num)d booking", "%(num)d bookings", count)
        notes.append(many % {"num": count})
    if day.busy:
        notes.append(translate("busy in your other calendar"))
    return _Cell(day, kind, text, f"{locale.format_short_day(day.date)}: {', '.join(notes)}")


def _limit_options(limits: BookingLimits, name: str) -> list[tuple[int, timedelta]]:
    """The values of a limit to choose from, with their spans; the current one is among them."""
    values = sorted({*_LIMIT_CHOICES[name], getattr(limits, name)})
    return [(value, timedelta(**{_UNITS[name]: value})) for value in values]


def _field_labels(locale: PageLocale, draft: HoursDraft) -> dict[str, str]:
    """The labels of fields in the summary of faults."""
    translate = locale.translations.gettext
    labels = {
        "first": translate("From day"),
        "last": translate("To day"),
        "kind": translate("On these days"),
        "when": translate("Hours"),
        "buffer_minutes": translate("Free time around bookings"),
        "min_notice_hours": translate("Notice"),
        "horizon_days": translate("How far ahead"),
    }
    for position in range(max(1, len(draft.rows.get(SINGLE_DAY, ())))):
        labels[f"from-{SINGLE_DAY}-{position}"] = translate("From")
        labels[f"to-{SINGLE_DAY}-{position}"] = translate("To")
    return labels


PAGES = (show_month, save_days, save_limits)
