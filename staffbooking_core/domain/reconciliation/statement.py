"""Two-way reconciliation of the processor's statement with the ledger.

Each movement of the platform's balance at the processor is one cash posting of the ledger, and vice
versa. Both sides identify a movement by kind and reference:

1. Sum the statement by kind and reference.
2. Sum the cash postings the same way; the posting's key names the movement.
3. On both sides, add a failed refund to its refund and a reinstatement to its chargeback, so that a
   side that saw only the end agrees with one that saw every step.
4. Report each sum that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import ChargebackStatus, RefundStatus, Snapshot

__all__ = ["CashPostings", "Movement"]


@frozen
class Movement:
    """One line of the processor's statement.

    `amount` is the signed change of the platform's balance, in minor units. `ref` is the reference
    of the payment, refund, payout, reversal or chargeback, or of the line itself for a fee.
    """

    intent_id: int | None
    kind: MovementKind
    ref: str
    amount: int
    at: datetime


CashTotals = Mapping[tuple[MovementKind, str], int]
"""Amounts by kind and reference."""


@frozen
class CashPostings:
    """One booking's cash postings in the ledger: keys and amounts."""

    booking_id: int
    code: str
    postings: tuple[tuple[str, int], ...]
    result_refs: Mapping[int, str]
    """The processor's reference of each finished operation, by operation id."""
    has_in_flight: bool
    """Whether a difference is expected: an operation is in flight, or an event is not processed
    yet."""
    changed_at: datetime | None = None
    """Business time of the newest of these postings."""


def processor_totals(movements: Iterable[Movement]) -> Counter[tuple[MovementKind, str]]:
    """The sums of a statement's movements by kind and reference."""
    found: Counter[tuple[MovementKind, str]] = Counter()
    for movement in movements:
        found[movement.kind, movement.ref] += movement.amount
    return found


def ledger_totals(book: CashPostings) -> Counter[tuple[MovementKind, str]]:
    """The sums of a booking's cash postings by kind and reference."""
    found: Counter[tuple[MovementKind, str]] = Counter()
    for key, amount in book.postings:
        found[_movement_of_posting_key(key, book.result_refs)] += amount
    return found


def _movement_of_posting_key(key: str, refs: Mapping[int, str]) -> tuple[MovementKind, str]:
    """The movement that a posting's key stands for (see `ledger`)."""
    head, _, rest = key.partition(":")
    ref, _, end = rest.rpartition(":")
    match head:
        case "pay":
            return MovementKind.PAYMENT, rest
        case "fee":
            return MovementKind.FEE, rest
        case "payout":
            return MovementKind.PAYOUT, _find_result_ref(rest, refs)
        case "reversal":
            return MovementKind.REVERSAL, _find_result_ref(rest, refs)
        case "refund":
            kind = MovementKind.REFUND if end == "ok" else MovementKind.REFUND_FAILED
            return kind, _find_result_ref(ref, refs)
        case "cb":
            return (MovementKind.CHARGEBACK if end == "out" else MovementKind.REINSTATEMENT), ref
        case "manual":
            return _parse_manual_key(rest)
    return MovementKind.OTHER, key


def _find_result_ref(op_id: str, refs: Mapping[int, str]) -> str:
    return refs.get(int(op_id), f"operation {op_id}")


def _parse_manual_key(rest: str) -> tuple[MovementKind, str]:
    """Parse the rest of a manual key: `refund:REF`, `refund_failed:REF`, and so on."""
    kind, _, ref = rest.partition(":")
    return MovementKind(kind), ref


_REVERSED_KIND = {
    MovementKind.REFUND_FAILED: MovementKind.REFUND,
    MovementKind.REINSTATEMENT: MovementKind.CHARGEBACK,
}


def _net_reversals(cash: CashTotals) -> Counter[tuple[MovementKind, str]]:
    """Step 3: a failed refund cancels its refund, a reinstatement cancels its chargeback."""
    found: Counter[tuple[MovementKind, str]] = Counter()
    for (kind, ref), amount in cash.items():
        found[_REVERSED_KIND.get(kind, kind), ref] += amount
    return found


def find_differences(book: CashPostings, movements: Iterable[Movement]) -> Iterator[str]:
    """Describe every movement that is missing on one side, or differs in its amount."""
    at_processor, in_ledger = (
        _net_reversals(processor_totals(movements)),
        _net_reversals(ledger_totals(book)),
    )
    for name in sorted({*at_processor, *in_ledger}):
        if at_processor[name] == in_ledger[name]:
            continue
        kind, ref = name
        if name not in in_ledger:
            yield f"the processor has {kind} {ref} of {at_processor[name]}, the ledger does not"
        elif name not in at_processor:
            yield f"the ledger has {kind} {ref} of {in_ledger[name]}, the processor does not"
        else:
            yield (
                f"{kind} {ref} is {at_processor[name]} at the processor, "
                f"{in_ledger[name]} in the ledger"
            )


@frozen
class MovementPair:
    """A movement of a booking's money as both sides have it, in minor units; 0 where one lacks
    it."""

    kind: MovementKind
    ref: str
    at_processor: int
    in_ledger: int


def compare_with_snapshot(book: CashPostings, snapshot: Snapshot) -> Sequence[MovementPair]:
    """The movements of a booking side by side, in the order of kind and reference. Refunds that are
    on their way, and what was undone, are left out on both sides."""
    at_processor = _snapshot_totals(snapshot)
    in_ledger = {name: sum_ for name, sum_ in _net_reversals(ledger_totals(book)).items() if sum_}
    order = list(MovementKind)
    names = sorted({*at_processor, *in_ledger}, key=lambda name: (order.index(name[0]), name[1]))
    return [
        MovementPair(*name, at_processor.get(name, 0), in_ledger.get(name, 0)) for name in names
    ]


def _snapshot_totals(snapshot: Snapshot) -> CashTotals:
    kinds = MovementKind
    found = {(kinds.PAYMENT, one.ref): one.amount for one in snapshot.payments}
    found |= {
        (kinds.REFUND, one.ref): -one.amount
        for one in snapshot.refunds
        if one.status is RefundStatus.SETTLED
    }
    found |= {(kinds.PAYOUT, one.ref): -one.amount for one in snapshot.payouts}
    found |= {(kinds.REVERSAL, one.ref): one.amount for one in snapshot.reversals}
    found |= {
        (kinds.CHARGEBACK, one.ref): -one.amount
        for one in snapshot.chargebacks
        if one.status is not ChargebackStatus.WON
    }
    return found | {(kinds.FEE, one.ref): -one.amount for one in snapshot.fees}
