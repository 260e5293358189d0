"""Pages on which one finds staff, looks at somebody, and requests a booking. They find what
`/api/v1/companions` finds, and do what `POST /bookings` does, in the same windows."""

import hashlib
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from attrs import asdict, evolve, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.companion import offered
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken
from staffbooking_core.inputs import Characters, RequestBooking, Text
from staffbooking_core.policy import HOUR
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.companions import search
from staffbooking_core.usecases.idempotency import AnsweredBefore, Keep
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import customers_only
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.query_string import SearchCompanions
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    Written,
    call_of,
    filled,
    proven,
    refused,
    shown,
    signed_in,
    take,
)
from staffbooking_http.routes.bookings import request_by_session

_FIND, _PROFILE, _REQUEST = "find.html", "companion.html", "request.html"
_Day: TypeAlias = date | None
_AHEAD = timedelta(days=14)
"""So many days a profile shows at once."""


@frozen(kw_only=True)
class _Filters:
    """What somebody looks for, whether it can be searched for or not."""

    location: Written = ""
    service: Written = ""
    date: Written = ""
    min_price: Written = ""
    max_price: Written = ""
    limit: Written = ""
    rebooking_of: Written = ""


@frozen(kw_only=True)
class _Chosen:
    """The day that a page is asked for, and the cancelled booking that one came from."""

    date: _Day = None
    rebooking_of: Annotated[str, Text(64, characters=Characters.OPAQUE)] | None = None


@frozen(kw_only=True)
class _Draft:
    """What somebody filled in, whether it can be requested or not."""

    event_date: Written = ""
    start_time: Written = ""
    duration_hours: Written = ""
    service_type: Written = ""
    location: Written = ""
    event_ref: Written = ""
    cancellation_insurance: Written = ""
    rebooking_of: Written = ""
    key: Written = ""


@frozen(kw_only=True)
class _Form(RequestBooking):
    """The same, as it can be requested."""

    key: Annotated[str, Text(255)]
    """Made anew each time that the form is drawn: what is sent twice from it is done once."""


# Finding --------------------------------------------------------------------------------


@get("/find")
async def find(request: Asked) -> Template:
    """A search, and what it finds; filters that make no sense stay in their form."""
    call = call_of(request)
    visitor = await signed_in(call)
    query = filled(call.scope["query_string"])
    filters = asdict(query_string.read(_Filters, query))
    names = await search.services(call.ports)
    seen: dict[str, Any] = {
        "filters": filters,
        "services": names,
        "service": offered(names, filters["service"]),
        "currency": call.ports.policy.currency.code,
    }
    try:
        found = await _search(call, query_string.read(SearchCompanions, query))
    except InvalidInput as error:
        return refused(_FIND, visitor, error, **seen)
    return shown(_FIND, visitor, kept=_kept(filters), **seen, **found)


async def _search(call: Call, wanted: SearchCompanions) -> dict[str, Any]:
    query = wanted.to_core(call.ports.policy.currency)
    rows = await search.search(call.ports, query)
    return {
        "found": [request_body.parse(row) for row in rows[: query.limit]],
        "number": query.page,
        "has_more": len(rows) > query.limit,
    }


def _kept(filters: Mapping[str, str]) -> str:
    """How addresses of other pages of the same search begin."""
    given = urlencode({name: text for name, text in filters.items() if text})
    return f"{given}&" if given else ""


# Looking --------------------------------------------------------------------------------


@get("/companions/{number:str}")
async def profile(request: Asked) -> Template:
    """All that a staff member shows, and the free hours of the days that come."""
    call = call_of(request)
    visitor = await signed_in(call)
    seen = await _seen(call)
    days = await _days(call, seen["first"], seen["last"])
    return shown(_PROFILE, visitor, rebooking_of=_chosen(call).rebooking_of, **seen, **days)


async def _seen(call: Call) -> dict[str, Any]:
    """A staff member, and the days from the first to the last that can be booked."""
    policy = call.ports.policy
    found = request_body.parse(await search.detail(call.ports, call.path_id("Companion")))
    companion = found["companion"]
    now = await call.ports.clock.business()
    today = availability.local_date(companion["timezone"], now)
    return {
        "companion": companion,
        "services": companion["service_types"].split(","),
        "first": today,
        "last": availability.years_after(today, policy.book_ahead_years),
        "day_hours": policy.day_rate_from_hours,
    }


async def _days(call: Call, first: date, last: date) -> dict[str, Any]:
    """What is free on some days, from the one that is asked for."""
    begin = min(max(_chosen(call).date or first, first), last)
    end = min(begin + _AHEAD, last + availability.DAY) - availability.DAY
    found = await search.availability(call.ports, call.path_id("Companion"), begin, end)
    return {
        "days": [
            {**day, "weekday": f"{date.fromisoformat(day['date']):%A}"}
            for day in found["availability"]
        ],
        "earlier": max(begin - _AHEAD, first) if begin > first else None,
        "later": end + availability.DAY if end < last else None,
    }


def _chosen(call: Call) -> _Chosen:
    return query_string.read(_Chosen, filled(call.scope["query_string"]))


# Requesting -----------------------------------------------------------------------------


@get("/companions/{number:str}/request")
async def requesting(request: Asked) -> Template:
    """Where a customer says when, where and for what; with the day that they came from, or all
    that they had booked with somebody who cancelled."""
    call = call_of(request)
    visitor = await signed_in(call)
    customers_only(visitor.user, call.now)
    seen = await _asked(call)
    chosen, draft = _chosen(call), _Draft()
    if chosen.rebooking_of is not None:
        draft = await _again(call, visitor, chosen.rebooking_of, seen["companion"]["timezone"])
    day = draft.event_date if chosen.date is None else str(chosen.date)
    draft = evolve(draft, event_date=day, key=call.ports.ids.token())
    return shown(_REQUEST, visitor, draft=asdict(draft), **seen)


async def _again(call: Call, visitor: Visitor, code: str, timezone: str) -> _Draft:
    """The form filled with what a booking of the visitor's was, at the same moment in another
    time zone, with its priority if that still waits. Raises NotFound."""
    booking = await actions.by_code(call.ports, code)
    if booking.customer_id != visitor.user.id:
        raise NotFound("Booking")
    booking, _, rebooking = await actions.by_id(call.ports, visitor.actor, booking.id)
    start = booking.starts_at.astimezone(ZoneInfo(timezone))
    return _Draft(
        event_date=f"{start:%Y-%m-%d}",
        start_time=f"{start:%H:%M}",
        duration_hours=str(booking.duration_hours),
        service_type=booking.service_type,
        location=booking.location,
        event_ref=booking.event_ref or "",
        rebooking_of="" if rebooking is None else code,
    )


@post("/companions/{number:str}/request", status_code=200)
async def send(request: Asked) -> Template | Redirect:
    """Request it, and go to the booking; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await signed_in(call)
    customers_only(visitor.user, call.now)
    call.rules = request_by_session.rules(call.ports.policy.limits)
    form = await proven(call, visitor) + b"&companion_id=%d" % call.path_id("Companion")
    draft = asdict(query_string.read_form(_Draft, form))
    try:
        given = await take(call, visitor, _Form, form)
        return Redirect(await _request(call, visitor, given, form), status_code=303)
    except (InvalidInput, LimitExceeded, RuleBroken) as error:
        if error.code == _SENT.code:
            error, draft["key"] = _SENT, call.ports.ids.token()
        elif error.code == _USED.code:
            error, draft["rebooking_of"] = _USED, ""
        return refused(_REQUEST, visitor, error, draft=draft, **await _asked(call))


_SENT = RuleBroken(
    "idempotency_mismatch",
    "This form made a booking before, filled in otherwise: it is among your bookings. "
    "Sent now, it makes another one",
)
_USED = RuleBroken(
    "rebooking_not_available",
    "The priority of that booking is used up or over. Sent now, this is a usual request",
)


async def _request(call: Call, visitor: Visitor, given: _Form, form: bytes) -> str:
    """The page of the booking that a form makes, or has made before."""
    fingerprint = hashlib.sha256(form).digest()
    keep = Keep(f"user:{visitor.user.id}", given.key, fingerprint, _answer)
    try:
        booking = await requests.request(call.ports, visitor.actor, given, keep)
    except AnsweredBefore as before:
        return before.answer.body.decode()
    return _page_of(booking)


def _answer(booking: Booking) -> tuple[int, bytes]:
    return 303, _page_of(booking).encode()


def _page_of(booking: Booking) -> str:
    return f"/bookings/{booking.id}/return"


async def _asked(call: Call) -> dict[str, Any]:
    """What the form tells beside what it asks."""
    policy = call.ports.policy
    return {
        **await _seen(call),
        "insurance": Decimal(policy.insurance_rate) / 10_000,
        "insured_hours": policy.half_refund_before // HOUR,
    }


PAGES = (find, profile, requesting, send)
