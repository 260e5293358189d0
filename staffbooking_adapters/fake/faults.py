"""Injected faults (CONTRACT 9): their kinds, and the order in which they are consumed.

    timeout_before     no answer, not executed
    timeout_after      no answer, but executed; a retry gets the answer
    error_500          an error, not executed; a retry gets the same error
    error_500_after    an error, but executed; a retry gets the same error
    rate_limit         busy, nothing executed or stored
    conflict           busy, as if another call with the same key were running
    refuse             refused as invalid, or with a code: `refuse:payee_not_ready`
    slow               answers after two seconds
    pending_then_settled, pending_then_failed, settled_then_failed
                       refunds only: the first status at once, the second one minute later

Faults of events have the op `event`: `drop` never delivers the event, `delay` delivers it one
minute late, `duplicate` delivers it twice, `reorder` delivers it after the other due events,
`bad_signature` delivers it once, signed with a wrong secret. `list_events` lists lost events.

Besides the queued faults, the processor calls its `FaultInjector` for each call and event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import evolve, frozen

from staffbooking_core.domain.payments.processor import OperationKind, RefundStatus, RefusalCode
from staffbooking_core.errors import FieldError, InvalidField

EVENT_OP: Final = "event"
_ANY_OP: Final = "any"
_FAULT_OPS: Final = (*OperationKind, _ANY_OP, EVENT_OP)

_MAX_FAULT_TIMES: Final = 1_000_000

NOT_EXECUTED_KINDS: Final = frozenset({"timeout_before", "rate_limit", "conflict"})
REFUND_PROGRESSIONS: Final = {
    "pending_then_settled": (RefundStatus.PENDING, RefundStatus.SETTLED),
    "pending_then_failed": (RefundStatus.PENDING, RefundStatus.FAILED),
    "settled_then_failed": (RefundStatus.SETTLED, RefundStatus.FAILED),
}
CALL_FAULT_KINDS: Final = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "refuse", "slow"),
)
EVENT_FAULT_KINDS: Final = ("delay", "duplicate", "drop", "reorder", "bad_signature")


FaultInjector: TypeAlias = Callable[[str], str]
"""Maps an op (a call's, or `EVENT_OP`) to the kind of fault to inject; "" for none."""


def inject_nothing(_: str) -> str:
    """A fault injector without faults."""
    return ""


@frozen
class InjectedFault:
    """A fault in the next `times` calls of `op`; the op `any` matches every op but `event`."""

    op: str
    kind: str
    times: int


def make_fault(op: str, kind: str, times: int) -> InjectedFault:
    """Create a fault. Raises InvalidField with every invalid field."""
    errors = []
    if op not in _FAULT_OPS:
        errors.append(FieldError("op", f"must be one of {', '.join(_FAULT_OPS)}"))
    elif not _is_valid_kind(op, kind):
        errors.append(FieldError("kind", f"must be one of {', '.join(_kinds_for_op(op))}"))
    if not 1 <= times <= _MAX_FAULT_TIMES:
        errors.append(FieldError("times", f"must be from 1 to {_MAX_FAULT_TIMES}"))
    if errors:
        raise InvalidField(errors)
    return InjectedFault(op, kind, times)


def _kinds_for_op(op: str) -> tuple[str, ...]:
    if op == EVENT_OP:
        return EVENT_FAULT_KINDS
    if op == OperationKind.REFUND:
        return (*CALL_FAULT_KINDS, *REFUND_PROGRESSIONS)
    return CALL_FAULT_KINDS


def _is_valid_kind(op: str, kind: str) -> bool:
    name, colon, code = kind.partition(":")
    if colon:
        return op != EVENT_OP and name == "refuse" and code in tuple(RefusalCode)
    return name in _kinds_for_op(op)


def find_refusal_code(kind: str) -> RefusalCode | None:
    """The refusal code of a fault of kind `refuse`; None for other kinds."""
    name, _, code = kind.partition(":")
    return RefusalCode(code or RefusalCode.INVALID) if name == "refuse" else None


def consume(faults: tuple[InjectedFault, ...], op: str) -> tuple[str, tuple[InjectedFault, ...]]:
    """Consume one occurrence of the oldest fault that matches `op`. Returns its kind ("" for
    none) and the remaining faults."""
    for index, fault in enumerate(faults):
        if fault.op == op or (fault.op == _ANY_OP and op != EVENT_OP):
            rest = () if fault.times == 1 else (evolve(fault, times=fault.times - 1),)
            return fault.kind, (*faults[:index], *rest, *faults[index + 1 :])
    return "", faults
