"""External calendars: the feed of a companion's bookings, and busy times (CONTRACT 3)."""

import hashlib

from staffbooking_adapters import codec
from staffbooking_core.errors import NotFound
from staffbooking_core.representations.calendars import (
    BusyTimeRecord,
    CalendarFeedRecord,
    busy_time_record,
    calendar_feed_record,
)
from staffbooking_core.representations.json_types import Date, Success
from staffbooking_core.usecases.companions import calendars
from staffbooking_http.api.access import SecretPathAccess, SessionAccess, require_staff
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_STAFF_SESSION = SessionAccess(check_user=require_staff)

_ICALENDAR_MEDIA_TYPE = "text/calendar"
_FEED_SUFFIX = ".ics"
_FEED_CACHE_CONTROL = b"private, max-age=300"
"""Subscribers may cache a feed for five minutes."""

# The feed -------------------------------------------------------------------------------


def feed_url(call: Call, secret: str) -> str:
    """Return the URL of a calendar feed."""
    return f"{call.ports.policy.base_url}/calendars/{secret}{_FEED_SUFFIX}"


@endpoint(
    "GET",
    "/staff/calendar-feed",
    _STAFF_SESSION,
    operation_id="getCalendarFeed",
    summary="See whether your bookings have a calendar feed",
    description="The address is shown once, when the feed is created.",
    response_schema=reply_schema("OwnCalendarFeed", feed=CalendarFeedRecord | None),
    rule_codes=("staff_only",),
)
async def read_feed(call: Call) -> Reply:
    since = await calendars.feed_created_at(call.ports, call.actor)
    return Reply(200, codec.encode({"feed": calendar_feed_record(since)}))


@endpoint(
    "POST",
    "/staff/calendar-feed",
    _STAFF_SESSION,
    operation_id="createCalendarFeed",
    summary="Create or replace the calendar feed of your bookings",
    shows_secret=True,
    description=(
        "The address gives access to your bookings, with place and client's name: enter it in "
        "your calendar program only. The previous address stops working at once."
    ),
    status=201,
    response_schema=reply_schema(
        "NewCalendarFeed", success=Success, url=str, feed=CalendarFeedRecord
    ),
    rule_codes=("staff_only",),
)
async def create_feed(call: Call) -> Reply:
    secret, since = await calendars.create_feed(call.ports, call.actor)
    url = feed_url(call, secret)
    return Reply(
        201, codec.encode({"success": True, "url": url, "feed": calendar_feed_record(since)})
    )


@endpoint(
    "DELETE",
    "/staff/calendar-feed",
    _STAFF_SESSION,
    operation_id="revokeCalendarFeed",
    summary="Revoke your calendar feed",
    description="Its address stops working at once.",
    response_schema=reply_schema("Success", success=Success),
    rule_codes=("staff_only",),
)
async def revoke_feed(call: Call) -> Reply:
    await calendars.remove_feed(call.ports, call.actor)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "GET",
    "/calendars/{secret}.ics",
    SecretPathAccess(),
    operation_id="downloadCalendarFeed",
    summary="Read a calendar feed",
    description=(
        "The companion's bookings of the last {feed_history} and all later ones, without cancelled "
        "ones: a request is tentative and does not block time. The secret is the only credential. "
        "With `If-None-Match` the response is 304."
    ),
    response_schema={"type": "string", "description": "iCalendar (RFC 5545)"},
    response_media_type=_ICALENDAR_MEDIA_TYPE,
    has_etag=True,
    not_found_name="Calendar",
)
async def download_feed(call: Call) -> Reply:
    secret, ending, rest = call.params[0].partition(_FEED_SUFFIX)
    if not ending or rest:
        raise NotFound("Calendar")
    content = await calendars.render_feed(call.ports, secret)
    tag = b'"%s"' % hashlib.sha256(content).hexdigest().encode()
    headers = ((b"etag", tag), (b"cache-control", _FEED_CACHE_CONTROL))
    if call.has_matching_etag(tag):
        return Reply(304, headers=headers)
    return Reply(200, content, headers, b"text/calendar; charset=utf-8")


# Busy times -----------------------------------------------------------------------------


@endpoint(
    "POST",
    "/staff/busy-times",
    _STAFF_SESSION,
    operation_id="setBusyTimes",
    summary="Import your busy times from a calendar file",
    description=(
        "Replaces the busy times of earlier imports by events that are not transparent or "
        "cancelled, with their repetitions, from yesterday to `until`, and by busy periods. Whole "
        "days and times without a zone are in your time zone. At those times you are not found "
        "and cannot be requested; bookings stay, and requests can still be accepted. "
        "Nothing else of the file is stored; a refused file changes nothing."
    ),
    max_raw_bytes="max_calendar_bytes",
    raw_media_type=_ICALENDAR_MEDIA_TYPE,
    is_upload_limited=True,
    response_schema=reply_schema("ImportedBusyTimes", success=Success, busy_times=int, until=Date),
    rule_codes=("staff_only",),
)
async def set_busy_times(call: Call) -> Reply:
    taken = await calendars.set_busy_times(call.ports, call.actor, call.parsed_input)
    answer = {"success": True, "busy_times": len(taken.file.times), "until": taken.until}
    return Reply(200, codec.encode(answer))


@endpoint(
    "GET",
    "/staff/busy-times",
    _STAFF_SESSION,
    operation_id="listBusyTimes",
    summary="List the busy times imported from your calendar",
    description="Adjacent ones are merged. `until` is the last imported day.",
    response_schema=reply_schema(
        "BusyTimeList", busy_times=list[BusyTimeRecord], until=Date | None
    ),
    rule_codes=("staff_only",),
)
async def list_busy_times(call: Call) -> Reply:
    taken = await calendars.get_busy_times(call.ports, call.actor)
    listed = [busy_time_record(span) for span in taken.times]
    return Reply(200, codec.encode({"busy_times": listed, "until": taken.until}))


@endpoint(
    "DELETE",
    "/staff/busy-times",
    _STAFF_SESSION,
    operation_id="clearBusyTimes",
    summary="Delete your imported busy times",
    response_schema=reply_schema("Success", success=Success),
    rule_codes=("staff_only",),
)
async def clear_busy_times(call: Call) -> Reply:
    await calendars.clear_busy_times(call.ports, call.actor)
    return Reply(200, codec.encode({"success": True}))
