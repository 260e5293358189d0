"""The booking page: details, status and a button for each action available to the visitor.

Emails and the hosted checkout link to it.
"""

from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.reviews import REVIEWING_PARTIES
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.errors import (
    InvalidInput,
    ProcessorUnavailable,
    RuleBroken,
    StaffbookingError,
    invalid_field,
)
from staffbooking_core.inputs import CancelBooking, DisputeBooking, LongText
from staffbooking_core.representations.bookings import booking_record
from staffbooking_core.usecases.bookings import actions, disputes
from staffbooking_core.usecases.bookings.actions import RebookingOffer
from staffbooking_core.usecases.companions import reviews
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    PageRequest,
    find_visitor,
    get_call,
    has_flash_code,
    read_form,
    render,
    render_error,
    require_signed_in,
)

_TEMPLATE = "booking.html"


class _Action(StrEnum):
    ACCEPT = "accept"
    DECLINE = "decline"
    CHECKOUT = "checkout"
    CHECK_IN = "check_in"
    NO_SHOW = "no_show"
    WITHDRAW = "withdraw"
    CONFIRM = "confirm"
    CANCEL = "cancel"
    DISPUTE = "dispute"


@frozen(kw_only=True)
class _ActionForm:
    """The submitted action, with the cancellation quote or the dispute reason that it needs."""

    step: _Action
    quote: Annotated[str, TextBounds(1000, characters=AllowedCharacters.OPAQUE)] | None = None
    reason: LongText | None = None


@get("/bookings/{number:str}/return")
async def show_booking(request: PageRequest) -> Template:
    """Show a booking to its parties. Signed-out visitors see no details."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return render(_TEMPLATE, here=call.scope["path"])
    number = call.path_id("Booking")
    booking, party, _ = await actions.get_by_id(call.ports, visitor.actor, number)
    if (
        party is Party.CUSTOMER
        and booking.status is BookingStatus.ACCEPTED
        and not has_flash_code(call, _CHECKOUT_CANCELLED_CODE)
    ):
        # A failed sync is retried elsewhere: the page shows the stored status.
        with suppress(StaffbookingError):
            await reconciliation.sync_intent_on_visit(
                call.ports, number, call.ports.policy.processor_inline_timeout
            )
    return render(_TEMPLATE, visitor, **await _booking_context(call, visitor.actor, number))


_CHECKOUT_CANCELLED_CODE = b"cancelled"
"""Query code of a return from the hosted checkout without payment."""


@post("/bookings/{number:str}/return", status_code=200)
async def submit_action(request: PageRequest) -> Template | Redirect:
    """Apply an action and redirect to the booking page; on an error, show the page with it."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number = call.path_id("Booking")
    try:
        await _run_action(call, visitor, number, await read_form(call, visitor, _ActionForm))
    except (RuleBroken, InvalidInput, ProcessorUnavailable) as error:
        seen = await _booking_context(call, visitor.actor, number)
        return render_error(_TEMPLATE, visitor, error, **seen)
    return Redirect(call.scope["path"], status_code=303)


async def _run_action(call: Call, visitor: SignedInUser, number: int, form: _ActionForm) -> None:
    ports, actor = call.ports, visitor.actor
    match form.step:
        case _Action.ACCEPT:
            await actions.accept(ports, actor, number)
        case _Action.CHECKOUT:
            await actions.open_checkout(ports, actor, number)
        case _Action.CANCEL:
            await actions.cancel(ports, actor, number, CancelBooking(quote=form.quote))
        case _Action.DISPUTE:
            if form.reason is None:
                raise invalid_field("reason", "is required")
            await disputes.open_dispute(ports, actor, number, DisputeBooking(reason=form.reason))
        case _Action.NO_SHOW:
            await disputes.report_no_show(ports, actor, number)
        case _Action.WITHDRAW:
            await disputes.withdraw_dispute(ports, actor, number)
        case word:
            await actions.apply_trigger(ports, actor, number, Trigger(word))


async def _booking_context(call: Call, actor: Actor, number: int) -> dict[str, Any]:
    """The template context of a booking in its current state."""
    booking, party, rebooking = await actions.get_by_id(call.ports, actor, number)
    steps = await actions.available_triggers(call.ports, booking, party)
    cancelling = Trigger.CANCEL in steps and has_flash_code(call, b"cancel")
    reviews_it = booking.status is BookingStatus.COMPLETED and party in REVIEWING_PARTIES
    return {
        "booking": booking_record(booking, party, call.ports.policy),
        "party": party,
        "other": _other_party(booking, party),
        "group_id": await messages.find_event_group(call.ports, actor, booking),
        "steps": steps,
        "reviews_it": reviews_it,
        "review": await reviews.get_own_review(call.ports, actor, number) if reviews_it else None,
        "quote": await actions.quote_cancellation(call.ports, actor, number)
        if cancelling
        else None,
        "quote_lifetime": format_duration(call.ports.policy.quote_lifetime),
        "rebooking": None if rebooking is None else _rebooking_context(rebooking),
        "open_page": await _open_checkout(call, booking) if party is Party.CUSTOMER else None,
        "waits": has_flash_code(call, b"done"),
    }


def _other_party(booking: Booking, party: Party) -> tuple[int, str] | None:
    """The user id and name of the other party, or None for others than the two parties."""
    match party:
        case Party.CUSTOMER:
            return booking.companion_id, booking.companion_name
        case Party.STAFF:
            return booking.customer_id, booking.customer_name
    return None


async def _open_checkout(call: Call, booking: Booking) -> dict[str, str] | None:
    """The URL and expiry of the open checkout of an accepted booking, or None."""
    intent = booking.intent
    if booking.status is not BookingStatus.ACCEPTED or intent is None or not intent.checkout_url:
        return None
    until = intent.checkout_expires_at
    if until <= await call.ports.clock.business():
        return None
    return {"url": intent.checkout_url, "until": _format_minute(until)}


def _rebooking_context(rebooking: RebookingOffer) -> dict[str, Any]:
    """The expiry of the rebooking offer and the companions who are free."""
    free = [request_body.parse_object(summary) for summary in rebooking.companions]
    return {"until": _format_minute(rebooking.expires_at), "companions": free}


def _format_minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


PAGES = (show_booking, submit_action)
