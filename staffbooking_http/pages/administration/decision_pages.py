"""Pages that ask an operator for a decision: what follows, the reason, and one button."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from attrs import asdict, field, frozen
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, MissingField, RuleBroken
from staffbooking_core.operator_inputs import OperatorDecision
from staffbooking_core.ports import Ports
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.administration.decisions import decide
from staffbooking_http.pages.session import (
    DraftText,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
)


@frozen(kw_only=True)
class Decision:
    """What a page asks an operator to decide."""

    template: str
    """It says what follows, and asks for the fields of `form`."""
    act: str = ""
    """What it is in the audit; empty where the form says it in its field `act`."""
    subject: AuditSubject
    subject_id: int
    leads_to: str
    """The path of the page that is shown afterwards."""
    form: type[OperatorDecision] = OperatorDecision
    context: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class _Draft:
    """The submitted fields of any decision before validation, to refill its form."""

    reason: DraftText = ""
    act: DraftText = ""
    bookings: DraftText = ""
    subscription: DraftText = ""
    last_day: DraftText = ""
    role: DraftText = ""


def show_decision(visitor: SignedInUser, decision: Decision) -> Template:
    """The page that asks."""
    return render(decision.template, visitor, draft=asdict(_Draft()), **decision.context)


async def take_decision(
    call: Call,
    visitor: SignedInUser,
    decision: Decision,
    change: Callable[[Ports, Any], Awaitable[Redirect | None]],
) -> Template | Redirect:
    """Make the change on audited ports, with the parsed form, and go where it or the decision
    leads; a refused form is shown again with its faults. `change` may also raise InvalidInput and
    RuleBroken."""
    form = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_Draft, form)
    try:
        given: Any = await parse_counted_form(call, visitor, decision.form, form)
        act = decision.act or given.act
        target = await decide(
            *(call, visitor, act, decision.subject, decision.subject_id, given.reason),
            lambda ports: change(ports, given),
        )
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        context = {**decision.context, "draft": asdict(draft)}
        told = _all_faults(decision.form, form, error) if isinstance(error, MissingField) else error
        return render_error(decision.template, visitor, told, **context)
    return target or Redirect(decision.leads_to, status_code=303)


def _all_faults(cls: type[OperatorDecision], form: bytes, error: MissingField) -> InvalidInput:
    """What is missing, and with it what else is refused."""
    missing = {fault.field: _VALID_TEXTS[fault.field] for fault in error.field_errors}
    try:
        query_string.parse_form(cls, form + b"&" + urlencode(missing).encode())
    except InvalidInput as other:
        return MissingField((*error.field_errors, *other.field_errors))
    return error


_VALID_TEXTS = {"reason": "x", "subscription": "none", "role": "customer", "act": "x"}
"""What takes the place of a missing field, so that the others are checked too."""
