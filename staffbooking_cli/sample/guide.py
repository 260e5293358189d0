"""The lines that `staffbooking demo` prints: one booking to its payout, one cancelled.

They work when they are pasted into a shell: days and times are computed when they are
printed, for a staff member who is free then, in the service's time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from shlex import quote
from zoneinfo import ZoneInfo

from attrs import frozen

from staffbooking_cli.errors import Refused
from staffbooking_cli.sample.market import GUIDE_SERVICE, KNOWN_STAFF, PASSWORD, STAFF_EMAIL
from staffbooking_cli.sample.seed import ADMIN_EMAIL, CUSTOMER_EMAIL, ENTERPRISE_EMAIL, Sample
from staffbooking_core.domain.companions import availability
from staffbooking_core.ports import Ports
from staffbooking_core.representations.records import instant
from staffbooking_core.usecases.companions import search

DAYS_AHEAD = 14
DAYS_BETWEEN = 10
START, END, HOURS = "18:00", "22:00", 4
JSON = "-H 'Content-Type: application/json'"
KEY = '-H "Authorization: Bearer $KEY"'


@frozen
class Evening:
    """When the staff member can be booked: a local day, and its instants."""

    day: date
    starts_at: datetime

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(hours=HOURS)


async def free_evenings(ports: Ports, companion_id: int) -> tuple[Evening, Evening]:
    """Two evenings, the first about two weeks ahead."""
    async with ports.store.reading() as view:
        companion = await view.companions.companion(companion_id)
    if companion is None or not companion.is_listed:
        raise Refused(f"{STAFF_EMAIL} can't be booked any more: the demo can have another --dir")
    timezone = companion.calendar.timezone
    today = (await ports.clock.business()).astimezone(ZoneInfo(timezone)).date()
    first = await _free_day(ports, companion_id, today + timedelta(days=DAYS_AHEAD))
    second = await _free_day(ports, companion_id, first + timedelta(days=DAYS_BETWEEN))
    minutes = availability.parse_hhmm(START)
    return (
        Evening(first, availability.resolve_local(timezone, first, minutes)),
        Evening(second, availability.resolve_local(timezone, second, minutes)),
    )


async def _free_day(ports: Ports, companion_id: int, earliest: date) -> date:
    until = earliest + timedelta(days=ports.policy.availability_days - 1)
    found = await search.availability(ports, companion_id, earliest, until)
    for day in found["availability"]:
        if any(slot["start"] <= START and slot["end"] >= END for slot in day["slots"]):
            return date.fromisoformat(day["date"])
    raise Refused(f"{STAFF_EMAIL} has no free evening: the demo can have another --dir")


def welcome(given: Sample, base: str, folder: Path, ledger_check: Path) -> str:
    """Where the service is, and who can sign in."""
    return f"""
staffbooking runs at {base} (Ctrl-C stops it; its data stays)

Sign-ins, all with the password {PASSWORD}
  customer    {CUSTOMER_EMAIL}
  staff       {", ".join(KNOWN_STAFF.values())}
  enterprise  {ENTERPRISE_EMAIL}
  admin       {ADMIN_EMAIL}

API key       {given.key}
Data          {folder}
Ledger        sh {quote(str(ledger_check))}

Lines to paste into a shell, block by block:

"""


async def guide(ports: Ports, given: Sample, base: str, folder: Path) -> str:
    """All lines, with what each block does."""
    first, second = await free_evenings(ports, given.staff.id)
    blocks = (
        ("Paste this first", _names(given, base, folder)),
        ("Search", _search()),
        ("Request a booking for a customer, and read its status", _request(given, first)),
        (
            "The staff member signs in and accepts",
            (*_sign_in("STAFF", STAFF_EMAIL), _act("STAFF", "accept")),
        ),
        ("The customer signs in and pays", (*_sign_in("CUSTOMER", CUSTOMER_EMAIL), *_pay())),
        (
            "The event begins: the staff member checks in",
            (_clock(first.starts_at), _act("STAFF", "check-in")),
        ),
        ("It is over: the customer confirms", (_clock(first.ends_at), _act("CUSTOMER", "confirm"))),
        ("The payout is made a day later", (_advance(25), *_look("STAFF"))),
        (
            "Another booking, up to paying",
            (*_request(given, second), _act("STAFF", "accept"), *_pay()),
        ),
        (
            "36 hours before it the customer cancels, for half of the money",
            (
                _clock(second.starts_at - timedelta(hours=36)),
                _act("CUSTOMER", "cancel", {"reason": "The party is off"}),
                *_look("CUSTOMER"),
            ),
        ),
    )
    return "\n\n".join("\n".join((f"# {title}", *lines)) for title, lines in blocks)


def _names(given: Sample, base: str, folder: Path) -> Iterator[str]:
    yield f"BASE={quote(base)} KEY={given.key} JARS={quote(str(folder))}"


def _search() -> Iterator[str]:
    query = "location=lisbon&max_price=80&limit=3"
    yield f'curl -s {KEY} "$BASE/api/v1/companions?{query}"; echo'


def _request(given: Sample, evening: Evening) -> Iterator[str]:
    wanted = {
        "companion_id": given.staff.id,
        "event_date": evening.day.isoformat(),
        "start_time": START,
        "duration_hours": HOURS,
        "service_type": GUIDE_SERVICE,
        "location": "Rua do Alecrim 12, Lisbon",
        "customer_email": CUSTOMER_EMAIL,
    }
    yield f'REPLY=$(curl -s {KEY} {_body(wanted)} "$BASE/api/v1/bookings"); echo "$REPLY"'
    yield f"ID=$({_pick('id', '[0-9]*')} | cut -d: -f2)"
    yield f"CODE=$({_pick('booking_code', _TEXT)} | cut -d'\"' -f4)"
    yield f'curl -s {KEY} "$BASE/api/v1/bookings/$CODE"; echo'


_TEXT = '"[^"]*'


def _pick(name: str, value: str) -> str:
    """The first field of that name in the last reply, with tools that are everywhere."""
    return f"""echo "$REPLY" | grep -o '"{name}": *{value}' | head -n 1"""


def _body(given: Mapping[str, object]) -> str:
    return f"{JSON} -d {quote(json.dumps(given))}"


def _jar(who: str) -> str:
    return f'"$JARS/{who.lower()}.cookies"'


def _sign_in(who: str, email: str) -> Iterator[str]:
    said = {"email": email, "password": PASSWORD}
    yield f'REPLY=$(curl -s -c {_jar(who)} {_body(said)} "$BASE/auth/login"); echo "$REPLY"'
    yield f"{who}=$({_pick('csrf_token', _TEXT)} | cut -d'\"' -f4)"


def _call(who: str, action: str, given: Mapping[str, object] | None = None) -> str:
    body = "-X POST" if given is None else _body(given)
    return f'curl -s -b {_jar(who)} -H "X-CSRF-Token: ${who}" {body} "$BASE/bookings/$ID/{action}"'


def _act(who: str, action: str, given: Mapping[str, object] | None = None) -> str:
    return f"{_call(who, action, given)}; echo"


def _look(who: str) -> Iterator[str]:
    """The worker does what came due within moments."""
    yield f'sleep 3; curl -s -b {_jar(who)} "$BASE/bookings/$ID"; echo'


def _pay() -> Iterator[str]:
    yield f'REPLY=$({_call("CUSTOMER", "checkout")}); echo "$REPLY"'
    yield f"PAGE=$({_pick('checkout_url', _TEXT)} | cut -d'\"' -f4)"
    yield 'echo "Open $PAGE in a browser, or pay by the next line:"'
    yield f'curl -s {_body({"outcome": "succeed"})} "$PAGE"; echo'
    yield from _look("CUSTOMER")


def _clock(to: datetime) -> str:
    return f'curl -s {_body({"set_to": instant(to)})} "$BASE/sandbox/clock"; echo'


def _advance(hours: int) -> str:
    return f'curl -s {_body({"advance_seconds": hours * 3600})} "$BASE/sandbox/clock"; echo'
