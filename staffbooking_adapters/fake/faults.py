"""Misbehaviour that was asked for (CONTRACT 9): what it is, and in which order it strikes.

    timeout_before     no answer, and nothing was executed
    timeout_after      no answer, though it was executed; a repeat gets the answer
    error_500          an error, nothing was executed; a repeat gets the same error
    error_500_after    an error, though it was executed; a repeat gets the same error
    rate_limit         busy, nothing was executed or kept
    conflict           busy, as if the same key were still in work elsewhere
    refuse             refused as invalid, or as said: `refuse:payee_not_ready`
    slow               answers after two seconds
    pending_then_settled, pending_then_failed, settled_then_failed
                       of a refund: it stands like the one at first, and a minute later
                       ends like the other

Of events, under the op `event`: `drop` loses one for good, `delay` brings it a minute
late, `duplicate` brings it twice, `reorder` brings it behind the others that are due,
`bad_signature` brings it signed with a wrong secret, and then never again. What was lost
is still listed by `changes`.

A fault may also strike by chance: the processor asks its `Chance` at each call and event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import evolve, frozen

from staffbooking_core.domain.payments.processor import OperationKind, RefundStatus, RefusalCode
from staffbooking_core.errors import FieldError as FieldFault, InvalidField

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
"""Asked with an op (a call's, or EVENT): the kind of fault that strikes it, "" for none."""


def inject_nothing(_: str) -> str:
    """A chance without faults."""
    return ""


@frozen
class InjectedFault:
    """Strikes the next `times` calls of `op` (one of OPS)."""

    op: str
    kind: str
    times: int


def make_fault(op: str, kind: str, times: int) -> InjectedFault:
    """A fault; InvalidField with every field that is wrong."""
    errors = []
    if op not in _FAULT_OPS:
        errors.append(FieldFault("op", f"must be one of {', '.join(_FAULT_OPS)}"))
    elif not _is_valid_kind(op, kind):
        errors.append(FieldFault("kind", f"must be one of {', '.join(_kinds_for_op(op))}"))
    if not 1 <= times <= _MAX_FAULT_TIMES:
        errors.append(FieldFault("times", f"must be from 1 to {_MAX_FAULT_TIMES}"))
    if errors:
        raise InvalidField(errors)
    return InjectedFault(op, kind, times)


def _kinds_for_op(op: str) -> tuple[str, ...]:
    if op == EVENT_OP:
        return EVENT_FAULT_KINDS
    return (
        (*CALL_FAULT_KINDS, *REFUND_PROGRESSIONS)
        if op == OperationKind.REFUND
        else CALL_FAULT_KINDS
    )


def _is_valid_kind(op: str, kind: str) -> bool:
    name, colon, code = kind.partition(":")
    if colon:
        return op != EVENT_OP and name == "refuse" and code in tuple(RefusalCode)
    return name in _kinds_for_op(op)


def find_refusal_code(kind: str) -> RefusalCode | None:
    """The code that a fault refuses with; None where it is of another kind."""
    name, _, code = kind.partition(":")
    return RefusalCode(code or RefusalCode.INVALID) if name == "refuse" else None


def consume(faults: tuple[InjectedFault, ...], op: str) -> tuple[str, tuple[InjectedFault, ...]]:
    """The kind of the oldest fault that strikes a call of `op` ("" for none), and what is
    left of all faults then."""
    for index, found in enumerate(faults):
        if found.op == op or (found.op == _ANY_OP and op != EVENT_OP):
            remaining = () if found.times == 1 else (evolve(found, times=found.times - 1),)
            return found.kind, (*faults[:index], *remaining, *faults[index + 1 :])
    return "", faults
