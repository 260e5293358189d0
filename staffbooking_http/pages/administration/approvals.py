"""Approvals of profiles and portfolio items by operators: one after the other."""

from typing import Any

from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.companions.companion import Approval, Companion, missing_fields
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.errors import RuleBroken
from staffbooking_core.operator_inputs import ApprovalAct, DecideApproval
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.companions import approvals
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import (
    Decision,
    show_decision,
    take_decision,
)
from staffbooking_http.pages.session import PageRequest, flash_text, get_call, render

_LIST_PATH = "/admin/approvals"
_PAGE_SIZE = 12
_PREVIEW_SIZE = 6

_DONE_TEXTS = {
    "approved": "Approved.",
    "rejected": "Refused.",
}
"""Messages about the decision before, by flash code in the query string."""


@get(_LIST_PATH)
async def list_approvals(request: PageRequest) -> Template:
    """Show the profiles and portfolio items that wait, the oldest first."""
    call = get_call(request)
    visitor = await require_operator(call)
    waiting = await approvals.list_waiting(call.ports, _PAGE_SIZE)
    return render(
        "admin/approvals.html",
        visitor,
        companions=[(each, _rate(call, each)) for each in waiting.companions[:_PAGE_SIZE]],
        items=waiting.items[:_PAGE_SIZE],
        has_more_companions=len(waiting.companions) > _PAGE_SIZE,
        has_more_items=len(waiting.items) > _PAGE_SIZE,
        currency=call.ports.policy.currency.code,
        done=flash_text(call, _DONE_TEXTS),
    )


def _rate(call: Call, companion: Companion) -> Any:
    return call.ports.policy.currency.to_decimal(companion.hourly_rate)


def _next_page(kind: str, following: int | None, act: ApprovalAct) -> Redirect:
    """The page of the next one that waits, or the list where none does."""
    path = _LIST_PATH if following is None else f"{_LIST_PATH}/{kind}/{following}"
    flash = "approved" if act is ApprovalAct.APPROVE else "rejected"
    return Redirect(f"{path}?{flash}", status_code=303)


# Profiles -------------------------------------------------------------------------------


async def _ask_about_profile(call: Call) -> Decision:
    case = await approvals.get_companion_case(call.ports, call.path_id("Companion"))
    companion = case.companion
    return Decision(
        template="admin/approval_profile.html",
        subject=AuditSubject.COMPANION,
        subject_id=companion.id,
        leads_to=_LIST_PATH,
        form=DecideApproval,
        context={
            "person": case.user,
            "companion": companion,
            "is_stored": case.is_stored,
            "items": case.items[:_PREVIEW_SIZE],
            "hidden_items": max(0, len(case.items) - _PREVIEW_SIZE),
            "missing": missing_fields(companion),
            "rate": _rate(call, companion),
            "currency": call.ports.policy.currency.code,
            "done": flash_text(call, _DONE_TEXTS),
        },
    )


@get(_LIST_PATH + "/people/{number:str}")
async def ask_about_profile(request: PageRequest) -> Template:
    """Show a profile as others would see it, beside its decision."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_about_profile(call))


@post(_LIST_PATH + "/people/{number:str}", status_code=200)
async def decide_about_profile(request: PageRequest) -> Template | Redirect:
    """Approve or refuse the profile, and show the next one."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_about_profile(call)
    number = decision.subject_id

    async def change(ports: Ports, given: DecideApproval) -> Redirect:
        if given.act is ApprovalAct.REJECT:
            await administration.set_approval(ports, number, Approval.SUSPENDED)
        elif decision.context["missing"]:
            raise RuleBroken("profile_incomplete", "The profile is not complete yet")
        else:
            await administration.set_approval(ports, number, Approval.APPROVED)
        following = await approvals.next_companion_id(call.ports, number)
        return _next_page("people", following, given.act)

    return await take_decision(call, visitor, decision, change)


# Portfolio items ------------------------------------------------------------------------


async def _ask_about_item(call: Call) -> Decision:
    item, case = await approvals.get_item_case(call.ports, call.path_id("Portfolio item"))
    return Decision(
        template="admin/approval_picture.html",
        subject=AuditSubject.PORTFOLIO_ITEM,
        subject_id=item.id,
        leads_to=_LIST_PATH,
        form=DecideApproval,
        context={
            "picture": item,
            "person": case.user,
            "companion": case.companion,
            "others": [each for each in case.items if each.id != item.id][:_PREVIEW_SIZE],
            "done": flash_text(call, _DONE_TEXTS),
        },
    )


@get(_LIST_PATH + "/pictures/{number:str}")
async def ask_about_item(request: PageRequest) -> Template:
    """Show a portfolio item beside its decision."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_about_item(call))


@post(_LIST_PATH + "/pictures/{number:str}", status_code=200)
async def decide_about_item(request: PageRequest) -> Template | Redirect:
    """Approve or refuse the portfolio item, and show the next one."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_about_item(call)
    number = decision.subject_id

    async def change(ports: Ports, given: DecideApproval) -> Redirect:
        is_approved = given.act is ApprovalAct.APPROVE
        status = PortfolioItemStatus.APPROVED if is_approved else PortfolioItemStatus.REJECTED
        await administration.moderate_item(ports, number, status, given.reason)
        following = await approvals.next_item_id(call.ports, number)
        return _next_page("pictures", following, given.act)

    return await take_decision(call, visitor, decision, change)


PAGES = (
    list_approvals,
    *(ask_about_profile, decide_about_profile),
    *(ask_about_item, decide_about_item),
)
