"""Reviews as operators read, hide and show them."""

from enum import StrEnum

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import Id
from staffbooking_core.operator_inputs import DecideReview, ReviewAct
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import (
    Decision,
    show_decision,
    take_decision,
)
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    flash_text,
    get_call,
    render,
)

_LIST_PATH = "/admin/reviews"
_PAGE_SIZE = 20

_DONE_TEXTS = {
    "hide": "The review is hidden: it is neither shown nor counted.",
    "show": "The review is shown and counted again.",
}
"""Messages of the list by flash code in the query string."""


class _Shown(StrEnum):
    """Which reviews are listed."""

    VISIBLE = "visible"
    HIDDEN = "hidden"


@frozen(kw_only=True)
class _ReviewsQuery:
    only: _Shown | None = None
    before: Id | None = None


@get(_LIST_PATH)
async def list_reviews(request: PageRequest) -> Template:
    """Show reviews, the newest first; those that are hidden, or not, where the query says so."""
    call = get_call(request)
    visitor = await require_operator(call)
    given = drop_empty_fields(call.scope["query_string"])
    query = query_string.parse_query(_ReviewsQuery, given)
    hidden = None if query.only is None else query.only is _Shown.HIDDEN
    found = await reviews.list_newest_reviews(call.ports, query.before, _PAGE_SIZE, hidden)
    return render(
        "admin/reviews.html",
        visitor,
        reviews=found[:_PAGE_SIZE],
        only=query.only,
        next_before=found[_PAGE_SIZE - 1].id if len(found) > _PAGE_SIZE else None,
        is_first=query.before is None,
        done=flash_text(call, _DONE_TEXTS),
    )


async def _ask(call: Call) -> Decision:
    review, reviewee = await reviews.get_review(call.ports, call.path_id("Review"))
    return Decision(
        template="admin/review_decision.html",
        subject=AuditSubject.REVIEW,
        subject_id=review.id,
        leads_to=_LIST_PATH,
        form=DecideReview,
        context={
            "review": review,
            "reviewee": reviewee,
            "wanted": ReviewAct.SHOW if review.hidden else ReviewAct.HIDE,
        },
    )


@get(_LIST_PATH + "/{number:str}")
async def ask(request: PageRequest) -> Template:
    """Show one review, and ask for the reason to hide it or to show it again."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask(call))


@post(_LIST_PATH + "/{number:str}", status_code=200)
async def change_visibility(request: PageRequest) -> Template | Redirect:
    """Hide the review, or show it again."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask(call)

    async def change(ports: Ports, given: DecideReview) -> Redirect:
        hidden = given.act is ReviewAct.HIDE
        await reviews.set_review_hidden(ports, decision.subject_id, hidden)
        return Redirect(f"{_LIST_PATH}?{given.act}", status_code=303)

    return await take_decision(call, visitor, decision, change)


PAGES = (list_reviews, ask, change_visibility)
