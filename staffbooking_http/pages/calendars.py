"""Staff page for the calendar feed and for busy times of other calendars.

It calls the same use-cases as `/staff/calendar-feed` and `/staff/busy-times`.
"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases.companions import calendars, profiles
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.session import (
    CsrfForm,
    PageRequest,
    flash_text,
    get_call,
    read_form,
    read_upload_form,
    render,
    render_error,
    require_staff_member,
)
from staffbooking_http.routes.calendars import feed_url

_CALENDARS_PATH = "/staff/calendars"
_MAX_BUSY_TIMES_SHOWN = 10
"""The number of coming busy times shown."""

_CALENDARS_FLASH_TEXTS = {
    "revoked": "The feed is revoked: its address shows nothing any more.",
    "taken": "Your busy times are taken from the file.",
    "forgotten": "Your busy times are forgotten.",
}
"""Messages of the calendars page by flash code."""


def _redirect_with_flash(path: str, code: str) -> Redirect:
    return Redirect(f"{path}?{code}", status_code=303)


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
    show_calendars,
    create_calendar_feed,
    revoke_calendar_feed,
    import_busy_times,
    clear_busy_times,
)
