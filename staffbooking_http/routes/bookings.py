"""Bookings: requesting, reading, and the actions of the parties (CONTRACT 4)."""

from collections.abc import Mapping
from typing import Any

from staffbooking_adapters import codec
from staffbooking_adapters.codec import RawJson
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.inputs import (
    CancelBooking,
    DisputeBooking,
    RequestBooking,
    RequestBookingFor,
    RequestQuote,
)
from staffbooking_core.representations.bookings import (
    BookingGlimpseRecord,
    BookingRecord,
    CancellationQuoteRecord,
    RebookingRecord,
    booking_glimpse_record,
    booking_record,
)
from staffbooking_core.representations.json_types import Success, Timestamp, format_instant
from staffbooking_core.representations.quotes import QuoteRecord
from staffbooking_core.usecases.bookings import (
    actions,
    cancellation_quotes,
    disputes,
    parties,
    quotes,
    requests,
)
from staffbooking_http.api.access import ApiKeyAccess, SessionAccess, require_customer
from staffbooking_http.api.endpoint import Call, Endpoint, Handler, Reply, endpoint
from staffbooking_http.api.preconditions import allowed_versions, version_etag
from staffbooking_http.api.query_string import ListBookings, ListMyBookings
from staffbooking_http.api.response_schemas import (
    reply_schema,
    type_schema,
)

_RESOURCE_NAME = "Booking"
_BOOKING_REPLY_SCHEMA = reply_schema("BookingReply", success=Success, booking=BookingRecord)
_BOOKING_PAGE_SCHEMA = reply_schema(
    "BookingPage", bookings=list[BookingRecord], page=int, limit=int, has_more=bool
)
_REQUEST_CODES = (
    "companion_unavailable",
    "amount_too_small",
    "rebooking_not_available",
)


def _record_for_caller(call: Call, booking: Booking) -> BookingRecord:
    return booking_record(*parties.require_party(call.actor, booking), call.ports.policy)


def _booking_reply(call: Call, booking: Booking, status: int = 200, **more: object) -> Reply:
    answer = {"success": True, "booking": _record_for_caller(call, booking), **more}
    return Reply(status, codec.encode(answer))


# Requesting -----------------------------------------------------------------------------


def _created_reply(call: Call, booking: Booking) -> Reply:
    return _booking_reply(call, booking, 201)


async def _request_booking(call: Call) -> Reply:
    booking = await requests.request_booking(call.ports, call.actor, call.parsed_input)
    return _created_reply(call, booking)


_CREATION_DESCRIPTION = "{bookings_limit} {bookings_rate}."

request_by_key = endpoint(
    "POST",
    "/api/v1/bookings",
    ApiKeyAccess(Permission.BOOK),
    operation_id="createBooking",
    summary="Create a booking request for a registered customer",
    description=_CREATION_DESCRIPTION,
    body=RequestBookingFor,
    status=201,
    additional_rate_limit_name="bookings",
    build_booking_reply=_created_reply,
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=_REQUEST_CODES,
    not_found_name="Companion",
)(_request_booking)

request_by_session = endpoint(
    "POST",
    "/bookings",
    SessionAccess(check_user=require_customer),
    operation_id="createOwnBooking",
    summary="Create a booking request for yourself",
    description=_CREATION_DESCRIPTION,
    body=RequestBooking,
    status=201,
    additional_rate_limit_name="bookings",
    build_booking_reply=_created_reply,
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=(*_REQUEST_CODES, "customers_only"),
    not_found_name="Companion",
)(_request_booking)


# Quotes ---------------------------------------------------------------------------------


async def _quote_booking(call: Call) -> Reply:
    quote = await quotes.quote_booking(call.ports, call.parsed_input)
    return Reply(200, codec.encode({"quote": quote}))


_QUOTE_DESCRIPTION = (
    "The price with its lines, whether the companion is free, and what a cancellation would give "
    "back. Nothing is kept; a booking spends its own limit."
)

quote_by_key = endpoint(
    "POST",
    "/api/v1/quotes",
    ApiKeyAccess(Permission.READ),
    operation_id="quoteBooking",
    summary="Quote a booking",
    description=_QUOTE_DESCRIPTION,
    changes_nothing=True,
    body=RequestQuote,
    response_schema=reply_schema("QuoteReply", quote=QuoteRecord),
    not_found_name="Companion",
)(_quote_booking)

quote_by_session = endpoint(
    "POST",
    "/quotes",
    SessionAccess(),
    operation_id="quoteOwnBooking",
    summary="Quote a booking for yourself",
    description=_QUOTE_DESCRIPTION,
    changes_nothing=True,
    body=RequestQuote,
    response_schema=reply_schema("QuoteReply", quote=QuoteRecord),
    not_found_name="Companion",
)(_quote_booking)


# Reading --------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/api/v1/bookings/{code}",
    ApiKeyAccess(Permission.READ),
    operation_id="getBooking",
    summary="Read a booking by its code",
    description="Callers who are not a party get `booking_code`, `status` and `event_date` only.",
    response_schema=reply_schema("BookingOrGlimpse", booking=BookingRecord | BookingGlimpseRecord),
    is_versioned=True,
    not_found_name=_RESOURCE_NAME,
)
async def read_by_code(call: Call) -> Reply:
    booking = await actions.get_by_code(call.ports, call.path_code())
    viewer = parties.party_of(call.actor, booking)
    if viewer is None:
        record: Mapping[str, Any] = booking_glimpse_record(booking)
    else:
        record = booking_record(booking, viewer, call.ports.policy)
    return Reply(200, codec.encode({"booking": record}), version_etag(booking.version))


@endpoint(
    "GET",
    "/bookings/{id}",
    SessionAccess(),
    operation_id="getOwnBooking",
    summary="Read a booking",
    description="Includes the customer's unused priority rebooking, if there is one.",
    response_schema=reply_schema(
        "OwnBooking", booking=BookingRecord, rebooking=RebookingRecord | None
    ),
    is_versioned=True,
    not_found_name=_RESOURCE_NAME,
)
async def read_by_id(call: Call) -> Reply:
    booking, party, rebooking = await actions.get_by_id(
        call.ports, call.actor, call.path_id(_RESOURCE_NAME)
    )
    offer = rebooking and {
        "expires_at": format_instant(rebooking.expires_at),
        "companions": [*map(RawJson, rebooking.companions)],
    }
    answer = {"booking": booking_record(booking, party, call.ports.policy), "rebooking": offer}
    return Reply(200, codec.encode(answer), version_etag(booking.version))


async def _list_bookings(call: Call, role: str | None) -> Reply:
    wanted: ListBookings = call.parsed_input
    page, limit = wanted.page, wanted.limit
    found = await actions.list_bookings(
        call.ports, call.actor, role=role, status=wanted.status, page=page, limit=limit
    )
    records = [_record_for_caller(call, booking) for booking in found[:limit]]
    answer = {"bookings": records, "page": page, "limit": limit, "has_more": len(found) > limit}
    return Reply(200, codec.encode(answer))


@endpoint(
    "GET",
    "/api/v1/bookings",
    ApiKeyAccess(Permission.READ),
    operation_id="listBookings",
    summary="List the bookings that you are a party of or created",
    query=ListBookings,
    response_schema=_BOOKING_PAGE_SCHEMA,
)
async def list_by_key(call: Call) -> Reply:
    return await _list_bookings(call, None)


@endpoint(
    "GET",
    "/bookings",
    SessionAccess(),
    operation_id="listOwnBookings",
    summary="List your bookings",
    description="The latest event first; for staff members, priority requests come first.",
    query=ListMyBookings,
    response_schema=_BOOKING_PAGE_SCHEMA,
)
async def list_by_session(call: Call) -> Reply:
    return await _list_bookings(call, call.parsed_input.role)


# Acting ---------------------------------------------------------------------------------


def _authorization_check(trigger: Trigger) -> Handler:
    """Return a handler that only authorizes the call, for calls that are otherwise invalid."""

    async def check(call: Call) -> Reply:
        await parties.authorize(call.ports, call.actor, call.path_id(_RESOURCE_NAME), trigger)
        return Reply(200)

    return check


def _transition_endpoint(
    path_segment: str, operation_id: str, trigger: Trigger, summary: str, *codes: str
) -> Endpoint:
    """Return the endpoint of a transition that takes no input."""

    @endpoint(
        "POST",
        f"/bookings/{{id}}/{path_segment}",
        SessionAccess(),
        operation_id=operation_id,
        summary=summary,
        is_versioned=True,
        check_target=_authorization_check(trigger),
        response_schema=_BOOKING_REPLY_SCHEMA,
        rule_codes=("wrong_party", *codes),
        not_found_name=_RESOURCE_NAME,
    )
    async def apply(call: Call) -> Reply:
        booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
        booking = await actions.apply_trigger(
            call.ports, call.actor, booking_id, trigger, allowed_versions=versions
        )
        return _booking_reply(call, booking)

    return apply


decline = _transition_endpoint(
    "decline", "declineBooking", Trigger.DECLINE, "Decline a request", "booking_not_pending"
)
check_in = _transition_endpoint(
    "check-in",
    "checkIn",
    Trigger.CHECK_IN,
    "Check in at the event",
    "booking_not_paid",
    "check_in_not_open",
)
confirm = _transition_endpoint(
    "confirm",
    "confirmBooking",
    Trigger.CONFIRM,
    "Confirm that the event has taken place",
    "booking_not_paid",
    "event_not_ended",
)


@endpoint(
    "POST",
    "/bookings/{id}/accept",
    SessionAccess(),
    operation_id="acceptBooking",
    summary="Accept a request",
    description="Takes the slot; overlapping requests are cancelled.",
    is_versioned=True,
    check_target=_authorization_check(Trigger.ACCEPT),
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=(
        *("wrong_party", "booking_not_pending", "event_started", "party_disabled"),
        "companion_unavailable",
    ),
    not_found_name=_RESOURCE_NAME,
)
async def accept(call: Call) -> Reply:
    booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
    booking = await actions.accept(call.ports, call.actor, booking_id, versions)
    return _booking_reply(call, booking)


@endpoint(
    "POST",
    "/bookings/{id}/checkout",
    SessionAccess(),
    operation_id="openCheckout",
    summary="Open the hosted checkout",
    calls_services=True,
    description="Safe to repeat. 500 `processor_unavailable` if the processor is unavailable.",
    is_versioned=True,
    check_target=_authorization_check(Trigger.CHECKOUT),
    response_schema=reply_schema(
        "Checkout", success=Success, booking=BookingRecord, checkout_url=str, expires_at=Timestamp
    ),
    rule_codes=("wrong_party", "booking_not_accepted", "event_started"),
    not_found_name=_RESOURCE_NAME,
)
async def checkout(call: Call) -> Reply:
    booking, url, expires_at = await actions.open_checkout(
        call.ports, call.actor, call.path_id(_RESOURCE_NAME), allowed_versions(call)
    )
    return _booking_reply(call, booking, checkout_url=url, expires_at=format_instant(expires_at))


@endpoint(
    "GET",
    "/bookings/{id}/cancellation-quote",
    SessionAccess(),
    operation_id="quoteCancellation",
    check_target=_authorization_check(Trigger.CANCEL),
    summary="Quote the refund of a cancellation",
    description="The quote is valid for {cancellation_quote_lifetime}; pass it to `cancel`.",
    response_schema=type_schema(CancellationQuoteRecord),
    rule_codes=("wrong_party", "booking_not_cancellable"),
    not_found_name=_RESOURCE_NAME,
)
async def read_cancellation_quote(call: Call) -> Reply:
    record = await cancellation_quotes.quote_cancellation(
        call.ports, call.actor, call.path_id(_RESOURCE_NAME)
    )
    return Reply(200, codec.encode(record))


@endpoint(
    "POST",
    "/bookings/{id}/cancel",
    SessionAccess(),
    operation_id="cancelBooking",
    summary="Cancel a booking",
    description="Refunds by the published table, or exactly as quoted.",
    body=CancelBooking,
    is_body_optional=True,
    is_versioned=True,
    check_target=_authorization_check(Trigger.CANCEL),
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_cancellable", "quote_invalid"),
    not_found_name=_RESOURCE_NAME,
)
async def cancel(call: Call) -> Reply:
    booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
    booking = await actions.cancel(call.ports, call.actor, booking_id, call.parsed_input, versions)
    return _booking_reply(call, booking)


@endpoint(
    "POST",
    "/bookings/{id}/dispute",
    SessionAccess(),
    operation_id="disputeBooking",
    summary="Dispute a booking",
    description=(
        "The reason and its files are the first statement. `files` are ids of files that you "
        "uploaded for this booking."
    ),
    body=DisputeBooking,
    is_versioned=True,
    check_target=_authorization_check(Trigger.DISPUTE),
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_disputable", "event_not_started", "payout_released"),
    not_found_name=_RESOURCE_NAME,
)
async def dispute(call: Call) -> Reply:
    booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
    booking = await disputes.open_dispute(
        call.ports, call.actor, booking_id, call.parsed_input, versions
    )
    return _booking_reply(call, booking)


@endpoint(
    "POST",
    "/bookings/{id}/no-show",
    SessionAccess(),
    operation_id="reportNoShow",
    summary="Report that the staff member did not come",
    description=(
        "A dispute with the reason `no_show`, from {no_show_after} after the start to "
        "{no_show_until} after the end. Grants a priority rebooking, which a withdrawal takes back."
    ),
    is_versioned=True,
    check_target=_authorization_check(Trigger.NO_SHOW),
    response_schema=_BOOKING_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_paid", "already_checked_in", "no_show_not_open"),
    not_found_name=_RESOURCE_NAME,
)
async def report_no_show(call: Call) -> Reply:
    booking_id, versions = call.path_id(_RESOURCE_NAME), allowed_versions(call)
    booking = await disputes.report_no_show(call.ports, call.actor, booking_id, versions)
    return _booking_reply(call, booking)
