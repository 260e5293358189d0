"""Staff page for the hours of a week and the time zone."""

from datetime import date, timedelta
from typing import Any

from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.companions.availability import local_date
from staffbooking_core.domain.companions.shifts import join_week
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, invalid_field
from staffbooking_core.usecases.companions import hours, profiles
from staffbooking_http.api import rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.hours_forms import (
    WEEKDAYS,
    HoursDraft,
    draft_of_week,
    half_hours,
    lead_to_draft,
    place_faults,
    read_draft,
    read_refused_draft,
    structure_hours,
)
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
from staffbooking_http.pages.time_zones import zone_groups

_PATH, _TEMPLATE = "/staff/hours", "hours.html"
_FLASH_TEXTS = {"hours": "Your hours are saved."}
"""Messages of the page by flash code in the query string."""
_ALWAYS, _WEEKLY = "always", "weekly"
"""Values of the field `when`: any time, or the hours of the rows."""
_A_MONDAY = date(2026, 6, 1)


@get(_PATH)
async def show_hours(request: PageRequest) -> Template:
    """Show the weekly hours; with a draft in the query string, that draft."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    query = call.scope["query_string"]
    draft = read_draft(query) if b"timezone=" in query else None
    context = await _context(call, visitor, draft)
    return render(_TEMPLATE, visitor, done=flash_text(call, _FLASH_TEXTS), **context)


@post(_PATH, status_code=200)
async def save_hours(request: PageRequest) -> Template | Redirect:
    """Save the weekly hours and the time zone, or change the rows of the form; on an error, show
    the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    form = await read_verified_form(call, visitor)
    try:
        await rate_limits.count_user(call, visitor.user.id)
        draft = read_draft(form)
        if draft.step == "save":
            await _save(call, visitor, draft)
            return Redirect(f"{_PATH}?hours", status_code=303)
    except (InvalidInput, RateLimitExceeded) as error:
        context = await _context(call, visitor, read_refused_draft(form))
        return render_error(_TEMPLATE, visitor, error, **context)
    return await _take_step(call, visitor, draft)


async def _save(call: Call, visitor: SignedInUser, draft: HoursDraft) -> None:
    """Raises InvalidInput with the faults at their fields."""
    is_always = draft.fields.get("when") == _ALWAYS
    shifts, places = ([], []) if is_always else draft.shifts(WEEKDAYS)
    wanted = {"timezone": draft.fields.get("timezone"), "shifts": shifts}
    given = structure_hours(hours.SetWeek, wanted, places)
    if not is_always and not shifts:
        raise invalid_field("when", "needs hours on at least one day")
    try:
        await hours.set_week(call.ports, visitor.actor, given)
    except InvalidInput as error:
        raise place_faults(error, places) from None


async def _take_step(call: Call, visitor: SignedInUser, draft: HoursDraft) -> Template | Redirect:
    """The form after a step, at the row of its day."""
    step = draft.step
    fields = {name: value for name, value in draft.fields.items() if name in ("timezone", "when")}
    changed = HoursDraft({"timezone": "", **fields}, draft.rows).apply(step)
    day = step.split("-")[1] if "-" in step else WEEKDAYS[0]
    return lead_to_draft(_PATH, changed, f"day-{day[:1]}") or render(
        _TEMPLATE, visitor, **await _context(call, visitor, changed)
    )


async def _context(call: Call, visitor: SignedInUser, draft: HoursDraft | None) -> dict[str, Any]:
    """The template context: the stored hours, or a draft in their place."""
    companion = await profiles.get_profile(call.ports, visitor.actor)
    calendar = companion.calendar
    locale = view_of_scope(call.scope).locale
    shown = draft or draft_of_week(
        {
            "timezone": calendar.timezone,
            "when": _WEEKLY if calendar.weekly else _ALWAYS,
        },
        join_week(calendar.weekly),
    )
    chosen = shown.fields.get("timezone", "") or calendar.timezone
    first = locale.formats.first_week_day
    order = [*range(first, 7), *range(first)]
    return {
        "draft": shown,
        "is_draft": draft is not None,
        "weekdays": [(WEEKDAYS[number], _A_MONDAY + timedelta(number)) for number in order],
        "filled": half_hours(shown),
        "labels": _field_labels(locale, shown),
        "zones": zone_groups(
            locale,
            local_date(calendar.timezone, await call.ports.clock.business()),
            chosen,
            companion.location_country,
            companion.location_city,
        ),
        "chosen_zone": chosen,
        "is_new": draft is None and calendar.timezone == "UTC" and not calendar.weekly,
    }


def _field_labels(locale: PageLocale, draft: HoursDraft) -> dict[str, str]:
    """The labels of fields in the summary of faults."""
    translate = locale.translations.gettext
    labels = {"when": translate("Your week")}
    for key in WEEKDAYS:
        day = locale.format_weekday(_A_MONDAY + timedelta(int(key)))
        for position in range(len(draft.rows.get(key, ()))):
            labels[f"from-{key}-{position}"] = translate("%(day)s, from") % {"day": day}
            labels[f"to-{key}-{position}"] = translate("%(day)s, to") % {"day": day}
    return labels


PAGES = (show_hours, save_hours)
