"""Faults of calls between us and Stripe, requested or random."""

from __future__ import annotations

import random
from enum import StrEnum

from attrs import define, frozen


class StubFault(StrEnum):
    RESET_BEFORE = "reset_before"
    """Not executed; the connection is reset."""
    RESET_AFTER = "reset_after"
    """Executed; the connection is reset before the answer."""
    TRUNCATED = "truncated"
    """Executed; the answer is cut off."""
    ERROR_500 = "error_500"
    """Not executed; in v1 the 500 is stored under the key."""
    ERROR_500_AFTER = "error_500_after"
    """Executed, but the answer is 500; in v1 the 500 is stored under the key."""
    HTML = "html"
    """Not executed; a proxy answers 502 with HTML."""
    RATE_LIMIT = "rate_limit"
    """429; nothing is executed or stored."""
    CONFLICT = "conflict"
    """409 as if the first request were still running; nothing is executed or stored."""
    SLOW = "slow"
    """Executed at once and answered after some real time; the key is in use until then."""
    REFUSE = "refuse"
    """Not executed; an error with a code, stored under the key."""


REFUND_OUTCOMES = ("pending_then_settled", "pending_then_failed")
"""Faults of the created refund, not of the call."""

STORED_FAULTS = frozenset({StubFault.ERROR_500, StubFault.ERROR_500_AFTER, StubFault.REFUSE})
"""Faults of an execution; a repeat under the same key is not executed and does not get them."""

RANDOM_FAULTS = tuple(each for each in StubFault if each not in (StubFault.SLOW, StubFault.REFUSE))

ANY_CALL, ANY_READ = "any", "read"
FAULT_TARGET_BY_OPERATION = {
    "v1.checkout.sessions.create": "open_checkout",
    "v1.checkout.sessions.expire": "close_checkout",
    "v1.refunds.create": "refund",
    "v1.transfers.create": "pay_out",
    "v1.transfers.reversals.create": "reverse_payout",
    "v2.core.accounts.create": "open_payee",
}
FAULT_TARGETS = frozenset({*FAULT_TARGET_BY_OPERATION.values(), ANY_CALL, ANY_READ})


@frozen
class InjectedStubFault:
    """A fault of one call. `code` is that of a refusal, `seconds` the delay of a slow answer."""

    fault: StubFault
    code: str = ""
    seconds: float = 0.0


@define
class _QueuedFault:
    target: str
    injected: InjectedStubFault
    remaining: int


class StubFaultInjector:
    def __init__(self) -> None:
        self._queued: list[_QueuedFault] = []
        self._random = random.Random()
        self._rate = 0.0

    def inject(self, op: str, injected: InjectedStubFault, times: int) -> None:
        if op not in FAULT_TARGETS:
            raise ValueError(f"{op} is none of {sorted(FAULT_TARGETS)}")
        self._queued.append(_QueuedFault(op, injected, times))

    def inject_randomly(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)
        self._rate = rate

    def next_fault(
        self, operation: str, *, is_post: bool, is_fresh: bool
    ) -> InjectedStubFault | None:
        """The fault of this call, if any. A call is not `is_fresh` if its key has an answer."""
        targets = {ANY_CALL, FAULT_TARGET_BY_OPERATION.get(operation, "") if is_post else ANY_READ}
        for each in self._queued:
            if each.target in targets and (is_fresh or each.injected.fault not in STORED_FAULTS):
                each.remaining -= 1
                self._queued = [left for left in self._queued if left.remaining]
                return each.injected
        if is_post and self._random.random() < self._rate:
            fault = self._random.choice(RANDOM_FAULTS)
            return InjectedStubFault(fault) if is_fresh or fault not in STORED_FAULTS else None
        return None
