"""Inquiries of the contact form as operators read and answer them."""

from enum import StrEnum

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import Id
from staffbooking_core.operator_inputs import OperatorDecision
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.notifications import inquiries
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

_LIST_PATH = "/admin/inquiries"
_PAGE_SIZE = 20

_DONE_TEXTS = {"answered": "The inquiry is marked as answered."}
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
    visitor = await require_operator(call)
    given = drop_empty_fields(call.scope["query_string"])
    query = query_string.parse_query(_InquiriesQuery, given)
    answered = None if query.only is _Shown.ALL else query.only is _Shown.ANSWERED
    found = await inquiries.list_newest_inquiries(call.ports, query.before, _PAGE_SIZE, answered)
    return render(
        "admin/inquiries.html",
        visitor,
        inquiries=found[:_PAGE_SIZE],
        only=query.only,
        next_before=found[_PAGE_SIZE - 1].id if len(found) > _PAGE_SIZE else None,
        is_first=query.before is None,
        done=flash_text(call, _DONE_TEXTS),
    )


async def _ask(call: Call) -> Decision:
    inquiry, operator = await inquiries.get_inquiry(call.ports, call.path_id("Inquiry"))
    return Decision(
        template="admin/inquiry.html",
        act="answer",
        subject=AuditSubject.INQUIRY,
        subject_id=inquiry.id,
        leads_to=f"{_LIST_PATH}?answered",
        context={"inquiry": inquiry, "operator": operator},
    )


@get(_LIST_PATH + "/{number:str}")
async def ask(request: PageRequest) -> Template:
    """Show an inquiry, and ask for a note about its answer."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask(call))


@post(_LIST_PATH + "/{number:str}", status_code=200)
async def mark_answered(request: PageRequest) -> Template | Redirect:
    """Mark the inquiry as answered."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask(call)

    async def change(ports: Ports, given: OperatorDecision) -> None:
        await inquiries.mark_answered(ports, decision.subject_id, visitor.user.id, given.reason)

    return await take_decision(call, visitor, decision, change)


PAGES = (list_inquiries, ask, mark_answered)
