"""The staff page of calendars: other calendars that are read each hour, a calendar file, and the
feed of bookings.

It calls the same use-cases as `/staff/calendar-feed` and `/staff/busy-times`.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo

from attrs import frozen
from babel import Locale, dates
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import IntegerBounds
from staffbooking_core.domain.companions.availability import Calendar, Interval, merge_intervals
from staffbooking_core.domain.companions.calendar_files import CalendarFile, SkippedEvent
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarSubscription,
)
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import AddCalendarAddress
from staffbooking_core.usecases.companions import calendar_subscriptions, calendars, profiles
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    get_call,
    has_flash_code,
    parse_counted_form,
    read_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)
from staffbooking_http.routes.calendars import feed_url

_PATH = "/staff/calendars"
_TEMPLATE = "calendars.html"
_MAX_BUSY_TIMES_SHOWN = 10
"""The number of coming busy times shown."""
_MINUTE = timedelta(minutes=1)

_FLASH_TEXTS: Mapping[str, str] = {
    "added": "The calendar is added: it is read again each hour.",
    "read": "The calendar has been read.",
    "recent": "This calendar was read just now. It can be read again after a minute.",
    "removed": "The calendar is removed. It blocks no time any more.",
    "revoked": "The feed is revoked: its address shows nothing any more.",
    "forgotten": "The busy times of the file are removed.",
}
"""Messages as message ids, by flash code."""

_FAULT_TEXTS: Mapping[CalendarReadFault, str] = {
    CalendarReadFault.NOT_FOUND: "There is nothing at its address any more. "
    "Perhaps the address was reset: copy the new one, and add it again.",
    CalendarReadFault.REFUSED: "Its address asks for a password. "
    "Copy the secret or public address of the calendar, and add it again.",
    CalendarReadFault.UNREACHABLE: "Its server did not answer as it should. "
    "We try again by ourselves.",
    CalendarReadFault.NOT_PUBLIC: "Its address leads to one that is not public.",
    CalendarReadFault.NOT_A_CALENDAR: "What is at its address is no calendar that we can read.",
    CalendarReadFault.TOO_LARGE: "It has become too large to be read.",
    CalendarReadFault.TOO_MANY_TIMES: "It has too many busy times, with those of your other "
    "addresses.",
    CalendarReadFault.ADDRESS_LOST: "Its stored address can't be read any more. Add it again.",
}
"""What a fault means and what to do, as message ids."""


_Count: TypeAlias = Annotated[int, IntegerBounds(0, 10**6)]


@frozen(kw_only=True)
class _AddressDraft:
    """The submitted address before validation, to refill the form."""

    url: DraftText = ""
    name: DraftText = ""


@frozen
class _BusySpan:
    """A busy time in local time."""

    first: date
    start: time
    end: time
    last: date
    is_whole_days: bool
    is_of_file: bool
    names: Sequence[str]
    """The other calendars with a busy time in it."""


@frozen(kw_only=True)
class _ImportCounts:
    """How many events of an imported file were taken, and left out by reason; in the query string
    of the page after the import."""

    events: _Count = 0
    free: _Count = 0
    cancelled: _Count = 0
    own_booking: _Count = 0
    moment: _Count = 0
    past: _Count = 0
    too_far: _Count = 0

    @property
    def read(self) -> int:
        """All events of the file."""
        return self.events + self.skipped

    @property
    def skipped(self) -> int:
        return sum(getattr(self, reason) for reason in SkippedEvent)


@frozen
class _ShownCalendar:
    """A subscription as its owner sees it."""

    id: int
    name: str
    host: str
    """Empty where it is the name."""
    state: str
    fault: str
    """A message id; empty without a fault."""
    read_ago: str
    tried_ago: str
    busy_count: int
    can_be_read: bool


def _redirect_with_flash(code: str) -> Redirect:
    return Redirect(f"{_PATH}?{code}", status_code=303)


@get(_PATH)
async def show_calendars(request: PageRequest) -> Template:
    """Show the other calendars, the busy times of the file, and the feed."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    done = next((code for code in _FLASH_TEXTS if has_flash_code(call, code.encode())), "")
    context = await _page_context(call, visitor)
    taken = _import_counts(call)
    return render(
        _TEMPLATE, visitor, done=_FLASH_TEXTS.get(done, ""), code=done, taken=taken, **context
    )


async def _open_button(request: PageRequest) -> tuple[Call, SignedInUser]:
    """The call of a form that is a button alone, CSRF-checked and counted, and who pressed it."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    await read_form(call, visitor, CsrfForm)
    return call, visitor


# Other calendars --------------------------------------------------------------------------


@post(f"{_PATH}/addresses", status_code=200)
async def add_calendar_address(request: PageRequest) -> Template | Redirect:
    """Add a calendar, which is read at once; on a fault, show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)
    raw = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_AddressDraft, raw)
    try:
        given = await parse_counted_form(call, visitor, AddCalendarAddress, raw)
        await calendar_subscriptions.subscribe(call.ports, visitor.actor, given)
    except (InvalidInput, RuleBroken, RateLimitExceeded) as error:
        context = await _page_context(call, visitor)
        return render_error(_TEMPLATE, visitor, error, **{**context, "draft": draft})
    return _redirect_with_flash("added")


@post(f"{_PATH}/addresses/{{number:str}}/read", status_code=200)
async def read_calendar_now(request: PageRequest) -> Redirect:
    """Read a calendar now; the page then shows how it went."""
    call, visitor = await _open_button(request)
    number = call.path_id("Calendar")
    try:
        found = await calendar_subscriptions.read_now(call.ports, visitor.actor, number)
    except RuleBroken:
        return _redirect_with_flash("recent")
    return _redirect_with_flash("failed" if found.fault else "read")


@post(f"{_PATH}/addresses/{{number:str}}/remove", status_code=200)
async def remove_calendar_address(request: PageRequest) -> Redirect:
    """Remove a calendar with its busy times."""
    call, visitor = await _open_button(request)
    await calendar_subscriptions.unsubscribe(call.ports, visitor.actor, call.path_id("Calendar"))
    return _redirect_with_flash("removed")


# A calendar file --------------------------------------------------------------------------


@post(f"{_PATH}/busy", status_code=200)
async def import_busy_times(request: PageRequest) -> Template | Redirect:
    """Replace the busy times with those of an uploaded file; an invalid file changes nothing."""
    call = get_call(request)
    visitor = await require_staff_member(call, _PATH)

    async def work(upload: Upload) -> CalendarFile:
        done = await calendars.set_busy_times(call.ports, visitor.actor, upload.content)
        return done.file

    most = call.ports.policy.max_calendar_bytes
    try:
        file = await read_upload_form(call, visitor, "/staff/busy-times", most, work)
    except (InvalidInput, RateLimitExceeded, HttpError) as error:
        return render_error(_TEMPLATE, visitor, error, **await _page_context(call, visitor))
    counts = {reason.value: number for reason, number in file.skipped.items()}
    return _redirect_with_flash(f"taken&{urlencode({'events': file.events, **counts})}")


def _import_counts(call: Call) -> _ImportCounts | None:
    """The counts of the file that was imported just now, or None."""
    if not has_flash_code(call, b"taken"):
        return None
    try:
        return query_string.parse_query(_ImportCounts, call.scope["query_string"])
    except InvalidInput:
        return None


@post(f"{_PATH}/busy/forget", status_code=200)
async def clear_busy_times(request: PageRequest) -> Redirect:
    """Delete the busy times of the file."""
    call, visitor = await _open_button(request)
    await calendars.clear_busy_times(call.ports, visitor.actor)
    return _redirect_with_flash("forgotten")


# The feed ---------------------------------------------------------------------------------


@post(f"{_PATH}/feed", status_code=200)
async def create_calendar_feed(request: PageRequest) -> Template:
    """Create or replace the calendar feed; only this response shows its URL."""
    call, visitor = await _open_button(request)
    secret, _ = await calendars.create_feed(call.ports, visitor.actor)
    url = feed_url(call, secret)
    webcal = f"webcal://{url.partition('://')[2]}"
    links = {
        "webcal": webcal,
        "google": f"https://calendar.google.com/calendar/r?{urlencode({'cid': webcal})}",
    }
    context = await _page_context(call, visitor)
    return render(_TEMPLATE, visitor, url=url, links=links, **context)


@post(f"{_PATH}/feed/revoke", status_code=200)
async def revoke_calendar_feed(request: PageRequest) -> Redirect:
    """Remove the calendar feed, so that its URL stops working."""
    call, visitor = await _open_button(request)
    await calendars.remove_feed(call.ports, visitor.actor)
    return _redirect_with_flash("revoked")


# What the page shows ----------------------------------------------------------------------


async def _page_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    ports, actor = call.ports, visitor.actor
    since = await calendars.feed_created_at(ports, actor)
    calendar = (await profiles.get_profile(ports, actor)).calendar
    subscriptions = await calendar_subscriptions.list_subscriptions(ports, actor)
    now, wall = await ports.clock.business(), ports.clock.wall()
    formats = view_of_scope(call.scope).locale.formats
    limit = ports.policy.max_calendar_subscriptions
    times = _coming_times(calendar, now)
    zone = ZoneInfo(calendar.timezone)
    return {
        "since": since,
        "calendars": [
            _shown_calendar(each, now, wall, ports.policy.calendar_min_interval, formats)
            for each in subscriptions
        ],
        "limit": limit,
        "is_full": len(subscriptions) >= limit,
        "draft": _AddressDraft(),
        "most": ports.policy.max_calendar_bytes,
        "file_count": sum(span.ends_at > now for span in calendar.busy),
        "until": calendar.busy_until,
        "timezone": calendar.timezone,
        "coming": [
            _busy_span(span, zone, calendar, subscriptions)
            for span in times[:_MAX_BUSY_TIMES_SHOWN]
        ],
        "coming_count": len(times),
        "host": urlsplit(ports.policy.base_url).hostname,
    }


def _shown_calendar(
    subscription: CalendarSubscription,
    now: datetime,
    wall: datetime,
    min_interval: timedelta,
    formats: Locale,
) -> _ShownCalendar:
    fault = subscription.fault
    state = "stopped" if subscription.is_disabled else "failing" if fault else "good"
    return _ShownCalendar(
        id=subscription.id,
        name=subscription.name or subscription.host,
        host=subscription.host if subscription.name else "",
        state=state,
        fault=_FAULT_TEXTS[fault] if fault else "",
        read_ago=_format_ago(wall - subscription.read_at, formats),
        tried_ago=_format_ago(wall - subscription.tried_at, formats),
        busy_count=sum(span.ends_at > now for span in subscription.busy),
        can_be_read=wall - subscription.tried_at >= min_interval,
    )


def _format_ago(passed: timedelta, formats: Locale) -> str:
    """`12 minutes ago`; empty within the first minute."""
    if passed < _MINUTE:
        return ""
    return dates.format_timedelta(-passed, "minute", add_direction=True, locale=formats)


def _coming_times(calendar: Calendar, now: datetime) -> Sequence[Interval]:
    """The busy times of all calendars from now on."""
    merged = merge_intervals((*calendar.busy, *calendar.subscribed_busy))
    return [span for span in merged if span.ends_at > now]


def _busy_span(
    span: Interval,
    zone: ZoneInfo,
    calendar: Calendar,
    subscriptions: Sequence[CalendarSubscription],
) -> _BusySpan:
    start, end = span.starts_at.astimezone(zone), span.ends_at.astimezone(zone)
    is_whole_days = start.time() == end.time() == time()
    last = end.date() - timedelta(days=1) if end.time() == time() else end.date()
    names = [each.name or each.host for each in subscriptions if _overlaps(each.busy, span)]
    return _BusySpan(
        first=start.date(),
        start=start.time(),
        end=end.time(),
        last=last,
        is_whole_days=is_whole_days,
        is_of_file=_overlaps(calendar.busy, span),
        names=list(dict.fromkeys(names)),
    )


def _overlaps(times: Sequence[Interval], span: Interval) -> bool:
    """Whether one of these times, which are in order and do not touch, overlaps the span."""
    place = bisect_right(times, span.starts_at, key=lambda each: each.ends_at)
    return place < len(times) and times[place].starts_at < span.ends_at


PAGES = (
    show_calendars,
    add_calendar_address,
    read_calendar_now,
    remove_calendar_address,
    import_busy_times,
    clear_busy_times,
    create_calendar_feed,
    revoke_calendar_feed,
)
