"""The shell commands that `staffbooking demo` prints: one booking through to its payout, one
cancelled.

Dates and times are computed in business time when the commands are printed, for a staff member
who is free then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from shlex import quote
from zoneinfo import ZoneInfo

from attrs import frozen

from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.sample.companions import GUIDE_SERVICE, KNOWN_STAFF, PASSWORD, STAFF_EMAIL
from staffbooking_cli.sample.participants import ADMIN_EMAIL, CUSTOMER_EMAIL, ENTERPRISE_EMAIL
from staffbooking_cli.sample.seed import DemoSample
from staffbooking_core.domain.companions import availability
from staffbooking_core.ports import Ports
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases.companions import search

_DAYS_AHEAD = 14
_DAYS_BETWEEN = 10
_START_TIME, _END_TIME, _EVENING_HOURS = "18:00", "22:00", 4
_JSON_HEADER = "-H 'Content-Type: application/json'"
_KEY_HEADER = '-H "Authorization: Bearer $KEY"'


@frozen
class FreeEvening:
    """An evening on which the staff member can be booked: the local day and its instants."""

    day: date
    starts_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(hours=_EVENING_HOURS)


async def find_free_evenings(ports: Ports, companion_id: int) -> tuple[FreeEvening, FreeEvening]:
    """Two free evenings, the first about two weeks ahead. Raises CommandRefused if there are
    none."""
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(companion_id)
    if companion is None or not companion.is_listed:
        raise CommandRefused(
            f"{STAFF_EMAIL} can't be booked any more: start the demo with another --dir"
        )
    timezone = companion.calendar.timezone
    today = (await ports.clock.business()).astimezone(ZoneInfo(timezone)).date()
    first = await _free_day(ports, companion_id, today + timedelta(days=_DAYS_AHEAD))
    second = await _free_day(ports, companion_id, first + timedelta(days=_DAYS_BETWEEN))
    minutes = availability.parse_hhmm(_START_TIME)
    return (
        FreeEvening(first, availability.local_time_to_utc(timezone, first, minutes)),
        FreeEvening(second, availability.local_time_to_utc(timezone, second, minutes)),
    )


async def _free_day(ports: Ports, companion_id: int, earliest: date) -> date:
    until = earliest + timedelta(days=ports.policy.availability_days - 1)
    found = await search.get_availability(ports, companion_id, earliest, until)
    for day in found["availability"]:
        if any(slot["start"] <= _START_TIME and slot["end"] >= _END_TIME for slot in day["slots"]):
            return date.fromisoformat(day["date"])
    raise CommandRefused(f"{STAFF_EMAIL} has no free evening: start the demo with another --dir")


@frozen(kw_only=True)
class DemoPlace:
    """Where the demo's data and files are."""

    database: str
    images: Path
    command: Path
    """A script that runs the command line on the demo's data."""
    guide: Path
    """The file with the whole printed text."""


def render_welcome(sample: DemoSample, base: str, place: DemoPlace) -> str:
    """The service's address and the sample accounts."""
    command = quote(str(place.command))
    return f"""
staffbooking runs at {base} (Ctrl-C stops it; its data stays)

Sign-ins, all with the password {PASSWORD}
  customer    {CUSTOMER_EMAIL}
  staff       {", ".join(KNOWN_STAFF.values())}
  enterprise  {ENTERPRISE_EMAIL}
  admin       {ADMIN_EMAIL}
Customer and staff have bookings in every state; the admin has disputes to resolve.

Where to look
  {base}/sandbox/tour     three minutes: from a search to a payout
  {base}/                 the bar at the top signs in as any of them with one click
  {base}/sandbox/clock    move the service's clock, and see what happens
  {base}/sandbox/mails    the mails that would be sent
  {base}/sandbox/faults   let payments, refunds and payouts fail
  {base}/docs             the interface

API key       {sample.key}
Database      {place.database}
Images        {place.images}
Command line  {command} users list
Ledger        {command} ledger check
This text     {place.guide}

Commands to paste into a shell, block by block:

"""


async def render_guide(ports: Ports, sample: DemoSample, base: str, folder: Path) -> str:
    """All commands, in blocks with titles."""
    first, second = await find_free_evenings(ports, sample.staff.id)
    blocks = (
        ("Paste this first", _variable_lines(sample, base, folder)),
        ("Search", _search_lines()),
        ("Request a booking for a customer, and read its status", _request_lines(sample, first)),
        (
            "The staff member signs in and accepts",
            (*_sign_in_lines("STAFF", STAFF_EMAIL), _booking_action_line("STAFF", "accept")),
        ),
        (
            "The customer signs in and pays",
            (*_sign_in_lines("CUSTOMER", CUSTOMER_EMAIL), *_payment_lines()),
        ),
        (
            "The event begins: the staff member checks in",
            (_set_clock_line(first.starts_at), _booking_action_line("STAFF", "check-in")),
        ),
        (
            "It is over: the customer confirms",
            (_set_clock_line(first.ends_at), _booking_action_line("CUSTOMER", "confirm")),
        ),
        ("The payout is made a day later", (_advance_clock_line(25), *_booking_lines("STAFF"))),
        (
            "Another booking, up to paying",
            (
                *_request_lines(sample, second),
                _booking_action_line("STAFF", "accept"),
                *_payment_lines(),
            ),
        ),
        (
            "36 hours before it the customer cancels, for half of the money",
            (
                _set_clock_line(second.starts_at - timedelta(hours=36)),
                _booking_action_line("CUSTOMER", "cancel", {"reason": "The party is off"}),
                *_booking_lines("CUSTOMER"),
            ),
        ),
    )
    return "\n\n".join("\n".join((f"# {title}", *lines)) for title, lines in blocks)


def _variable_lines(sample: DemoSample, base: str, folder: Path) -> Iterator[str]:
    yield f"BASE={quote(base)} KEY={sample.key} JARS={quote(str(folder))}"


def _search_lines() -> Iterator[str]:
    query = "location=lisbon&max_price=80&limit=3"
    yield f'curl -s {_KEY_HEADER} "$BASE/api/v1/companions?{query}"; echo'


def _request_lines(sample: DemoSample, evening: FreeEvening) -> Iterator[str]:
    data = {
        "companion_id": sample.staff.id,
        "event_date": evening.day.isoformat(),
        "start_time": _START_TIME,
        "duration_hours": _EVENING_HOURS,
        "service_type": GUIDE_SERVICE,
        "location": "Rua do Alecrim 12, Lisbon",
        "customer_email": CUSTOMER_EMAIL,
    }
    request = f'{_KEY_HEADER} {_json_body(data)} "$BASE/api/v1/bookings"'
    yield f'REPLY=$(curl -s {request}); echo "$REPLY"'
    yield f"ID=$({_pick_field('id', '[0-9]*')} | cut -d: -f2)"
    yield f"CODE=$({_pick_field('booking_code', _TEXT_PATTERN)} | cut -d'\"' -f4)"
    yield f'curl -s {_KEY_HEADER} "$BASE/api/v1/bookings/$CODE"; echo'


_TEXT_PATTERN = '"[^"]*'


def _pick_field(name: str, value: str) -> str:
    """The first field of that name in the last reply, using only standard tools."""
    return f"""echo "$REPLY" | grep -o '"{name}": *{value}' | head -n 1"""


def _json_body(data: Mapping[str, object]) -> str:
    return f"{_JSON_HEADER} -d {quote(json.dumps(data))}"


def _cookie_jar(role: str) -> str:
    return f'"$JARS/{role.lower()}.cookies"'


def _sign_in_lines(role: str, email: str) -> Iterator[str]:
    data = {"email": email, "password": PASSWORD}
    login = f'{_json_body(data)} "$BASE/auth/login"'
    yield f'REPLY=$(curl -s -c {_cookie_jar(role)} {login}); echo "$REPLY"'
    yield f"{role}=$({_pick_field('csrf_token', _TEXT_PATTERN)} | cut -d'\"' -f4)"


def _booking_call(role: str, action: str, data: Mapping[str, object] | None = None) -> str:
    body = "-X POST" if data is None else _json_body(data)
    session = f'-b {_cookie_jar(role)} -H "X-CSRF-Token: ${role}"'
    return f'curl -s {session} {body} "$BASE/bookings/$ID/{action}"'


def _booking_action_line(role: str, action: str, data: Mapping[str, object] | None = None) -> str:
    return f"{_booking_call(role, action, data)}; echo"


def _booking_lines(role: str) -> Iterator[str]:
    """Show the booking after 3 seconds, in which the worker does the due work."""
    yield f'sleep 3; curl -s -b {_cookie_jar(role)} "$BASE/bookings/$ID"; echo'


def _payment_lines() -> Iterator[str]:
    yield f'REPLY=$({_booking_call("CUSTOMER", "checkout")}); echo "$REPLY"'
    yield f"PAGE=$({_pick_field('checkout_url', _TEXT_PATTERN)} | cut -d'\"' -f4)"
    yield 'echo "Open $PAGE in a browser, or pay by the next line:"'
    yield f'curl -s {_json_body({"outcome": "succeed"})} "$PAGE"; echo'
    yield from _booking_lines("CUSTOMER")


def _set_clock_line(to: datetime) -> str:
    return f'curl -s {_json_body({"set_to": format_instant(to)})} "$BASE/sandbox/clock"; echo'


def _advance_clock_line(hours: int) -> str:
    return f'curl -s {_json_body({"advance_seconds": hours * 3600})} "$BASE/sandbox/clock"; echo'
