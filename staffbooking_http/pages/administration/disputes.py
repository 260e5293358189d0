"""Disputes for operators: the list, the evidence of one, and its decision.

A decision has two steps: the outcome, whose page shows what each side would get, and there the
reason with the button that decides. Both carry the stamp of the case that was read: a decision is
made about that one alone, not about a later dispute of the booking, or unread statements.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import DISPUTE_PARTIES
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, VersionMismatch
from staffbooking_core.operator_inputs import DisputeDecision, ResolutionOutcome, ResolveDispute
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import dispute_cases, disputes
from staffbooking_core.usecases.bookings.dispute_cases import DisputeCase, DivisionPreview
from staffbooking_core.usecases.payments import ledger_check
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.operator_acts import run_operator_act
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import ReasonDraft
from staffbooking_http.pages.administration.ledger_texts import posting_texts
from staffbooking_http.pages.booking_views import booking_context
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    get_call,
    has_flash_code,
    page_number,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
)

_LIST_PATH = "/admin/disputes"
_PATH = "/admin/disputes/{number:str}"
_DECISION_PATH = f"{_PATH}/decision"
_CASE_TEMPLATE = "admin/dispute.html"
_DECISION_TEMPLATE = "admin/dispute_decision.html"
_ROWS_OF_A_PAGE = 20
_DECIDED_CODE = b"decided"
_CHANGED_CODE = b"changed"


@frozen(kw_only=True)
class _DecisionDraft:
    """The chosen outcome before validation, to refill the form."""

    outcome: DraftText = ""
    amount: DraftText = ""
    stamp: DraftText = ""
    """Of the case that was read."""


@frozen
class _Row:
    """A dispute in the list; amounts in units of the currency."""

    booking: Booking
    held: Decimal
    is_overdue: bool


@get(_LIST_PATH)
async def list_open_disputes(request: PageRequest) -> Template:
    """List the open disputes, overdue ones first."""
    call = get_call(request)
    operator = await require_operator(call)
    number = page_number(call)
    found = await disputes.list_disputes(call.ports, number, _ROWS_OF_A_PAGE)
    now = await call.ports.clock.business()
    rows = [_row(booking, now=now) for booking in found[:_ROWS_OF_A_PAGE]]
    has_more = len(found) > _ROWS_OF_A_PAGE
    return render(
        "admin/disputes.html", operator, rows=rows, now=now, number=number, has_more=has_more
    )


def _row(booking: Booking, now: datetime) -> _Row:
    held = Currency(booking.currency).to_decimal(booking.escrow)
    respond_by = booking.dispute_respond_by
    return _Row(booking, held, respond_by is not None and respond_by <= now)


@get(_PATH)
async def show_case(request: PageRequest) -> Template:
    """Show the evidence of a dispute, and the form of its decision while it is open."""
    call = get_call(request)
    operator = await require_operator(call)
    case = await dispute_cases.get_case(call.ports, operator.actor, call.path_id("Dispute"))
    context = await _case_context(call, case)
    return render(
        _CASE_TEMPLATE,
        operator,
        draft=_DecisionDraft(),
        decided=has_flash_code(call, _DECIDED_CODE),
        changed=has_flash_code(call, _CHANGED_CODE),
        **context,
    )


@get(_DECISION_PATH)
async def show_decision(request: PageRequest) -> Template | Redirect:
    """Show what a decision would do, and ask for its reason; redirect where none is possible."""
    call = get_call(request)
    operator = await require_operator(call)
    case = await dispute_cases.get_case(call.ports, operator.actor, call.path_id("Dispute"))
    raw = drop_empty_fields(call.scope["query_string"])
    if not raw or not case.previews:
        return _to_case(case)
    draft = query_string.parse_form(_DecisionDraft, raw)
    if draft.stamp not in ("", case.details.stamp):
        return _to_case(case, _CHANGED_CODE)
    try:
        context = _decision_context(call, case, query_string.parse_form(DisputeDecision, raw))
    except (InvalidInput, RuleBroken) as error:
        return await _refuse_outcome(call, operator, case, draft, error)
    return render(_DECISION_TEMPLATE, operator, reason="", **context)


@post(_DECISION_PATH, status_code=200)
async def submit_decision(request: PageRequest) -> Template | Redirect:
    """Resolve the dispute; without a valid reason, show the page with what was written."""
    call = get_call(request)
    operator = await require_operator(call)
    case = await dispute_cases.get_case(call.ports, operator.actor, call.path_id("Dispute"))
    form = await read_verified_form(call, operator)
    draft = query_string.parse_form(_DecisionDraft, form)
    if not case.previews:
        return _to_case(case)
    if draft.stamp != case.details.stamp:
        return _to_case(case, _CHANGED_CODE)
    try:
        context = _decision_context(call, case, query_string.parse_form(DisputeDecision, form))
    except (InvalidInput, RuleBroken) as error:
        return await _refuse_outcome(call, operator, case, draft, error)
    try:
        command = await parse_counted_form(call, operator, ResolveDispute, form)
    except (InvalidInput, RateLimitExceeded) as error:
        reason = query_string.parse_form(ReasonDraft, form).reason
        return render_error(_DECISION_TEMPLATE, operator, error, reason=reason, **context)
    booking = case.details.booking
    share = dispute_cases.customer_share(command, Currency(booking.currency))

    async def resolve(ports: Ports) -> Booking:
        return await disputes.resolve_dispute(
            *(ports, booking.code, command.outcome, share, command.reason),
            actor_id=operator.user.id,
            allowed_versions=frozenset({booking.version}),
        )

    try:
        await run_operator_act(
            *(call, operator.user.id, "resolve", AuditSubject.DISPUTE, booking.code),
            *(command.reason, resolve),
        )
    except (RuleBroken, VersionMismatch):  # Decided or withdrawn meanwhile: the page shows how.
        return _to_case(case)
    return _to_case(case, _DECIDED_CODE)


def _to_case(case: DisputeCase, code: bytes = b"") -> Redirect:
    path = f"{_LIST_PATH}/{case.details.booking.id}"
    return Redirect(f"{path}?{code.decode()}" if code else path, status_code=303)


async def _refuse_outcome(
    call: Call,
    operator: SignedInUser,
    case: DisputeCase,
    draft: _DecisionDraft,
    error: InvalidInput | RuleBroken,
) -> Template:
    """The case with what is wrong at the fields of its outcome."""
    context = await _case_context(call, case)
    shown = render_error(_CASE_TEMPLATE, operator, error, draft=draft, **context)
    if error.code == _OUT_OF_RANGE_CODE:
        shown.context["faults"] = {"amount": f"must be above 0 and at most {context['max_share']}"}
    return shown


_OUT_OF_RANGE_CODE = "split_out_of_range"


async def _case_context(call: Call, case: DisputeCase) -> dict[str, Any]:
    booking = case.details.booking
    currency = Currency(booking.currency)
    context = booking_context(case.details, call.ports.policy)
    statements = context["dispute"]["statements"]
    book = await ledger_check.get_booking_ledger(call.ports, booking.code)
    return {
        **context,
        "case": case,
        "is_open": booking.status is BookingStatus.DISPUTED,
        "is_overdue": _row(booking, case.details.now).is_overdue,
        "held": currency.to_decimal(booking.escrow),
        "max_share": currency.to_decimal(case.max_share),
        "finest": currency.to_decimal(1),
        "postings": posting_texts(book.postings, currency),
        "previews": [
            (outcome, _amounts(preview, currency)) for outcome, preview in case.previews.items()
        ],
        "silent": [
            party
            for party in DISPUTE_PARTIES
            if not any(each["by"] == party for each in statements)
        ],
        "checked_in_at": booking.checked_in_at,
    }


def _decision_context(call: Call, case: DisputeCase, decision: DisputeDecision) -> dict[str, Any]:
    """Raises InvalidInput, and RuleBroken where the decision is not possible."""
    booking = case.details.booking
    currency = Currency(booking.currency)
    share = dispute_cases.customer_share(decision, currency)
    policy = call.ports.policy
    preview = dispute_cases.preview_division(case.details, decision.outcome, share, policy)
    return {
        **booking_context(case.details, policy),
        "outcome": decision.outcome,
        "amount": "" if decision.outcome is not ResolutionOutcome.SPLIT else decision.amount,
        "held": currency.to_decimal(booking.escrow),
        "preview": _amounts(preview, currency),
    }


def _amounts(preview: DivisionPreview, currency: Currency) -> dict[str, Decimal]:
    """The parts of a division in units of the currency."""
    return {
        "refund": currency.to_decimal(preview.refund),
        "payout": currency.to_decimal(preview.payout),
        "fee": currency.to_decimal(preview.fee),
        "premium": currency.to_decimal(preview.premium),
    }


PAGES = (list_open_disputes, show_case, show_decision, submit_decision)
