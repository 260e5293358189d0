"""The page on which each side of a completed booking reviews the other, once."""

from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.limits import LimitExceeded
from staffbooking_core.domain.records import booking_record
from staffbooking_core.domain.reviews import check_reviewer
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import SubmitReview
from staffbooking_core.usecases import bookings, reviews
from staffbooking_http import queries
from staffbooking_http.endpoint import Call
from staffbooking_http.visits import (
    Asked,
    Visitor,
    Written,
    call_of,
    proven,
    refused,
    shown,
    take,
    to_sign_in,
    visitor_of,
)

_PAGE = "review.html"


@frozen(kw_only=True)
class _Draft:
    """What somebody filled in, whether it can be taken or not."""

    rating: Written = ""
    comment: Written = ""
    punctuality: Written = ""
    professionalism: Written = ""
    communication: Written = ""
    appearance: Written = ""


@get("/bookings/{number:str}/review")
async def reviewing(request: Asked) -> Template | Redirect:
    """Where one says how the other side was; who said it is led back to the booking."""
    call = call_of(request)
    if (visitor := await visitor_of(call)) is None:
        return to_sign_in(call.scope["path"])
    seen = await _seen(call, visitor)
    if await reviews.own(call.ports, visitor.actor, call.path_id("Booking")) is not None:
        return _to_booking(call)
    return shown(_PAGE, visitor, draft=asdict(_Draft()), **seen)


@post("/bookings/{number:str}/review", status_code=200)
async def review(request: Asked) -> Template | Redirect:
    """Say it, and come back to the booking; what can't be taken stays in the form."""
    call = call_of(request)
    if (visitor := await visitor_of(call)) is None:
        return to_sign_in(call.scope["path"])
    form = await proven(call, visitor)
    draft = queries.read_form(_Draft, form)
    try:
        given = await take(call, visitor, SubmitReview, form)
        await reviews.submit(call.ports, visitor.actor, call.path_id("Booking"), given)
    except (InvalidInput, LimitExceeded, RuleBroken) as error:
        seen = await _seen(call, visitor)
        return refused(_PAGE, visitor, error, draft=asdict(draft), **seen)
    return _to_booking(call)


def _to_booking(call: Call) -> Redirect:
    return Redirect(f"/bookings/{call.path_id('Booking')}/return", status_code=303)


async def _seen(call: Call, visitor: Visitor) -> dict[str, Any]:
    number = call.path_id("Booking")
    booking, party, _ = await bookings.by_id(call.ports, visitor.actor, number)
    check_reviewer(party)
    return {"booking": booking_record(booking, party), "party": party}


PAGES = (reviewing, review)
