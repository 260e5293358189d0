"""The page on which a customer requests a booking, with the price and the companion's free days.

A form that is refused is answered by a redirect to the form's own address, which holds the input
and says what was wrong: going back or loading again neither asks nor sends anything twice.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from attrs import asdict, evolve, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import TextBounds
from staffbooking_core.domain.bookings.booking import Booking, insurance_premium
from staffbooking_core.domain.companions.companion import find_offered_service
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import (
    FieldError,
    InvalidInput,
    NotFound,
    RuleBroken,
    StaffbookingError,
)
from staffbooking_core.inputs import RequestBooking, RequestQuote
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions, quotes, requests
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.access import require_customer
from staffbooking_http.api.endpoint import Call, Reply, SignedInUser
from staffbooking_http.pages.free_days import MonthCalendar, load_month, parse_month
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.search import companion_context
from staffbooking_http.pages.session import (
    DraftText,
    FormT,
    PageRequest,
    drop_empty_fields,
    get_call,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
    submit_once,
)
from staffbooking_http.pages.terms import figures_of

_TEMPLATE = "request.html"
_MAX_REDIRECT_LENGTH = 6_000
"""Longer input is not put into an address: the form is then shown as the answer itself."""
_INVALID = "invalid_field"
_SAME_REQUEST = "already_requested"
_REBOOKING_USED = "rebooking_not_available"
_PRICED_FIELDS = ("event_date", "start_time", "duration_hours")
"""The fields that are typed in for a price."""


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
    again: DraftText = ""


@frozen(kw_only=True)
class _CalendarButton:
    """The day or the month that was chosen in the calendar of the form."""

    date: DraftText = ""
    month: DraftText = ""


@frozen(kw_only=True)
class _RequestQuery:
    """What leads to the form: a chosen day and service, a month to show, or why it was refused."""

    date: DraftText = ""
    service: DraftText = ""
    month: DraftText = ""
    refused: DraftText = ""


@frozen(kw_only=True)
class _BookingForm(RequestBooking):
    """The validated booking request form."""

    key: Annotated[str, TextBounds(255)]
    """Idempotency key, new for each rendered form: a form submitted twice is applied once."""
    again: bool = False
    """Whether the visitor was told that they have requested the same before. A browser that goes
    back loads the form anew, with a new key."""


# Showing the form -----------------------------------------------------------------------


@get("/companions/{number:str}/request")
async def show_request(request: PageRequest) -> Template:
    """Show the form with the input in the query, the price of it, and what is wrong with it."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    require_customer(visitor.user, call.now)
    query = drop_empty_fields(call.scope["query_string"])
    asked = query_string.parse_query(_RequestQuery, query)
    seen = await companion_context(call)
    draft = await _fill_draft(
        call, visitor, query_string.parse_query(_BookingDraft, query), asked, seen
    )
    return await _render_form(call, visitor, seen, draft, asked)


async def _fill_draft(
    call: Call,
    visitor: SignedInUser,
    draft: _BookingDraft,
    asked: _RequestQuery,
    seen: Mapping[str, Any],
) -> _BookingDraft:
    """The draft with what is known: the chosen day and service, and the booking to rebook."""
    if draft.rebooking_of and not (draft.location or _typed_fields(draft)):
        timezone = seen["companion"]["timezone"]
        draft = await _rebooking_draft(call, visitor, draft.rebooking_of, timezone)
    services: Sequence[str] = seen["services"]
    wanted = draft.service_type or asked.service
    if offered := find_offered_service(services, wanted):
        wanted = offered
    elif not draft.service_type:
        wanted = services[0] if len(services) == 1 else ""
    return evolve(draft, event_date=asked.date or draft.event_date, service_type=wanted)


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


async def _render_form(
    call: Call,
    visitor: SignedInUser,
    seen: Mapping[str, Any],
    draft: _BookingDraft,
    asked: _RequestQuery,
    error: StaffbookingError | None = None,
) -> Template:
    month = await _load_month(call, seen, draft, asked)
    quote = await _quote(call, draft)
    is_invalid = error is None and asked.refused == _INVALID
    typed = [] if quote else _typed_fields(draft)
    found = await _find_faults(call, seen, draft) if is_invalid or typed else None
    wrong = _wrong_values(typed, found)
    context = {
        "draft": {**asdict(draft), "key": call.ports.ids.token()},
        "quote": quote,
        "wrong": wrong,
        "month": month,
        "chosen_day": month.find_day(_parse_date(draft.event_date)),
        "premium": None if quote is None else _premium(call, quote),
        "refused": asked.refused,
        "same": await _find_same_request(call, visitor, draft, asked),
        "service_choices": [(name, name) for name in seen["services"]],
        **figures_of(call.ports.policy),
        **seen,
    }
    if is_invalid:
        error = found
    if error is not None:
        return render_error(_TEMPLATE, visitor, error, **context)
    if asked.refused:
        return render(_TEMPLATE, visitor, _refusal_reply(asked.refused), **context)
    return render(_TEMPLATE, visitor, faults=wrong, **context)


def _refusal_reply(code: str) -> Reply:
    """The status of a form that a business rule or a rate limit has refused."""
    return Reply(429 if code == RateLimitExceeded.code else 400)


async def _find_faults(
    call: Call, seen: Mapping[str, Any], draft: _BookingDraft
) -> InvalidInput | None:
    """All faults of an input at once; None without any. The event is checked only when each of its
    fields has a valid form, so that valid values take the places of refused ones."""
    valid = {
        "event_date": f"{seen['last']}",
        "start_time": "12:00",
        "duration_hours": "1",
        "service_type": seen["services"][0],
        "location": "x",
    }
    fields, faults = _carried_fields(draft), dict[str, FieldError]()
    kinds: list[type[InvalidInput]] = []
    while (error := await _find_fault(call, fields)) is not None:
        found = {fault.field: fault for fault in error.field_errors if fault.field not in faults}
        if not found:
            break
        kinds.append(type(error))
        faults |= found
        kept = {name: text for name, text in fields.items() if name not in found}
        fields = kept | {name: valid[name] for name in found if name in valid}
    return kinds[0](faults.values()) if kinds else None


def _typed_fields(draft: _BookingDraft) -> list[str]:
    """The priced fields that are typed in."""
    carried = _carried_fields(draft)
    return [name for name in _PRICED_FIELDS if name in carried]


def _wrong_values(typed: Sequence[str], error: InvalidInput | None) -> dict[str, str]:
    """Why the values that are typed in have no price, by field. Fields that are still empty are no
    faults yet."""
    if error is None:
        return {}
    faults = {fault.field: fault.message for fault in error.field_errors}
    return {name: faults[name] for name in typed if name in faults}


async def _find_fault(call: Call, fields: Mapping[str, str]) -> InvalidInput | None:
    try:
        _parse_draft(call, RequestBooking, fields)
        await quotes.quote_booking(call.ports, _parse_draft(call, RequestQuote, fields))
    except InvalidInput as error:
        return error
    return None


def _parse_draft(call: Call, cls: type[FormT], fields: Mapping[str, str]) -> FormT:
    form = f"{urlencode(fields)}&companion_id={call.path_id('Companion')}"
    return query_string.parse_form(cls, form.encode())


async def _quote(call: Call, draft: _BookingDraft) -> dict[str, Any] | None:
    """The price of the input and whether it can be booked; None while it has no price yet."""
    try:
        wanted = _parse_draft(call, RequestQuote, _carried_fields(draft))
        return dict(await quotes.quote_booking(call.ports, wanted))
    except InvalidInput:
        return None


async def _find_same_request(
    call: Call, visitor: SignedInUser, draft: _BookingDraft, asked: _RequestQuery
) -> Booking | None:
    """The pending request for which this one was refused; None once it has its answer."""
    if asked.refused != _SAME_REQUEST:
        return None
    try:
        wanted = _parse_draft(call, RequestBooking, _carried_fields(draft))
    except InvalidInput:
        return None
    return await requests.find_same_request(call.ports, visitor.actor, wanted)


def _premium(call: Call, quote: Mapping[str, Any]) -> Decimal:
    """The price of the cancellation insurance, whether or not it is chosen."""
    policy = call.ports.policy
    price = policy.currency.to_minor(quote["price"])
    return policy.currency.to_decimal(insurance_premium(price, policy))


def _carried_fields(draft: _BookingDraft) -> dict[str, str]:
    """The filled fields of a draft, for addresses of the form."""
    return {name: text for name, text in asdict(draft).items() if text}


async def _load_month(
    call: Call, seen: Mapping[str, Any], draft: _BookingDraft, asked: _RequestQuery
) -> MonthCalendar:
    """The month that the query names, else that of the chosen day."""
    bounds = seen["first"], seen["last"]
    chosen = _parse_date(draft.event_date) or seen["first"]
    wanted = parse_month(asked.month) if asked.month else chosen
    weekday = view_of_scope(call.scope).locale.formats.first_week_day
    return await load_month(call.ports, seen["companion"]["id"], wanted, bounds, weekday)


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


# Sending it -----------------------------------------------------------------------------


@post("/companions/{number:str}/request", status_code=200)
async def submit_request(request: PageRequest) -> Template | Redirect:
    """Request a booking and lead to its page; a refused form leads back to itself."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    require_customer(visitor.user, call.now)
    form = await read_verified_form(call, visitor) + b"&companion_id=%d" % call.path_id("Companion")
    draft = query_string.parse_form(_BookingDraft, form)
    try:
        given = await parse_counted_form(call, visitor, _BookingForm, form)
        return Redirect(await _request_booking(call, visitor, given, form), status_code=303)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        return await _refuse(call, visitor, draft, error)


@post("/companions/{number:str}/request/price", status_code=200)
async def show_price(request: PageRequest) -> Redirect:
    """Lead to the form with the price of its input, or with the day or month that was chosen in its
    calendar, for browsers without scripts."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    form = await read_verified_form(call, visitor)
    fields = _carried_fields(query_string.parse_form(_BookingDraft, form))
    chosen = query_string.parse_form(_CalendarButton, form)
    part = "free-days" if chosen.date or chosen.month else "price"
    if chosen.date:
        fields["event_date"] = chosen.date
    if chosen.month:
        fields["month"] = chosen.month
    path = f"/companions/{call.path_id('Companion')}/request"
    return Redirect(f"{path}?{urlencode(fields)}#{part}", status_code=303)


async def _refuse(
    call: Call, visitor: SignedInUser, draft: _BookingDraft, error: StaffbookingError
) -> Template | Redirect:
    code = _INVALID if isinstance(error, InvalidInput) else error.code
    if code == _REBOOKING_USED:
        draft = evolve(draft, rebooking_of="")
    draft = evolve(draft, again="true" if code == _SAME_REQUEST else "")
    way = f"{call.scope['path']}?{urlencode({**_carried_fields(draft), 'refused': code})}"
    if len(way) <= _MAX_REDIRECT_LENGTH:
        return Redirect(way, status_code=303)
    asked, seen = _RequestQuery(refused=code), await companion_context(call)
    return await _render_form(call, visitor, seen, draft, asked, error)


async def _request_booking(
    call: Call, visitor: SignedInUser, booking_form: _BookingForm, form: bytes
) -> str:
    """Request the booking; return the path of its page, also when the form was submitted before.
    Only a booking that is made spends the window of bookings."""

    async def submit(ports: Ports) -> str:
        if not booking_form.again and await requests.find_same_request(
            ports, visitor.actor, booking_form
        ):
            raise RuleBroken(_SAME_REQUEST, "The same is requested already")
        return _booking_path(await requests.request_booking(ports, visitor.actor, booking_form))

    rule = call.ports.policy.limits.bookings
    window = await rate_limits.reserve(call, rule, rate_limits.user_subject(visitor.user.id))
    is_spent = False
    try:
        path, is_replay = await submit_once(
            call, visitor, booking_form.key, form, submit, _booking_path
        )
        is_spent = not is_replay
    finally:
        if not is_spent:
            await rate_limits.return_reserved(call, window)
    return path


def _booking_path(booking: Booking) -> str:
    return f"/bookings/{booking.id}/return"


PAGES = (show_request, submit_request, show_price)
