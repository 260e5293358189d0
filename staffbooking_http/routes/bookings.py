"""Bookings: requesting, reading, and what the parties do with them (CONTRACT 4)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import (
    CancelBooking,
    DisputeBooking,
    RequestBooking,
    RequestBookingFor,
)
from staffbooking_core.representations.records import booking_glimpse, booking_record, instant
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_http.api.access import WithKey, WithSession, customers_only
from staffbooking_http.api.endpoint import Access, Call, Endpoint, Handler, Reply, endpoint
from staffbooking_http.api.query_string import ListBookings, ListMyBookings
from staffbooking_http.api.response_schemas import (
    BOOKED,
    FLAG,
    INSTANT,
    MONEY,
    SUCCESS,
    TEXT,
    WHOLE,
    items,
    nullable,
    ref,
    shape,
)

_WHAT = "Booking"
_CODE_LENGTH = 14
_PAGE = shape({"bookings": items(ref("Booking")), "page": WHOLE, "limit": WHOLE, "has_more": FLAG})
_REQUEST_CODES = (
    "companion_unavailable",
    "amount_too_small",
    "rebooking_not_available",
    "idempotency_mismatch",
    "idempotency_key_invalid",
)


def _record(call: Call, booking: Booking) -> dict[str, object]:
    return booking_record(booking, actions.side(call.actor, booking))


def _done(call: Call, booking: Booking, status: int = 200, **more: object) -> Reply:
    answer = {"success": True, "booking": _record(call, booking), **more}
    return Reply(status, codec.encode(answer))


# Requesting -----------------------------------------------------------------------------


def _created(call: Call, booking: Booking) -> Reply:
    return _done(call, booking, 201)


async def _request(call: Call) -> Reply:
    booking = await requests.request(call.ports, call.actor, call.given, call.keep)
    return _created(call, booking)


request_by_key = endpoint(
    "POST",
    "/api/v1/bookings",
    WithKey(Permission.BOOK),
    summary="Create a booking request for a registered customer",
    description="10 an hour. An Idempotency-Key makes it safe to repeat for 24 hours.",
    body=RequestBookingFor,
    status=201,
    window="bookings",
    kept=_created,
    answer=BOOKED,
    codes=_REQUEST_CODES,
    not_found="Companion",
)(_request)

request_by_session = endpoint(
    "POST",
    "/bookings",
    WithSession(permit=customers_only),
    summary="Create a booking request for yourself",
    description="10 an hour. An Idempotency-Key makes it safe to repeat for 24 hours.",
    body=RequestBooking,
    status=201,
    window="bookings",
    kept=_created,
    answer=BOOKED,
    codes=(*_REQUEST_CODES, "customers_only"),
    not_found="Companion",
)(_request)


# Reading --------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/api/v1/bookings/{code}",
    WithKey(Permission.READ),
    summary="Read a booking by its code",
    description="Whoever has no part in it gets `booking_code`, `status` and `event_date`.",
    answer=shape({"booking": {"anyOf": [ref("Booking"), ref("BookingGlimpse")]}}),
    not_found=_WHAT,
)
async def read_by_code(call: Call) -> Reply:
    code = call.params[0]
    if len(code) != _CODE_LENGTH or not (code.isascii() and code.isalnum()):
        raise NotFound(_WHAT)
    booking = await actions.by_code(call.ports, code)
    viewer = actions.side(call.actor, booking)
    record = booking_glimpse(booking) if viewer is None else booking_record(booking, viewer)
    return Reply(200, codec.encode({"booking": record}))


@endpoint(
    "GET",
    "/bookings/{id}",
    WithSession(),
    summary="Read a booking",
    description="With the customer's priority rebooking, where there is one to use.",
    answer=shape(
        {
            "booking": ref("Booking"),
            "rebooking": nullable(
                shape({"expires_at": INSTANT, "companions": items(ref("Companion"))})
            ),
        }
    ),
    not_found=_WHAT,
)
async def read_by_id(call: Call) -> Reply:
    booking, party, rebooking = await actions.by_id(call.ports, call.actor, call.path_id(_WHAT))
    record = codec.encode(booking_record(booking, party))
    offer = b"null"
    if rebooking is not None:
        until = codec.encode(instant(rebooking.expires_at))
        rows = b",".join(rebooking.companions)
        offer = b'{"expires_at":' + until + b',"companions":[' + rows + b"]}"
    return Reply(200, b'{"booking":' + record + b',"rebooking":' + offer + b"}")


async def _listing(call: Call, role: str | None) -> Reply:
    wanted: ListBookings = call.given
    page, limit = wanted.page, wanted.limit
    found = await actions.listing(
        call.ports, call.actor, role=role, status=wanted.status, page=page, limit=limit
    )
    records = [_record(call, booking) for booking in found[:limit]]
    answer = {"bookings": records, "page": page, "limit": limit, "has_more": len(found) > limit}
    return Reply(200, codec.encode(answer))


@endpoint(
    "GET",
    "/api/v1/bookings",
    WithKey(Permission.READ),
    summary="List the bookings that you are a party of, or made",
    query=ListBookings,
    answer=_PAGE,
)
async def list_by_key(call: Call) -> Reply:
    return await _listing(call, None)


@endpoint(
    "GET",
    "/bookings",
    WithSession(),
    summary="List your bookings",
    description="The newest event first; before all, a staff member's priority requests.",
    query=ListMyBookings,
    answer=_PAGE,
)
async def list_by_session(call: Call) -> Reply:
    return await _listing(call, call.given.role)


# Acting ---------------------------------------------------------------------------------


def _authorized(trigger: Trigger) -> Handler:
    """Finds the booking for a call that something else is wrong with."""

    async def find(call: Call) -> Reply:
        await actions.authorize(call.ports, call.actor, call.path_id(_WHAT), trigger)
        return Reply(200)

    return find


def _move(word: str, trigger: Trigger, summary: str, *codes: str) -> Endpoint:
    """An operation that needs no more than who and when."""

    async def act(call: Call) -> Reply:
        booking_id = call.path_id(_WHAT)
        return _done(call, await actions.move(call.ports, call.actor, booking_id, trigger))

    access: Access = WithSession()
    path = f"/bookings/{{id}}/{word}"
    described = {"summary": summary, "answer": BOOKED, "codes": codes, "not_found": _WHAT}
    return endpoint("POST", path, access, **described)(act)


decline = _move("decline", Trigger.DECLINE, "Decline a request", "booking_not_pending")
check_in = _move(
    "check-in",
    Trigger.CHECK_IN,
    "Check in at the event",
    "booking_not_paid",
    "check_in_not_open",
)
confirm = _move(
    "confirm",
    Trigger.CONFIRM,
    "Confirm that the event has taken place",
    "booking_not_paid",
    "event_not_ended",
)


@endpoint(
    "POST",
    "/bookings/{id}/accept",
    WithSession(),
    summary="Accept a request",
    description="Takes the slot: other requests that overlap it are cancelled.",
    answer=BOOKED,
    codes=("booking_not_pending", "event_started", "companion_unavailable"),
    not_found=_WHAT,
)
async def accept(call: Call) -> Reply:
    booking_id = call.path_id(_WHAT)
    return _done(call, await actions.accept(call.ports, call.actor, booking_id))


@endpoint(
    "POST",
    "/bookings/{id}/checkout",
    WithSession(),
    summary="Open the hosted checkout",
    description="Safe to repeat. 500 `processor_unavailable` where the processor is away.",
    answer=shape(
        {
            "success": SUCCESS,
            "booking": ref("Booking"),
            "checkout_url": TEXT,
            "expires_at": INSTANT,
        }
    ),
    codes=("booking_not_accepted", "event_started"),
    not_found=_WHAT,
)
async def checkout(call: Call) -> Reply:
    booking, url, expires_at = await actions.checkout(call.ports, call.actor, call.path_id(_WHAT))
    return _done(call, booking, checkout_url=url, expires_at=instant(expires_at))


@endpoint(
    "GET",
    "/bookings/{id}/cancellation-quote",
    WithSession(),
    summary="Ask what cancelling would give back",
    description="The quote holds for 10 minutes, handed back to `cancel`.",
    answer=shape(
        {
            "refund_percent": WHOLE,
            "refund_amount": MONEY,
            "rule": TEXT,
            "quote": TEXT,
            "expires_at": INSTANT,
        }
    ),
    codes=("booking_not_cancellable",),
    not_found=_WHAT,
)
async def quote(call: Call) -> Reply:
    record = await actions.quote(call.ports, call.actor, call.path_id(_WHAT))
    return Reply(200, codec.encode(record))


@endpoint(
    "POST",
    "/bookings/{id}/cancel",
    WithSession(),
    summary="Cancel a booking",
    description="Refunds by the published table, or exactly as the quote says.",
    body=CancelBooking,
    body_optional=True,
    find=_authorized(Trigger.CANCEL),
    answer=BOOKED,
    codes=("booking_not_cancellable", "quote_invalid"),
    not_found=_WHAT,
)
async def cancel(call: Call) -> Reply:
    booking_id = call.path_id(_WHAT)
    return _done(call, await actions.cancel(call.ports, call.actor, booking_id, call.given))


@endpoint(
    "POST",
    "/bookings/{id}/dispute",
    WithSession(),
    summary="Dispute a booking",
    body=DisputeBooking,
    find=_authorized(Trigger.DISPUTE),
    answer=BOOKED,
    codes=("booking_not_disputable", "event_not_started", "payout_released"),
    not_found=_WHAT,
)
async def dispute(call: Call) -> Reply:
    booking_id = call.path_id(_WHAT)
    return _done(call, await actions.dispute(call.ports, call.actor, booking_id, call.given))
