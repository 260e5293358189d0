"""The page of a booking, to which mails and the hosted checkout lead: what it is, how it stands,
and a button for each step that the visitor can take now."""

from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.companions.reviews import REVIEWERS
from staffbooking_core.errors import (
    InvalidInput,
    ProcessorUnavailable,
    RuleBroken,
    StaffbookingError,
    invalid,
)
from staffbooking_core.inputs import CancelBooking, Characters, DisputeBooking, Lines, Text
from staffbooking_core.representations.records import booking_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.bookings.actions import Rebooking
from staffbooking_core.usecases.companions import reviews
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    call_of,
    read_form,
    refused,
    said,
    shown,
    signed_in,
    visitor_of,
)

_PAGE = "booking.html"


class _Word(StrEnum):
    ACCEPT = "accept"
    DECLINE = "decline"
    CHECKOUT = "checkout"
    CHECK_IN = "check_in"
    CONFIRM = "confirm"
    CANCEL = "cancel"
    DISPUTE = "dispute"


@frozen(kw_only=True)
class _Step:
    """What a visitor does: a trigger of the lifecycle, by its name."""

    step: _Word
    quote: Annotated[str, Text(1000, characters=Characters.OPAQUE)] | None = None
    reason: Lines | None = None


@get("/bookings/{number:str}/return")
async def returned(request: Asked) -> Template:
    """A booking for its parties; strangers are told nothing."""
    call = call_of(request)
    if (visitor := await visitor_of(call)) is None:
        return shown(_PAGE, here=call.scope["path"])
    number = call.path_id("Booking")
    booking, party, _ = await actions.by_id(call.ports, visitor.actor, number)
    if party is Party.CUSTOMER and booking.status is Status.ACCEPTED and not said(call, _LEFT):
        # What can't be learned now is learned later: the page shows the status, no more.
        with suppress(StaffbookingError):
            await reconciliation.look_on_visit(
                call.ports, number, call.ports.policy.processor_deadline_inline
            )
    return shown(_PAGE, visitor, **await _seen(call, visitor.actor, number))


_LEFT = b"cancelled"
"""What the processor's page says of whoever came back from it without paying."""


@post("/bookings/{number:str}/return", status_code=200)
async def act(request: Asked) -> Template | Redirect:
    """Take a step, and come back to the page."""
    call = call_of(request)
    visitor = await signed_in(call)
    number = call.path_id("Booking")
    try:
        await _take(call, visitor, number, await read_form(call, visitor, _Step))
    except (RuleBroken, InvalidInput, ProcessorUnavailable) as error:
        seen = await _seen(call, visitor.actor, number)
        return refused(_PAGE, visitor, error, **seen)
    return Redirect(call.scope["path"], status_code=303)


async def _take(call: Call, visitor: Visitor, number: int, given: _Step) -> None:
    ports, actor = call.ports, visitor.actor
    match given.step:
        case _Word.ACCEPT:
            await actions.accept(ports, actor, number)
        case _Word.CHECKOUT:
            await actions.checkout(ports, actor, number)
        case _Word.CANCEL:
            await actions.cancel(ports, actor, number, CancelBooking(quote=given.quote))
        case _Word.DISPUTE:
            if given.reason is None:
                raise invalid("reason", "is required")
            await actions.dispute(ports, actor, number, DisputeBooking(reason=given.reason))
        case word:
            await actions.move(ports, actor, number, Trigger(word))


async def _seen(call: Call, actor: Actor, number: int) -> dict[str, Any]:
    """What the page shows of a booking as it stands."""
    booking, party, rebooking = await actions.by_id(call.ports, actor, number)
    steps = await actions.steps(call.ports, booking, party)
    cancelling = Trigger.CANCEL in steps and said(call, b"cancel")
    reviews_it = booking.status is Status.COMPLETED and party in REVIEWERS
    return {
        "booking": booking_record(booking, party),
        "party": party,
        "other": _other(booking, party),
        "steps": steps,
        "reviews_it": reviews_it,
        "review": await reviews.own(call.ports, actor, number) if reviews_it else None,
        "quote": await actions.quote(call.ports, actor, number) if cancelling else None,
        "rebooking": None if rebooking is None else _offer(rebooking),
        "open_page": await _open_page(call, booking) if party is Party.CUSTOMER else None,
        "waits": said(call, b"done"),
    }


def _other(booking: Booking, party: Party) -> tuple[int, str] | None:
    """Whom a side of a booking writes to: their id and name."""
    match party:
        case Party.CUSTOMER:
            return booking.companion_id, booking.companion_name
        case Party.STAFF:
            return booking.customer_id, booking.customer_name
    return None


async def _open_page(call: Call, booking: Booking) -> dict[str, str] | None:
    """The page where an accepted booking can still be paid, and until when."""
    intent = booking.intent
    if booking.status is not Status.ACCEPTED or intent is None or not intent.checkout_url:
        return None
    until = intent.checkout_expires_at
    if until <= await call.ports.clock.business():
        return None
    return {"url": intent.checkout_url, "until": _minute(until)}


def _offer(rebooking: Rebooking) -> dict[str, Any]:
    """Until when somebody else may be booked with priority, and who is free."""
    free = [request_body.parse(summary) for summary in rebooking.companions]
    return {"until": _minute(rebooking.expires_at), "companions": free}


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


PAGES = (returned, act)
