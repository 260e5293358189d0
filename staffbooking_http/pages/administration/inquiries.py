"""Inquiries of the contact form as operators read and answer them."""

from enum import StrEnum

from attrs import frozen
from litestar import get
from litestar.response import Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import Id
from staffbooking_core.operator_inputs import OperatorDecision
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.notifications import inquiries
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

_LIST_PATH = "/admin/inquiries"

_FLASH_TEXTS = {"answered": "The inquiry is marked as answered."}
"""Messages of the list by flash code in the query string."""


class _Shown(StrEnum):
    """Which inquiries are listed."""

    WAITING = "waiting"
    ANSWERED = "answered"
    ALL = "all"


@frozen(kw_only=True)
class _InquiriesQuery:
    only: _Shown = _Shown.WAITING
    before: Id | None = None


@get(_LIST_PATH)
async def list_inquiries(request: PageRequest) -> Template:
    """Show inquiries, the newest first; by default those that nobody has answered."""
    call = get_call(request)
    operator = await require_operator(call)
    query = read_query(call, _InquiriesQuery)
    answered = None if query.only is _Shown.ALL else query.only is _Shown.ANSWERED
    found = await inquiries.list_newest_inquiries(
        call.ports, query.before, ROWS_OF_A_PAGE, answered
    )
    return render(
        "admin/inquiries.html",
        operator,
        only=query.only,
        done=flash_text(call, _FLASH_TEXTS),
        **rows_before(found, query.before),
    )


async def _ask(call: Call, operator: SignedInUser) -> Decision:
    """Whether the inquiry is marked as answered, with a note about its answer as the reason."""
    inquiry, answered_by = await inquiries.get_inquiry(call.ports, call.path_id("Inquiry"))

    async def mark_answered(ports: Ports, given: OperatorDecision) -> None:
        await inquiries.mark_answered(ports, inquiry.id, operator.user.id, given.reason)

    return Decision(
        template="admin/inquiry.html",
        act="answer",
        subject=AuditSubject.INQUIRY,
        subject_id=inquiry.id,
        leads_to=f"{_LIST_PATH}?answered",
        change=mark_answered,
        context={"inquiry": inquiry, "answered_by": answered_by},
    )


PAGES = (list_inquiries, *decision_page(_LIST_PATH + "/{number:str}", _ask))
