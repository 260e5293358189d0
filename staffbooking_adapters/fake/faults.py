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

from staffbooking_core.domain.payments.processor import OpKind, RefundStatus, RefusalCode
from staffbooking_core.errors import Fault as FieldFault, InvalidField

EVENT: Final = "event"
ANY: Final = "any"
OPS: Final = (*OpKind, ANY, EVENT)

MOST: Final = 1_000_000

NOT_EXECUTED: Final = frozenset({"timeout_before", "rate_limit", "conflict"})
COURSES: Final = {
    "pending_then_settled": (RefundStatus.PENDING, RefundStatus.SETTLED),
    "pending_then_failed": (RefundStatus.PENDING, RefundStatus.FAILED),
    "settled_then_failed": (RefundStatus.SETTLED, RefundStatus.FAILED),
}
CALL_KINDS: Final = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "refuse", "slow"),
)
EVENT_KINDS: Final = ("delay", "duplicate", "drop", "reorder", "bad_signature")


Chance: TypeAlias = Callable[[str], str]
"""Asked with an op (a call's, or EVENT): the kind of fault that strikes it, "" for none."""


def never(_: str) -> str:
    """A chance without faults."""
    return ""


@frozen
class Fault:
    """Strikes the next `times` calls of `op` (one of OPS)."""

    op: str
    kind: str
    times: int


def fault(op: str, kind: str, times: int) -> Fault:
    """A fault; InvalidField with every field that is wrong."""
    wrong = []
    if op not in OPS:
        wrong.append(FieldFault("op", f"must be one of {', '.join(OPS)}"))
    elif not _fits(op, kind):
        wrong.append(FieldFault("kind", f"must be one of {', '.join(_kinds(op))}"))
    if not 1 <= times <= MOST:
        wrong.append(FieldFault("times", f"must be from 1 to {MOST}"))
    if wrong:
        raise InvalidField(wrong)
    return Fault(op, kind, times)


def _kinds(op: str) -> tuple[str, ...]:
    if op == EVENT:
        return EVENT_KINDS
    return (*CALL_KINDS, *COURSES) if op == OpKind.REFUND else CALL_KINDS


def _fits(op: str, kind: str) -> bool:
    name, colon, code = kind.partition(":")
    if colon:
        return op != EVENT and name == "refuse" and code in tuple(RefusalCode)
    return name in _kinds(op)


def refusal(kind: str) -> RefusalCode | None:
    """The code that a fault refuses with; None where it is of another kind."""
    name, _, code = kind.partition(":")
    return RefusalCode(code or RefusalCode.INVALID) if name == "refuse" else None


def take(faults: tuple[Fault, ...], op: str) -> tuple[str, tuple[Fault, ...]]:
    """The kind of the oldest fault that strikes a call of `op` ("" for none), and what is
    left of all faults then."""
    for place, found in enumerate(faults):
        if found.op == op or (found.op == ANY and op != EVENT):
            worn = () if found.times == 1 else (evolve(found, times=found.times - 1),)
            return found.kind, (*faults[:place], *worn, *faults[place + 1 :])
    return "", faults
