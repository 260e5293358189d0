"""Pages that ask an operator for a decision: what follows, the reason, and one button."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import asdict, field, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken
from staffbooking_core.operator_inputs import OperatorDecision
from staffbooking_core.ports import Ports
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.operator_acts import run_operator_act
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    get_call,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
)


@frozen(kw_only=True)
class Decision:
    """What a page asks an operator to decide, and what then changes."""

    template: str
    """It says what follows, and asks for the fields of `form`."""
    act: str = ""
    """What it is in the audit; empty where the form says it in its field `act`."""
    subject: AuditSubject
    subject_id: int
    leads_to: str
    """The path of the page that is shown afterwards."""
    form: type[OperatorDecision] = OperatorDecision
    change: Callable[[Ports, Any], Awaitable[Redirect | None]]
    """It gets audited ports and the parsed form, and may lead elsewhere than to `leads_to`. Raises
    InvalidInput and RuleBroken for what is refused."""
    context: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class ReasonDraft:
    """The submitted reason before validation, to refill the form."""

    reason: DraftText = ""


@frozen(kw_only=True)
class _Draft(ReasonDraft):
    """The submitted fields of any decision before validation, to refill its form."""

    act: DraftText = ""
    bookings: DraftText = ""
    subscription: DraftText = ""
    last_day: DraftText = ""
    role: DraftText = ""


def decision_page(
    path: str, ask: Callable[[Call, SignedInUser], Awaitable[Decision]]
) -> tuple[Any, Any]:
    """The handlers of a page: one shows the decision that `ask` finds for a request of an operator,
    the other takes it. A refused form is shown again with its faults."""

    @get(path)
    async def show(request: PageRequest) -> Template:
        call = get_call(request)
        operator = await require_operator(call)
        decision = await ask(call, operator)
        return render(decision.template, operator, draft=asdict(_Draft()), **decision.context)

    @post(path, status_code=200)
    async def take(request: PageRequest) -> Template | Redirect:
        call = get_call(request)
        operator = await require_operator(call)
        return await _take(call, operator, await ask(call, operator))

    return show, take


async def _take(call: Call, operator: SignedInUser, decision: Decision) -> Template | Redirect:
    form = await read_verified_form(call, operator)
    try:
        given: Any = await parse_counted_form(call, operator, decision.form, form)
        act = decision.act or given.act
        target = await run_operator_act(
            *(call, operator.user.id, act, decision.subject, decision.subject_id, given.reason),
            lambda ports: decision.change(ports, given),
        )
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        context = {**decision.context, "draft": asdict(query_string.parse_form(_Draft, form))}
        return render_error(decision.template, operator, error, **context)
    return target or Redirect(decision.leads_to, status_code=303)
