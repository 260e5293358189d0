"""Approvals of profiles and portfolio items by operators: one after the other."""

from decimal import Decimal

from attrs import frozen
from litestar import get
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.companions.companion import Approval, Companion, missing_fields
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.errors import RuleBroken
from staffbooking_core.operator_inputs import ApprovalAct, DecideApproval
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import approvals
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import Decision, decision_page
from staffbooking_http.pages.session import PageRequest, flash_text, get_call, render

_LIST_PATH = "/admin/approvals"
_PAGE_SIZE = 12
_PREVIEW_SIZE = 6

_FLASH_TEXTS = {
    "approved": "Approved.",
    "rejected": "Refused.",
}
"""Messages about the decision before, by flash code in the query string."""


@get(_LIST_PATH)
async def list_approvals(request: PageRequest) -> Template:
    """Show the profiles and portfolio items that wait, the oldest first."""
    call = get_call(request)
    operator = await require_operator(call)
    waiting = await approvals.list_waiting(call.ports, _PAGE_SIZE)
    return render(
        "admin/approvals.html",
        operator,
        companions=[(each, _rate(call, each)) for each in waiting.companions[:_PAGE_SIZE]],
        items=waiting.items[:_PAGE_SIZE],
        has_more_companions=len(waiting.companions) > _PAGE_SIZE,
        has_more_items=len(waiting.items) > _PAGE_SIZE,
        currency=call.ports.policy.currency.code,
        done=flash_text(call, _FLASH_TEXTS),
    )


def _rate(call: Call, companion: Companion) -> Decimal:
    """The price of an hour in units of the currency."""
    return call.ports.policy.currency.to_decimal(companion.hourly_rate)


def _lead_to_next(kind: str, following: int | None, act: ApprovalAct) -> Redirect:
    """A redirect to the next one that waits, or to the list where none does."""
    path = _LIST_PATH if following is None else f"{_LIST_PATH}/{kind}/{following}"
    flash = "approved" if act is ApprovalAct.APPROVE else "rejected"
    return Redirect(f"{path}?{flash}", status_code=303)


@frozen(kw_only=True)
class _DecideProfile(DecideApproval):
    shown: Approval | None = None
    """What the page showed when it was loaded: another operator may have decided since."""


@frozen(kw_only=True)
class _DecideItem(DecideApproval):
    shown: PortfolioItemStatus | None = None
    """As that of a profile."""


# Profiles -------------------------------------------------------------------------------


async def _ask_about_profile(call: Call, _: SignedInUser) -> Decision:
    """Whether the profile, shown as others would see it, is approved."""
    case = await approvals.get_companion_case(call.ports, call.path_id("Companion"))
    companion = case.companion
    missing = missing_fields(companion)

    async def change(ports: Ports, given: _DecideProfile) -> Redirect:
        if given.act is ApprovalAct.REJECT:
            await approvals.set_approval(ports, companion.id, Approval.SUSPENDED, given.shown)
        elif missing:
            raise RuleBroken("profile_incomplete", "The profile is not complete yet")
        else:
            await approvals.set_approval(ports, companion.id, Approval.APPROVED, given.shown)
        following = await approvals.next_companion_id(call.ports, companion.id)
        return _lead_to_next("people", following, given.act)

    return Decision(
        template="admin/approval_profile.html",
        subject=AuditSubject.COMPANION,
        subject_id=companion.id,
        leads_to=_LIST_PATH,
        form=_DecideProfile,
        change=change,
        context={
            "person": case.user,
            "companion": companion,
            "is_stored": case.is_stored,
            "items": case.items[:_PREVIEW_SIZE],
            "hidden_items": max(0, len(case.items) - _PREVIEW_SIZE),
            "missing": missing,
            "rate": _rate(call, companion),
            "currency": call.ports.policy.currency.code,
            "done": flash_text(call, _FLASH_TEXTS),
        },
    )


# Portfolio items ------------------------------------------------------------------------


async def _ask_about_item(call: Call, _: SignedInUser) -> Decision:
    """Whether the portfolio item is approved."""
    item, case = await approvals.get_item_case(call.ports, call.path_id("Portfolio item"))

    async def change(ports: Ports, given: _DecideItem) -> Redirect:
        is_approved = given.act is ApprovalAct.APPROVE
        status = PortfolioItemStatus.APPROVED if is_approved else PortfolioItemStatus.REJECTED
        await approvals.moderate_item(ports, item.id, status, given.reason, given.shown)
        following = await approvals.next_item_id(call.ports, item.id)
        return _lead_to_next("pictures", following, given.act)

    return Decision(
        template="admin/approval_picture.html",
        subject=AuditSubject.PORTFOLIO_ITEM,
        subject_id=item.id,
        leads_to=_LIST_PATH,
        form=_DecideItem,
        change=change,
        context={
            "picture": item,
            "person": case.user,
            "companion": case.companion,
            "others": [each for each in case.items if each.id != item.id][:_PREVIEW_SIZE],
            "done": flash_text(call, _FLASH_TEXTS),
        },
    )


PAGES = (
    list_approvals,
    *decision_page(_LIST_PATH + "/people/{number:str}", _ask_about_profile),
    *decision_page(_LIST_PATH + "/pictures/{number:str}", _ask_about_item),
)
