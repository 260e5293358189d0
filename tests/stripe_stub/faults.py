"""What goes wrong between us and Stripe, on demand or by chance."""

from __future__ import annotations

import random
from enum import StrEnum

from attrs import define, frozen


class Fault(StrEnum):
    RESET_BEFORE = "reset_before"
    """The connection breaks, nothing was executed."""
    RESET_AFTER = "reset_after"
    """It was executed, then the connection breaks."""
    TRUNCATED = "truncated"
    """It was executed, and the answer breaks off."""
    ERROR_500 = "error_500"
    """Not executed; in v1 the key answers 500 for good."""
    ERROR_500_AFTER = "error_500_after"
    """Executed, but the answer is 500; in v1 the key answers so for good."""
    HTML = "html"
    """A 502 of something in between that is no JSON; nothing was executed."""
    RATE_LIMIT = "rate_limit"
    """429, nothing was executed or stored."""
    CONFLICT = "conflict"
    """409 as if the first request still ran; nothing was executed or stored."""
    SLOW = "slow"
    """Executed at once, answered after some real time; the key is in use until then."""
    REFUSE = "refuse"
    """Not executed; a refusal with a code, stored under the key."""


REFUND_FATES = ("pending_then_settled", "pending_then_failed")
"""Not faults of a call but of the refund that it makes."""

STORED = frozenset({Fault.ERROR_500, Fault.ERROR_500_AFTER, Fault.REFUSE})
"""These happen to an execution: a repeat under the same key does not get that far."""

BY_CHANCE = tuple(each for each in Fault if each not in (Fault.SLOW, Fault.REFUSE))

ANY, LOOK = "any", "look"
OP_OF = {
    "v1.checkout.sessions.create": "open_checkout",
    "v1.checkout.sessions.expire": "close_checkout",
    "v1.refunds.create": "refund",
    "v1.transfers.create": "pay_out",
    "v1.transfers.reversals.create": "reverse_payout",
    "v2.core.accounts.create": "open_payee",
}
OPS = frozenset({*OP_OF.values(), ANY, LOOK})


@frozen
class Break:
    """One call goes wrong: `code` is that of a refusal, `seconds` the time of a slow answer."""

    fault: Fault
    code: str = ""
    seconds: float = 0.0


@define
class _Ordered:
    op: str
    what: Break
    times: int


class Faults:
    def __init__(self) -> None:
        self._ordered: list[_Ordered] = []
        self._random = random.Random()
        self._rate = 0.0

    def order(self, op: str, what: Break, times: int) -> None:
        if op not in OPS:
            raise ValueError(f"{op} is none of {sorted(OPS)}")
        self._ordered.append(_Ordered(op, what, times))

    def by_chance(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)
        self._rate = rate

    def draw(self, operation: str, *, is_post: bool, is_fresh: bool) -> Break | None:
        """What befalls this call; not `is_fresh`: its key has an answer already."""
        ops = {ANY, OP_OF.get(operation, "") if is_post else LOOK}
        for each in self._ordered:
            if each.op in ops and (is_fresh or each.what.fault not in STORED):
                each.times -= 1
                self._ordered = [left for left in self._ordered if left.times]
                return each.what
        if is_post and self._random.random() < self._rate:
            fault = self._random.choice(BY_CHANCE)
            return Break(fault) if is_fresh or fault not in STORED else None
        return None
