"""Decisions of operators: each has a reason, and is in the audit in its own transaction."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import frozen

from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import audit
from staffbooking_http.api import rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.security_log import log_security_event
from staffbooking_http.pages.session import DraftText

T = TypeVar("T")


@frozen(kw_only=True)
class ReasonDraft:
    """The submitted reason before validation, to refill the form."""

    reason: DraftText = ""


async def decide(
    call: Call,
    operator: SignedInUser,
    act: str,
    subject: AuditSubject,
    subject_id: int | str,
    reason: str,
    change: Callable[[Ports], Awaitable[T]],
) -> T:
    """Run a change as an operator's: it is in the audit and in the log. `subject_id` is the id, or
    the booking's code."""
    operator_act = audit.OperatorAct(
        operator=Operator(operator.user.id, origin=rate_limits.address_key(call)),
        act=act,
        subject=subject,
        subject_id=subject_id,
        reason=reason,
    )
    result = await change(audit.audited_ports(call.ports, operator_act))
    log_security_event(
        call,
        "operator_act",
        user_id=operator.user.id,
        act=act,
        subject=subject.value,
        subject_id=subject_id,
    )
    return result
