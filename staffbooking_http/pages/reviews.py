"""Pages of reviews: one on which each side of a completed booking reviews the other, once, and
those on which staff members read what is said of them, and respond."""

from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.companions.reviews import check_reviewer
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.representations.records import booking_record, review_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    Written,
    call_of,
    page_of,
    proven,
    refused,
    shown,
    signed_in,
    staff_member,
    take,
)

_PAGE = "review.html"
_LIST = "/staff/reviews"
_AT_A_TIME = 20


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
    visitor = await signed_in(call)
    seen = await _seen(call, visitor)
    if await reviews.own(call.ports, visitor.actor, call.path_id("Booking")) is not None:
        return _to_booking(call)
    return shown(_PAGE, visitor, draft=asdict(_Draft()), **seen)


@post("/bookings/{number:str}/review", status_code=200)
async def review(request: Asked) -> Template | Redirect:
    """Say it, and come back to the booking; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await signed_in(call)
    form = await proven(call, visitor)
    draft = query_string.read_form(_Draft, form)
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
    booking, party, _ = await actions.by_id(call.ports, visitor.actor, number)
    check_reviewer(party)
    return {"booking": booking_record(booking, party), "party": party}


# Responding -----------------------------------------------------------------------------


@frozen(kw_only=True)
class _Answer:
    """What somebody responds, whether it can be taken or not."""

    response: Written = ""


@get(_LIST)
async def reviewed(request: Asked) -> Template:
    """What customers said of a staff member, the newest first."""
    call = call_of(request)
    visitor = await staff_member(call)
    page = page_of(call)
    found, ratings = await reviews.of_user(call.ports, visitor.user.id, page, _AT_A_TIME)
    return shown(
        "reviews.html",
        visitor,
        reviews=[review_record(each) for each in found],
        ratings=ratings,
        number=page,
        has_more=page * _AT_A_TIME < ratings.total_reviews,
    )


@get("/staff/reviews/{number:str}")
async def responding(request: Asked) -> Template:
    """One of these reviews."""
    call = call_of(request)
    visitor = await staff_member(call)
    return shown("response.html", visitor, **await _said(call, visitor))


@post("/staff/reviews/{number:str}", status_code=200)
async def respond(request: Asked) -> Template | Redirect:
    """Respond to it, and come back to the list; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await staff_member(call)
    form = await proven(call, visitor)
    draft = query_string.read_form(_Answer, form).response
    number, page = call.path_id("Review"), page_of(call)
    try:
        given = await take(call, visitor, RespondToReview, form)
        await reviews.respond(call.ports, visitor.actor, number, given)
    except (InvalidInput, LimitExceeded, RuleBroken) as error:
        said = await _said(call, visitor)
        return refused("response.html", visitor, error, draft=draft, **said)
    return Redirect(f"{_LIST}?page={page}#review-{number}", status_code=303)


async def _said(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows of a review of the visitor, and from which page of the list."""
    number = call.path_id("Review")
    found = await reviews.authorize_response(call.ports, visitor.actor, number)
    return {"review": review_record(found), "back": page_of(call)}


PAGES = (reviewing, review, reviewed, responding, respond)
