"""Changes by operators, over JSON and on pages: each is in the audit in its own transaction, and in
the log (CONTRACT 10)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import audit
from staffbooking_http.api import addresses
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.security_log import log_security_event

T = TypeVar("T")


async def run_operator_act(
    call: Call,
    operator_id: int,
    act: str,
    subject: AuditSubject,
    subject_id: int | str,
    reason: str,
    change: Callable[[Ports], Awaitable[T]],
) -> T:
    """Run a change on audited ports, and log it when it is made. `subject_id` is the id, or the
    booking's code."""
    operator_act = audit.OperatorAct(
        operator=Operator(operator_id, origin=addresses.client_address_key(call)),
        act=act,
        subject=subject,
        subject_id=subject_id,
        reason=reason,
    )
    result = await change(audit.audited_ports(call.ports, operator_act))
    log_security_event(
        call,
        "operator_act",
        user_id=operator_id,
        act=act,
        subject=subject.value,
        subject_id=subject_id,
    )
    return result
