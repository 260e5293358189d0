"""The booking page: where a booking stands, what is next, and a button for each action of the
visitor's side. A cancellation has a page of its own, which asks first.

Emails and the hosted checkout link to the booking page.
"""

from contextlib import suppress
from enum import StrEnum
from typing import Any

from attrs import frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import (
    InvalidInput,
    ProcessorUnavailable,
    RuleBroken,
    StaffbookingError,
)
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.usecases.bookings import actions, cancellation_quotes, details, disputes
from staffbooking_core.usecases.bookings.details import BookingDetails
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.api import query_string
from staffbooking_http.api.access import authenticate_session
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.booking_views import booking_context, cancellation_question
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    find_visitor,
    flash_text,
    get_call,
    has_flash_code,
    parse_counted_form,
    read_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
)

_TEMPLATE = "booking.html"
_CANCELLATION_TEMPLATE = "booking_cancellation.html"


class _Action(StrEnum):
    ACCEPT = "accept"
    DECLINE = "decline"
    CHECKOUT = "checkout"
    CHECK_IN = "check_in"
    NO_SHOW = "no_show"
    WITHDRAW = "withdraw"
    CONFIRM = "confirm"


@frozen(kw_only=True)
class _ActionForm:
    step: _Action


def booking_path(number: int) -> str:
    """The path of the booking page."""
    return f"/bookings/{number}/return"


@get("/bookings/{number:str}/return")
async def show_booking(request: PageRequest) -> Template:
    """Show a booking to its parties. Signed-out visitors see no details."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return render(_TEMPLATE, here=call.scope["path"])
    number = call.path_id("Booking")
    found = await details.get_details(call.ports, visitor.actor, number)
    may_have_paid = found.party is Party.CUSTOMER and found.booking.status is BookingStatus.ACCEPTED
    if may_have_paid and not has_flash_code(call, _CHECKOUT_CANCELLED_CODE):
        # A failed sync is retried elsewhere: the page shows the stored status.
        with suppress(StaffbookingError):
            await reconciliation.sync_intent_on_visit(
                call.ports, number, call.ports.policy.processor_inline_timeout
            )
        found = await details.get_details(call.ports, visitor.actor, number)
    return render(_TEMPLATE, visitor, **await _page_context(call, visitor.actor, found))


_CHECKOUT_CANCELLED_CODE = b"cancelled"
"""Query code of a return from the hosted checkout without payment."""
_CHECKOUT_DONE_CODE = b"done"
"""Query code of a return from the hosted checkout after payment."""
_CHECKOUT_OPENED_CODE = b"checkout"
"""Query code that shows a link to an open checkout, to which no form may lead."""

_REFUSAL_TEXTS = {
    "already_checked_in": "Somebody has checked in meanwhile, so no absence can be reported.",
    "booking_not_accepted": "It can't be paid any more. This is how it stands now.",
    "booking_not_pending": "The request was answered or withdrawn meanwhile.",
    "check_in_not_open": "It is too early or too late to check in.",
    "companion_unavailable": "That time is taken by another booking of yours.",
    "event_not_ended": "The event has not ended yet.",
    "event_started": "The event has begun, so that is not possible any more.",
    "no_show_not_open": "An absence can't be reported at this time.",
    "party_disabled": "The other account is closed.",
    "processor_unavailable": (
        "The payment page does not open at the moment. Nothing was charged: try again in a minute."
    ),
    "rebooking_used": "You have booked somebody else in its place, so the report stays.",
}
_REFUSED_TEXT = "That is not possible any more. This is how it stands now."
_REFUSAL_FLASH_TEXTS = {f"refused={code}": text for code, text in _REFUSAL_TEXTS.items()}


@post("/bookings/{number:str}/return", status_code=200)
async def submit_action(request: PageRequest) -> Redirect:
    """Apply an action and redirect to the booking page, or to the checkout. A refused action leads
    to the booking page too, which tells why: no refused form is left in the browser's history."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number = call.path_id("Booking")
    step = (await read_form(call, visitor, _ActionForm)).step
    try:
        way = await _run_action(call, visitor.actor, number, step)
    except (RuleBroken, ProcessorUnavailable) as error:
        is_done = await _was_done(call, visitor.actor, number, Trigger(step))
        way = booking_path(number) + ("" if is_done else f"?refused={error.code}")
    return Redirect(way, status_code=303)


async def _run_action(call: Call, actor: Actor, number: int, step: _Action) -> str:
    """Apply an action; returns where to go."""
    ports = call.ports
    match step:
        case _Action.ACCEPT:
            await actions.accept(ports, actor, number)
        case _Action.CHECKOUT:
            _, url, _ = await actions.open_checkout(ports, actor, number)
            if url.startswith(f"{ports.payments.checkout_origin}/"):
                return url
            return f"{booking_path(number)}?{_CHECKOUT_OPENED_CODE.decode()}"
        case _Action.NO_SHOW:
            await disputes.report_no_show(ports, actor, number)
        case _Action.WITHDRAW:
            await disputes.withdraw_dispute(ports, actor, number)
        case word:
            await actions.apply_trigger(ports, actor, number, Trigger(word))
    return booking_path(number)


async def _was_done(call: Call, actor: Actor, number: int, trigger: Trigger) -> bool:
    """Whether the actor did this before, such as by the same button pressed twice."""
    booking, _, _ = await actions.get_by_id(call.ports, actor, number)
    newest = booking.timeline[-1]
    return newest.trigger is trigger and newest.actor_id == actor.user_id


async def _page_context(call: Call, actor: Actor, found: BookingDetails) -> dict[str, Any]:
    """The template context of the booking page."""
    refused = flash_text(call, _REFUSAL_FLASH_TEXTS)
    if refused is None and b"refused=" in call.scope["query_string"]:
        refused = _REFUSED_TEXT
    is_unpaid = found.booking.status is BookingStatus.ACCEPTED
    intent = found.booking.intent
    return {
        **booking_context(found, call.ports.policy),
        "group_id": await messages.find_event_group(call.ports, actor, found.booking),
        "refused": refused,
        "waits": is_unpaid and has_flash_code(call, _CHECKOUT_DONE_CODE),
        "checkout_url": intent.checkout_url
        if is_unpaid and intent is not None and has_flash_code(call, _CHECKOUT_OPENED_CODE)
        else None,
    }


@get("/bookings/{number:str}/stamp")
async def show_stamp(request: PageRequest) -> Response[str]:
    """A word that changes with the booking page: a script compares it. Does not touch the session,
    which a page left open does not prolong."""
    call = get_call(request)
    visitor = await authenticate_session(call.ports, call.scope["headers"], call.now)
    stamp = await details.get_stamp(call.ports, visitor.actor, call.path_id("Booking"))
    return Response(stamp, media_type="text/plain")


# Cancellation ---------------------------------------------------------------------------


@frozen(kw_only=True)
class _CancellationDraft:
    """The submitted cancellation before validation, to refill the form."""

    reason: DraftText = ""


@get("/bookings/{number:str}/cancellation")
async def show_cancellation(request: PageRequest) -> Template | Redirect:
    """Ask before a cancellation, with what it gives back; redirect where none is possible."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number = call.path_id("Booking")
    context = await _cancellation_context(call, visitor.actor, number)
    if context is None:
        return Redirect(booking_path(number), status_code=303)
    return render(_CANCELLATION_TEMPLATE, visitor, draft="", **context)


@post("/bookings/{number:str}/cancellation", status_code=200)
async def submit_cancellation(request: PageRequest) -> Template | Redirect:
    """Cancel by the quote in the form; on an error, ask again with a new quote."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number, way = call.path_id("Booking"), booking_path(call.path_id("Booking"))
    form = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_CancellationDraft, form)
    try:
        given = await parse_counted_form(call, visitor, CancelBooking, form)
        await actions.cancel(call.ports, visitor.actor, number, given)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        context = await _cancellation_context(call, visitor.actor, number)
        if context is None:
            is_refused = not await _was_done(call, visitor.actor, number, Trigger.CANCEL)
            return Redirect(way + (f"?refused={error.code}" if is_refused else ""), status_code=303)
        return render_error(_CANCELLATION_TEMPLATE, visitor, error, draft=draft.reason, **context)
    return Redirect(way, status_code=303)


async def _cancellation_context(call: Call, actor: Actor, number: int) -> dict[str, Any] | None:
    """The template context of a cancellation; None where none is possible."""
    found = await details.get_details(call.ports, actor, number)
    if Trigger.CANCEL not in found.triggers:
        return None
    quote = await cancellation_quotes.quote_cancellation(call.ports, actor, number)
    return {
        **booking_context(found, call.ports.policy),
        "quote": quote,
        "rule_ahead": cancellation_question(quote["rule"]),
        "quote_lifetime": call.ports.policy.cancellation_quote_lifetime,
    }


PAGES = (show_booking, submit_action, show_stamp, show_cancellation, submit_cancellation)
