"""Review pages: the review form of a completed booking, and a staff member's reviews and responses.

Each party of a booking reviews the other once.
"""

from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.companions.reviews import check_reviewer
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.representations.bookings import booking_record
from staffbooking_core.representations.companions import review_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    get_call,
    page_number,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
    require_staff_member,
)

_TEMPLATE = "review.html"
_LIST_PATH = "/staff/reviews"
_REVIEWS_PAGE_SIZE = 20


@frozen(kw_only=True)
class _ReviewDraft:
    """The submitted review before validation, to refill the form."""

    rating: DraftText = ""
    comment: DraftText = ""
    punctuality: DraftText = ""
    professionalism: DraftText = ""
    communication: DraftText = ""
    appearance: DraftText = ""


@get("/bookings/{number:str}/review")
async def show_review_form(request: PageRequest) -> Template | Redirect:
    """Show the review form; redirect to the booking if the visitor has reviewed it."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    seen = await _booking_context(call, visitor)
    if await _has_reviewed(call, visitor):
        return _redirect_to_booking(call)
    return render(_TEMPLATE, visitor, draft=asdict(_ReviewDraft()), **seen)


@post("/bookings/{number:str}/review", status_code=200)
async def submit_review(request: PageRequest) -> Template | Redirect:
    """Submit a review and redirect to the booking, also if the visitor has reviewed it; on another
    error, show the form refilled."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    form = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_ReviewDraft, form)
    try:
        given = await parse_counted_form(call, visitor, SubmitReview, form)
        await reviews.submit_review(call.ports, visitor.actor, call.path_id("Booking"), given)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        if isinstance(error, RuleBroken) and await _has_reviewed(call, visitor):
            return _redirect_to_booking(call)
        seen = await _booking_context(call, visitor)
        return render_error(_TEMPLATE, visitor, error, draft=asdict(draft), **seen)
    return _redirect_to_booking(call)


def _redirect_to_booking(call: Call) -> Redirect:
    return Redirect(f"/bookings/{call.path_id('Booking')}/return", status_code=303)


async def _has_reviewed(call: Call, visitor: SignedInUser) -> bool:
    number = call.path_id("Booking")
    return await reviews.get_own_review(call.ports, visitor.actor, number) is not None


async def _booking_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    number = call.path_id("Booking")
    booking, party, _ = await actions.get_by_id(call.ports, visitor.actor, number)
    check_reviewer(party)
    return {"booking": booking_record(booking, party, call.ports.policy), "party": party}


# Responses ------------------------------------------------------------------------------


@frozen(kw_only=True)
class _ResponseDraft:
    """The submitted response before validation, to refill the form."""

    response: DraftText = ""


@get(_LIST_PATH)
async def list_reviews(request: PageRequest) -> Template:
    """Show a page of the reviews of the staff member, the newest first."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    page = page_number(call)
    found, ratings = await reviews.list_reviews_of(
        call.ports, visitor.user.id, page, _REVIEWS_PAGE_SIZE
    )
    return render(
        "reviews.html",
        visitor,
        reviews=[review_record(each) for each in found],
        ratings=ratings,
        number=page,
        has_more=page * _REVIEWS_PAGE_SIZE < ratings.total_reviews,
    )


@get("/staff/reviews/{number:str}")
async def show_response_form(request: PageRequest) -> Template:
    """Show one review and the form to respond to it."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    return render("response.html", visitor, **await _review_context(call, visitor))


@post("/staff/reviews/{number:str}", status_code=200)
async def submit_response(request: PageRequest) -> Template | Redirect:
    """Respond to a review and redirect to the list, also if it has this response; on another error,
    show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    form = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_ResponseDraft, form).response
    number, page = call.path_id("Review"), page_number(call)
    try:
        given = await parse_counted_form(call, visitor, RespondToReview, form)
        await reviews.respond_to_review(call.ports, visitor.actor, number, given)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        said = await _review_context(call, visitor)
        if not isinstance(error, RuleBroken) or said["review"]["response"] != draft:
            return render_error("response.html", visitor, error, draft=draft, **said)
    return Redirect(f"{_LIST_PATH}?page={page}#review-{number}", status_code=303)


async def _review_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context of a review of the visitor, with the list page to return to."""
    number = call.path_id("Review")
    found = await reviews.authorize_response(call.ports, visitor.actor, number)
    return {"review": review_record(found), "back": page_number(call)}


PAGES = (show_review_form, submit_review, list_reviews, show_response_form, submit_response)
