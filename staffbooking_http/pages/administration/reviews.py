"""Reviews as operators read, hide and show them."""

from enum import StrEnum

from attrs import frozen
from litestar import get
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import Id
from staffbooking_core.operator_inputs import DecideReview, ReviewAct
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import Decision, decision_page
from staffbooking_http.pages.administration.lists import ROWS_OF_A_PAGE, rows_before
from staffbooking_http.pages.session import (
    PageRequest,
    flash_text,
    get_call,
    read_query,
    render,
)

_LIST_PATH = "/admin/reviews"

_FLASH_TEXTS = {
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
    operator = await require_operator(call)
    query = read_query(call, _ReviewsQuery)
    hidden = None if query.only is None else query.only is _Shown.HIDDEN
    found = await reviews.list_newest_reviews(call.ports, query.before, ROWS_OF_A_PAGE, hidden)
    return render(
        "admin/reviews.html",
        operator,
        only=query.only,
        done=flash_text(call, _FLASH_TEXTS),
        **rows_before(found, query.before),
    )


async def _ask(call: Call, _: SignedInUser) -> Decision:
    """Whether the review is hidden, or shown again."""
    review, reviewee = await reviews.get_review(call.ports, call.path_id("Review"))

    async def change(ports: Ports, given: DecideReview) -> Redirect:
        await reviews.set_review_hidden(ports, review.id, given.act is ReviewAct.HIDE)
        return Redirect(f"{_LIST_PATH}?{given.act}", status_code=303)

    return Decision(
        template="admin/review_decision.html",
        subject=AuditSubject.REVIEW,
        subject_id=review.id,
        leads_to=_LIST_PATH,
        form=DecideReview,
        change=change,
        context={
            "review": review,
            "reviewee": reviewee,
            "wanted": ReviewAct.SHOW if review.hidden else ReviewAct.HIDE,
        },
    )


PAGES = (list_reviews, *decision_page(_LIST_PATH + "/{number:str}", _ask))
