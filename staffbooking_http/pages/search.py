"""Search pages: companion search, companion detail and the booking request form.

They call the same use-cases as `/api/v1/companions` and `POST /bookings`, under the same rate
limits.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from attrs import asdict, evolve, frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions import availability, booking_limits
from staffbooking_core.domain.companions.companion import find_offered_service
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken
from staffbooking_core.inputs import Name, RequestBooking
from staffbooking_core.policy import HOUR
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.companions import search
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import require_customer
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.query_string import SearchCompanions
from staffbooking_http.pages.free_days import load_month, parse_month
from staffbooking_http.pages.public import absolute_url, admit_visitor, render_public
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    get_call,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
    requested_path,
    require_signed_in,
    submit_once,
)
from staffbooking_http.pages.structured_data import describe_companion
from staffbooking_http.pages.terms import figures_of
from staffbooking_http.routes.bookings import request_by_session

_SEARCH_TEMPLATE, _COMPANION_TEMPLATE, _REQUEST_TEMPLATE = (
    "find.html",
    "companion.html",
    "request.html",
)
_OptionalDate: TypeAlias = date | None


@frozen(kw_only=True)
class _SearchFilters:
    """The submitted search filters before validation, to refill the form."""

    location: DraftText = ""
    service: DraftText = ""
    date: DraftText = ""
    min_price: DraftText = ""
    max_price: DraftText = ""
    limit: DraftText = ""
    rebooking_of: DraftText = ""


@frozen(kw_only=True)
class _CompanionQuery:
    """The chosen day and service, the month to show, and the code of the cancelled booking to
    rebook."""

    date: _OptionalDate = None
    month: Annotated[str, TextBounds(7, characters=AllowedCharacters.OPAQUE)] | None = None
    service: Name | None = None
    rebooking_of: Annotated[str, TextBounds(64, characters=AllowedCharacters.OPAQUE)] | None = None


@frozen(kw_only=True)
class _BookingDraft:
    """The submitted booking fields before validation, to refill the form."""

    event_date: DraftText = ""
    start_time: DraftText = ""
    duration_hours: DraftText = ""
    service_type: DraftText = ""
    location: DraftText = ""
    event_ref: DraftText = ""
    cancellation_insurance: DraftText = ""
    rebooking_of: DraftText = ""
    key: DraftText = ""
    again: DraftText = ""


@frozen(kw_only=True)
class _BookingForm(RequestBooking):
    """The validated booking request form."""

    key: Annotated[str, TextBounds(255)]
    """Idempotency key, new for each rendered form: a form submitted twice is applied once."""
    again: bool = False
    """Whether the visitor was told that they have requested the same before. A browser that goes
    back loads the form anew, with a new key."""


# Search ---------------------------------------------------------------------------------


@get("/find")
async def show_search(request: PageRequest) -> Template | Response[bytes]:
    """Show the search form and a page of results; invalid filters stay in the form."""
    call = get_call(request)
    visitor = await admit_visitor(call)
    query = drop_empty_fields(call.scope["query_string"])
    filters = asdict(query_string.parse_query(_SearchFilters, query))
    names = await search.list_service_names(call.ports)
    today = (await call.ports.clock.business()).date()
    seen: dict[str, Any] = {
        "filters": filters,
        "services": names,
        "service": find_offered_service(names, filters["service"]),
        "currency": call.ports.policy.currency.code,
        "today": today,
        "last": booking_limits.add_years(today, call.ports.policy.book_ahead_years),
    }
    try:
        found = await _search(call, query_string.parse_query(SearchCompanions, query))
    except InvalidInput as error:
        return render_error(_SEARCH_TEMPLATE, visitor, error, way=requested_path(call), **seen)
    return render_public(
        call,
        visitor,
        _SEARCH_TEMPLATE,
        kept=_filters_query(filters),
        removable=_removable_filters(filters),
        **seen,
        **found,
    )


async def _search(call: Call, search_query: SearchCompanions) -> dict[str, Any]:
    query = search_query.to_core(call.ports.policy.currency)
    rows = await search.search(call.ports, query)
    shown = [request_body.parse_object(row) for row in rows[: query.limit]]
    return {
        "found": shown,
        "number": query.page,
        "first_place": (query.page - 1) * query.limit + 1,
        "has_more": len(rows) > query.limit,
        "day": query.date,
    }


def _filters_query(filters: Mapping[str, str]) -> str:
    """The query string prefix of links to other pages of the same search."""
    given = urlencode({name: text for name, text in filters.items() if text})
    return f"{given}&" if given else ""


def _removable_filters(filters: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The name, the value and the query string without it, of each filter that is given."""
    return [
        (name, filters[name], _filters_query({**filters, name: ""}).removesuffix("&"))
        for name in ("service", "location", "date", "min_price", "max_price")
        if filters[name]
    ]


# Companion ------------------------------------------------------------------------------


@get("/companions/{number:str}")
async def show_companion(request: PageRequest) -> Template | Response[bytes]:
    """Show a companion's public profile and a month of free days."""
    call = get_call(request)
    visitor = await admit_visitor(call)
    seen = await _companion_context(call)
    chosen = _companion_query(call)
    bounds = seen["first"], seen["last"]
    wanted = parse_month(chosen.month) if chosen.month else chosen.date or seen["first"]
    weekday = view_of_scope(call.scope).locale.formats.first_week_day
    month = await load_month(call.ports, seen["companion"]["id"], wanted, bounds, weekday)
    service = find_offered_service(seen["services"], chosen.service or "")
    return render_public(
        call,
        visitor,
        _COMPANION_TEMPLATE,
        month=month,
        chosen_day=month.find_day(chosen.date),
        carried={"service": service, "rebooking_of": chosen.rebooking_of},
        structured=describe_companion(
            seen["companion"], absolute_url(call, call.scope["path"]), absolute_url(call, "")
        ),
        averages=_review_averages(seen["companion"]["reviews"]),
        **figures_of(call.ports.policy) | seen,
    )


async def _companion_context(call: Call) -> dict[str, Any]:
    """The companion, and the first and last local dates that can be booked."""
    policy = call.ports.policy
    found = request_body.parse_object(
        await search.get_detail(call.ports, call.path_id("Companion"))
    )
    companion = found["companion"]
    now = await call.ports.clock.business()
    today = availability.local_date(companion["timezone"], now)
    return {
        "companion": companion,
        "services": companion["service_types"].split(","),
        "first": today,
        "last": booking_limits.add_years(today, policy.book_ahead_years),
        "day_hours": policy.day_rate_from_hours,
    }


_REVIEWED_QUALITIES = ("punctuality", "professionalism", "communication", "appearance")


def _review_averages(reviews: Sequence[Mapping[str, Any]]) -> dict[str, Decimal]:
    """The average of each quality that the reviews rate, to one decimal."""
    ratings = {
        name: [review[name] for review in reviews if review[name] is not None]
        for name in _REVIEWED_QUALITIES
    }
    return {
        name: (Decimal(sum(given)) / len(given)).quantize(Decimal("0.1"), ROUND_HALF_UP)
        for name, given in ratings.items()
        if given
    }


def _companion_query(call: Call) -> _CompanionQuery:
    return query_string.parse_query(_CompanionQuery, drop_empty_fields(call.scope["query_string"]))


# Booking request ------------------------------------------------------------------------


@get("/companions/{number:str}/request")
async def show_request(request: PageRequest) -> Template:
    """Show the booking request form, prefilled with the chosen day or the booking to rebook."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    require_customer(visitor.user, call.now)
    seen = await _request_context(call)
    chosen, draft = _companion_query(call), _BookingDraft()
    if chosen.rebooking_of is not None:
        draft = await _rebooking_draft(
            call, visitor, chosen.rebooking_of, seen["companion"]["timezone"]
        )
    day = draft.event_date if chosen.date is None else str(chosen.date)
    draft = evolve(draft, event_date=day, key=call.ports.ids.token())
    return render(_REQUEST_TEMPLATE, visitor, draft=asdict(draft), **seen)


async def _rebooking_draft(
    call: Call, visitor: SignedInUser, code: str, timezone: str
) -> _BookingDraft:
    """A form prefilled from the visitor's booking, at the same instant in `timezone`.

    It keeps the rebooking code only while the rebooking offer is open. Raises NotFound unless the
    visitor is the booking's customer.
    """
    booking = await actions.get_by_code(call.ports, code)
    if booking.customer_id != visitor.user.id:
        raise NotFound("Booking")
    booking, _, rebooking = await actions.get_by_id(call.ports, visitor.actor, booking.id)
    start = booking.starts_at.astimezone(ZoneInfo(timezone))
    return _BookingDraft(
        event_date=f"{start:%Y-%m-%d}",
        start_time=f"{start:%H:%M}",
        duration_hours=str(booking.duration_hours),
        service_type=booking.service_type,
        location=booking.location,
        event_ref=booking.event_ref or "",
        rebooking_of="" if rebooking is None else code,
    )


@post("/companions/{number:str}/request", status_code=200)
async def submit_request(request: PageRequest) -> Template | Redirect:
    """Request a booking and redirect to its page; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    require_customer(visitor.user, call.now)
    call.rules = request_by_session.rate_limit_rules(call.ports.policy.limits)
    form = await read_verified_form(call, visitor) + b"&companion_id=%d" % call.path_id("Companion")
    draft = asdict(query_string.parse_form(_BookingDraft, form))
    try:
        given = await parse_counted_form(call, visitor, _BookingForm, form)
        return Redirect(await _request_booking(call, visitor, given, form), status_code=303)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        if error.code == _FORM_REUSED_ERROR.code:
            error, draft["key"] = _FORM_REUSED_ERROR, call.ports.ids.token()
        elif error.code == _REBOOKING_USED_ERROR.code:
            error, draft["rebooking_of"] = _REBOOKING_USED_ERROR, ""
        elif error.code == _SAME_REQUEST_CODE:
            draft["again"] = "true"
        return render_error(
            _REQUEST_TEMPLATE, visitor, error, draft=draft, **await _request_context(call)
        )


_FORM_REUSED_ERROR = RuleBroken(
    "idempotency_mismatch",
    "This form made a booking before, filled in otherwise: it is among your bookings. "
    "Sent now, it makes another one",
)
_SAME_REQUEST_CODE = "already_requested"
_SAME_REQUEST_MESSAGE = (
    "You have requested just this before, and it waits for its answer: it is among your bookings. "
    "Sent now, it makes another one"
)
_REBOOKING_USED_ERROR = RuleBroken(
    "rebooking_not_available",
    "The priority of that booking is used up or over. Sent now, this is a usual request",
)


async def _request_booking(
    call: Call, visitor: SignedInUser, booking_form: _BookingForm, form: bytes
) -> str:
    """Request the booking; return the path of its page, also when the form was submitted before."""

    async def submit(ports: Ports) -> str:
        if not booking_form.again and await requests.has_same_request(
            ports, visitor.actor, booking_form
        ):
            raise RuleBroken(_SAME_REQUEST_CODE, _SAME_REQUEST_MESSAGE)
        return _booking_path(await requests.request_booking(ports, visitor.actor, booking_form))

    path, _ = await submit_once(call, visitor, booking_form.key, form, submit, _booking_path)
    return path


def _booking_path(booking: Booking) -> str:
    return f"/bookings/{booking.id}/return"


async def _request_context(call: Call) -> dict[str, Any]:
    """The template context of the form, except the draft."""
    policy = call.ports.policy
    return {
        **await _companion_context(call),
        "insurance": Decimal(policy.insurance_rate_ppm) / 10_000,
        "insured_hours": policy.half_refund_before // HOUR,
    }


PAGES = (show_search, show_companion, show_request, submit_request)
