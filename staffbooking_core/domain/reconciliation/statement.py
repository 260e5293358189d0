"""Two-way reconciliation: the processor's statement against our ledger, movement by movement.

Each movement of the platform's balance at the processor is one cash posting of ours, and the
other way round (RELIABILITY 6.19). Both sides name a movement by kind and reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.payments.ledger import MovementKind


@frozen
class Movement:
    """One line of the processor's statement. `amount` is signed: what it did to the platform's
    balance, in minor units. `ref` names the payment, refund, payout, reversal, chargeback,
    or the line itself for a fee."""

    intent_id: int | None
    kind: MovementKind
    ref: str
    amount: int
    at: datetime


CashTotals = Mapping[tuple[MovementKind, str], int]
"""What moved, by kind and reference."""


@frozen
class CashPostings:
    """One booking's cash postings as the ledger has them: key of the posting and amount."""

    booking_id: int
    code: str
    postings: tuple[tuple[str, int], ...]
    result_refs: Mapping[int, str]
    """The processor's reference of each operation that is done, by the operation's id."""
    has_in_flight: bool
    """Whether something is under way that explains a difference: an operation that was sent,
    an event that was not followed yet."""
    changed_at: datetime | None = None
    """Business time of the newest of these postings."""


def processor_totals(movements: Iterable[Movement]) -> Counter[tuple[MovementKind, str]]:
    found: Counter[tuple[MovementKind, str]] = Counter()
    for movement in movements:
        found[movement.kind, movement.ref] += movement.amount
    return found


def ledger_totals(book: CashPostings) -> Counter[tuple[MovementKind, str]]:
    """The booking's cash postings, named as the processor names them."""
    found: Counter[tuple[MovementKind, str]] = Counter()
    for key, amount in book.postings:
        found[_movement_of_posting_key(key, book.result_refs)] += amount
    return found


def _movement_of_posting_key(key: str, refs: Mapping[int, str]) -> tuple[MovementKind, str]:
    """What a posting's key (`ledger`) stands for."""
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
    """Of what was done by hand: `manual:refund:REF`, `manual:refund_failed:REF`, and so on."""
    kind, _, ref = rest.partition(":")
    return MovementKind(kind), ref


_REVERSED_KIND = {
    MovementKind.REFUND_FAILED: MovementKind.REFUND,
    MovementKind.REINSTATEMENT: MovementKind.CHARGEBACK,
}


def _net_reversals(cash: CashTotals) -> Counter[tuple[MovementKind, str]]:
    """A refund that failed takes itself back, and so does a chargeback that was won: who saw
    only the end, or every step between, has the same."""
    found: Counter[tuple[MovementKind, str]] = Counter()
    for (kind, ref), amount in cash.items():
        found[_REVERSED_KIND.get(kind, kind), ref] += amount
    return found


def find_differences(book: CashPostings, movements: Iterable[Movement]) -> Iterator[str]:
    """Every movement that one side has and the other lacks, or has with another amount."""
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
