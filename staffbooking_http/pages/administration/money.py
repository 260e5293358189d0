"""Payouts and refunds for operators, all money of one booking, and what is done to it.

Each act has a page of its own that says what it does and asks for the reason.
"""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.timers import payout_deadline
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, VersionMismatch, invalid_field
from staffbooking_core.operator_inputs import OperatorDecision
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import details
from staffbooking_core.usecases.payments import booking_money, payouts, refunds
from staffbooking_core.usecases.payments.booking_money import BookingMoney, PayoutAct
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.operator_acts import run_operator_act
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import ReasonDraft
from staffbooking_http.pages.administration.ledger_texts import (
    event_texts,
    movement_texts,
    operation_texts,
    posting_texts,
)
from staffbooking_http.pages.booking_views import booking_context
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    flash_text,
    get_call,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
)

_LIST_PATH = "/admin/money"
_BOOKINGS_PATH = "/admin/bookings"
_BOOKING_PATH = f"{_BOOKINGS_PATH}/{{number:str}}"
_LIST_TEMPLATE = "admin/money.html"
_ACT_TEMPLATE = "admin/money_act.html"
_ROWS_OF_A_PAGE = 20

_Change = Callable[[Ports, Booking, str], Awaitable[Booking]]
"""Makes a change to the money of a booking as it was shown, for a reason."""


class _Show(StrEnum):
    """The lists of the page."""

    FAILED = "failed"
    HELD = "held"
    SCHEDULED = "scheduled"
    REFUNDS = "refunds"


_PAYOUT_STATUSES: Mapping[_Show, PayoutStatus] = {
    _Show.FAILED: PayoutStatus.FAILED,
    _Show.HELD: PayoutStatus.FROZEN,
    _Show.SCHEDULED: PayoutStatus.SCHEDULED,
}


@frozen(kw_only=True)
class _ListQuery:
    show: _Show = _Show.FAILED
    page: query_string.PageNumber = 1


@frozen(kw_only=True)
class _CodeQuery:
    code: Annotated[str, TextBounds(100, characters=AllowedCharacters.OPAQUE)]


@frozen(kw_only=True)
class _CodeDraft:
    """The searched code before validation, to refill the form."""

    code: DraftText = ""


@frozen(kw_only=True)
class _ActDraft(ReasonDraft):
    """The submitted form of an act before validation."""

    version: DraftText = ""
    """Of the booking that was shown: what was held, released or failed again since is not what the
    operator decided about."""


@frozen
class _Row:
    """A payout or a failed refund in the list; `amount` in units of the currency."""

    booking: Booking
    amount: Decimal
    operation: Operation | None
    promised_by: Any = None


@frozen
class _Act:
    """What operators do to the money of a booking."""

    path: str
    """Below the booking's page."""
    word: str
    """As the audit has it."""
    subject: AuditSubject
    is_possible: Callable[[BookingMoney], bool]
    change: _Change


async def _hold(ports: Ports, shown: Booking, reason: str) -> Booking:
    return await payouts.hold_payout(ports, shown.code, reason, frozenset({shown.version}))


async def _release(ports: Ports, shown: Booking, _: str) -> Booking:
    return await payouts.release_payout(ports, shown.code, frozenset({shown.version}))


async def _retry(ports: Ports, shown: Booking, _: str) -> Booking:
    return await payouts.retry_payout(ports, shown.code, frozenset({shown.version}))


async def _retry_refunds(ports: Ports, shown: Booking, _: str) -> Booking:
    return await refunds.retry_refunds(ports, shown.code, frozenset({shown.version}))


def _payout_act(act: PayoutAct, change: _Change) -> _Act:
    return _Act(
        *(f"payout/{act}", act, AuditSubject.PAYOUT), lambda money: act in money.acts, change
    )


_ACTS = {
    act.path: act
    for act in (
        _payout_act(PayoutAct.HOLD, _hold),
        _payout_act(PayoutAct.RELEASE, _release),
        _payout_act(PayoutAct.RETRY, _retry),
        _Act(
            *("refunds/retry", "retry", AuditSubject.REFUND),
            *(lambda money: money.has_failed_refund, _retry_refunds),
        ),
    )
}
_ACT_PATHS = [f"{_BOOKING_PATH}/{path}" for path in _ACTS]
_FLASH_TEXTS = {
    "done=payout/hold": "The payout is on hold.",
    "done=payout/release": "The payout goes on: it is made when it is due.",
    "done=payout/retry": "The payout was tried again. Below is how it stands.",
    "done=refunds/retry": "The refund was ordered again. Below is how it stands.",
}


# Lists ----------------------------------------------------------------------------------


@get(_LIST_PATH)
async def list_money(request: PageRequest) -> Template:
    """List failed, held or scheduled payouts, or failed refunds."""
    call = get_call(request)
    operator = await require_operator(call)
    wanted = query_string.parse_query(_ListQuery, call.scope["query_string"])
    read = _refund_rows if wanted.show is _Show.REFUNDS else _payout_rows
    rows = await read(call.ports, wanted.show, wanted.page)
    return render(
        _LIST_TEMPLATE,
        operator,
        rows=rows[:_ROWS_OF_A_PAGE],
        has_more=len(rows) > _ROWS_OF_A_PAGE,
        show=wanted.show,
        number=wanted.page,
    )


async def _payout_rows(ports: Ports, show: _Show, page: int) -> list[_Row]:
    found = await payouts.list_payouts(ports, _PAYOUT_STATUSES[show], page, _ROWS_OF_A_PAGE)
    sent = await payouts.payout_operations(ports, found)

    def row(booking: Booking) -> _Row:
        due_at = booking.payout_due_at
        left = Currency(booking.currency).to_decimal(booking.payout_left)
        promised_by = due_at and payout_deadline(due_at, ports.policy)
        return _Row(booking, left, sent.get(booking.id), promised_by)

    return [row(booking) for booking in found]


async def _refund_rows(ports: Ports, _: _Show, page: int) -> list[_Row]:
    found = await refunds.list_failed_refunds(ports, page, _ROWS_OF_A_PAGE)
    return [
        _Row(
            booking,
            Currency(booking.currency).to_decimal(getattr(operation.command, "amount", 0)),
            operation,
        )
        for booking, operation in found
    ]


@get(_BOOKINGS_PATH)
async def find_booking(request: PageRequest) -> Template | Redirect:
    """Lead to the money of the booking with the code; without one, show the form."""
    call = get_call(request)
    operator = await require_operator(call)
    raw = drop_empty_fields(call.scope["query_string"])
    draft = query_string.parse_form(_CodeDraft, raw)
    if not raw:
        return render("admin/find_booking.html", operator, draft=draft.code)
    try:
        code = query_string.parse_form(_CodeQuery, raw).code.strip().upper()
        found = await booking_money.find_booking_id(call.ports, code)
        if found is None:
            raise invalid_field("code", _UNKNOWN_CODE)
    except InvalidInput as error:
        return render_error("admin/find_booking.html", operator, error, draft=draft.code)
    return Redirect(f"{_BOOKINGS_PATH}/{found}", status_code=303)


_UNKNOWN_CODE = "There is no booking with this code."


# One booking ------------------------------------------------------------------------------


@get(_BOOKING_PATH)
async def show_booking_money(request: PageRequest) -> Template:
    """Show the ledger of a booking, its payment operations, and the processor's side beside it."""
    call = get_call(request)
    operator = await require_operator(call)
    money = await booking_money.get_booking_money(call.ports, call.path_id("Booking"))
    done = flash_text(call, _FLASH_TEXTS)
    context = await _money_context(call, operator, money)
    return render("admin/booking_money.html", operator, done=done, **context)


@get(_ACT_PATHS)
async def show_act(request: PageRequest) -> Template | Redirect:
    """Say what an act does, and ask for its reason; redirect where it is not possible."""
    call = get_call(request)
    operator = await require_operator(call)
    money = await booking_money.get_booking_money(call.ports, call.path_id("Booking"))
    act = _act_of(call)
    if not act.is_possible(money):
        return _to_booking(money)
    return render(_ACT_TEMPLATE, operator, reason="", **_act_context(money, act))


@post(_ACT_PATHS, status_code=200)
async def submit_act(request: PageRequest) -> Template | Redirect:
    """Do it; without a valid reason, show the page with what was written."""
    call = get_call(request)
    operator = await require_operator(call)
    number = call.path_id("Booking")
    form = await read_verified_form(call, operator)
    money, act = await booking_money.get_booking_money(call.ports, number), _act_of(call)
    draft = query_string.parse_form(_ActDraft, form)
    if not act.is_possible(money) or draft.version != str(money.booking.version):
        return _to_booking(money)
    try:
        reason = (await parse_counted_form(call, operator, OperatorDecision, form)).reason
    except (InvalidInput, RateLimitExceeded) as error:
        context = _act_context(money, act)
        return render_error(_ACT_TEMPLATE, operator, error, reason=draft.reason, **context)
    code = money.booking.code

    async def change(ports: Ports) -> Booking:
        return await act.change(ports, money.booking, reason)

    try:
        await run_operator_act(call, operator.user.id, act.word, act.subject, code, reason, change)
    except (RuleBroken, VersionMismatch):  # Done meanwhile: the page shows how it stands.
        return _to_booking(money)
    return _to_booking(money, f"?done={act.path}")


def _act_of(call: Call) -> _Act:
    return _ACTS["/".join(call.scope["path"].rsplit("/", 2)[1:])]


def _to_booking(money: BookingMoney, code: str = "") -> Redirect:
    return Redirect(f"{_BOOKINGS_PATH}/{money.booking.id}{code}", status_code=303)


def _act_context(money: BookingMoney, act: _Act) -> dict[str, Any]:
    booking = money.booking
    currency = Currency(booking.currency)
    return {
        "booking": booking,
        "act": act.path,
        "left": currency.to_decimal(booking.payout_left),
        "owed": sum(_failed_refund_amounts(money), Decimal(0)),
    }


def _failed_refund_amounts(money: BookingMoney) -> list[Decimal]:
    currency = Currency(money.booking.currency)
    return [currency.to_decimal(refund.amount) for refund in money.failed_refunds]


async def _money_context(call: Call, operator: SignedInUser, money: BookingMoney) -> dict[str, Any]:
    booking = money.booking
    currency = Currency(booking.currency)
    found = await details.get_details(call.ports, operator.actor, booking.id)
    due_at = booking.payout_due_at
    return {
        **booking_context(found, call.ports.policy),
        "postings": posting_texts(money.postings, currency),
        "operations": operation_texts(money.operations, currency),
        "movements": money.movements and movement_texts(money.movements, currency),
        "is_processor_silent": money.movements is None,
        "events": event_texts(money.events),
        "acts": [path for path, act in _ACTS.items() if act.is_possible(money)],
        "left": currency.to_decimal(booking.payout_left),
        "debt": currency.to_decimal(booking.owed_by_staff),
        "held_amount": currency.to_decimal(booking.escrow),
        "promised_by": due_at and payout_deadline(due_at, call.ports.policy),
        "is_held_by_hand": booking.payout_held,
    }


PAGES = (list_money, find_booking, show_booking_money, show_act, submit_act)
