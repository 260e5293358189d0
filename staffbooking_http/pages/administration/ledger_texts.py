"""The ledger, payment operations and movements in words, as message ids."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from attrs import frozen

from staffbooking_core.domain.payments.ledger import Account, MovementKind, Posting
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.reconciliation.statement import MovementPair
from staffbooking_core.domain.shared.money import Currency
from staffbooking_http.api import request_body

_ACCOUNT_LABELS: Mapping[Account, str] = {
    Account.PROCESSOR_BALANCE: "Balance at the processor",
    Account.DISPUTE_RECEIVABLE: "Held by the bank in a chargeback",
    Account.STAFF_RECEIVABLE: "Owed by the staff member",
    Account.STAFF_NETTING: "Withheld between bookings",
    Account.ESCROW: "Held for this booking",
    Account.REFUND_PAYABLE: "Owed to the customer",
    Account.STAFF_PAYABLE: "Owed to the staff member",
    Account.SUSPENSE: "To be cleared by hand",
    Account.PLATFORM_FEES: "Service fees",
    Account.INSURANCE_PREMIUMS: "Insurance premiums",
    Account.PROCESSOR_FEES: "Fees of the processor",
    Account.CHARGEBACK_LOSSES: "Losses by chargebacks",
}

_POSTING_TITLES: Mapping[str, str] = {
    "pay": "Payment arrived",
    "settle": "Money divided",
    "reopen": "Division undone",
    "late": "Late payment owed back",
    "refund": "Refund made",
    "payout": "Payout made",
    "claim": "Payout claimed back",
    "net": "Debt taken from the payout",
    "reversal": "Payout reversed",
    "kept": "Withheld for a debt of another booking",
    "made_good": "Debt repaid from another booking",
    "fee": "Fee of the processor",
    "manual": "Movement by hand at the processor",
    "cb": "Chargeback",
}
_OTHER_POSTING_TITLE = "Posting"
_REFUND_TITLES = {"failed": "Refund came back", "bank": "Refunded by the bank instead"}
_CHARGEBACK_TITLES = {
    "out": "Chargeback: the bank took the payment",
    "in": "Chargeback won: the payment is back",
    "lost": "Chargeback lost: written off",
}
_OTHER_CHARGEBACK_TITLE = "Chargeback: the verdict changed"

_OPERATION_TITLES: Mapping[OperationKind, str] = {
    OperationKind.OPEN_CHECKOUT: "Open the payment page",
    OperationKind.CLOSE_CHECKOUT: "Close the payment page",
    OperationKind.REFUND: "Refund",
    OperationKind.PAY_OUT: "Payout",
    OperationKind.REVERSE_PAYOUT: "Take the payout back",
    OperationKind.OPEN_PAYEE: "Open the payout account",
}
_STATUS_TEXTS: Mapping[OperationStatus, tuple[str, str]] = {
    OperationStatus.PENDING: ("Waits to be sent", "waits"),
    OperationStatus.UNKNOWN: ("Sent, the outcome is not known", "waits"),
    OperationStatus.DONE: ("Done", "good"),
    OperationStatus.REFUSED: ("Refused", "bad"),
    OperationStatus.VOID: ("Not needed any more", ""),
    OperationStatus.DEAD: ("Blocked: needs somebody", "bad"),
}
_SETTLEMENT_TEXTS: Mapping[SettlementStatus, tuple[str, str]] = {
    SettlementStatus.PENDING: ("On its way", "waits"),
    SettlementStatus.SETTLED: ("Arrived", "good"),
    SettlementStatus.FAILED: ("Came back", "bad"),
}

_MOVEMENT_TITLES: Mapping[MovementKind, str] = {
    MovementKind.PAYMENT: "Payment",
    MovementKind.REFUND: "Refund",
    MovementKind.REFUND_FAILED: "Refund came back",
    MovementKind.PAYOUT: "Payout",
    MovementKind.REVERSAL: "Payout reversed",
    MovementKind.CHARGEBACK: "Chargeback",
    MovementKind.REINSTATEMENT: "Chargeback won",
    MovementKind.FEE: "Fee",
    MovementKind.OTHER: "Without a booking",
}


@frozen
class _LegText:
    account: str
    amount: Decimal
    """In units of the currency; a debit is positive."""


@frozen
class PostingText:
    """A posting in words."""

    title: str
    key: str
    at: datetime
    legs: tuple[_LegText, ...]


@frozen
class OperationText:
    """A call to the processor in words."""

    title: str
    key: str
    amount: Decimal | None
    state: str
    state_kind: str
    """`good`, `bad`, `waits` or empty, as a status is drawn."""
    operation: Operation


def posting_texts(postings: Iterable[Posting], currency: Currency) -> list[PostingText]:
    """Postings in words, in the given order."""
    return [
        PostingText(_posting_title(posting.key), posting.key, posting.at, _legs(posting, currency))
        for posting in postings
    ]


def _legs(posting: Posting, currency: Currency) -> tuple[_LegText, ...]:
    legs = sorted(posting.legs, key=lambda leg: leg.amount < 0)
    return tuple(
        _LegText(_ACCOUNT_LABELS[leg.account], currency.to_decimal(leg.amount)) for leg in legs
    )


def _posting_title(key: str) -> str:
    kind, _, rest = key.partition(":")
    end = rest.rpartition(":")[2]
    if kind == "refund" and end in _REFUND_TITLES:
        return _REFUND_TITLES[end]
    if kind == "cb":
        return _CHARGEBACK_TITLES.get(end, _OTHER_CHARGEBACK_TITLE)
    return _POSTING_TITLES.get(kind, _OTHER_POSTING_TITLE)


def operation_texts(operations: Iterable[Operation], currency: Currency) -> list[OperationText]:
    """Operations in words, in the given order."""
    return [_operation_text(operation, currency) for operation in operations]


def _operation_text(operation: Operation, currency: Currency) -> OperationText:
    minor = getattr(operation.command, "amount", None)
    state, kind = _STATUS_TEXTS[operation.status]
    is_done = operation.status is OperationStatus.DONE
    if is_done and minor is not None and operation.kind is not OperationKind.OPEN_CHECKOUT:
        state, kind = _SETTLEMENT_TEXTS[operation.settlement or SettlementStatus.SETTLED]
    return OperationText(
        _OPERATION_TITLES[operation.kind],
        operation.key.text,
        None if minor is None else currency.to_decimal(minor),
        state,
        kind,
        operation,
    )


@frozen
class MovementText:
    """A movement in words, as both sides have it; amounts in units of the currency."""

    title: str
    ref: str
    at_processor: Decimal
    in_ledger: Decimal

    @property
    def differs(self) -> bool:
        return self.at_processor != self.in_ledger


def movement_texts(movements: Iterable[MovementPair], currency: Currency) -> list[MovementText]:
    """Movements in words, in the given order."""
    return [
        MovementText(
            _MOVEMENT_TITLES[each.kind],
            each.ref,
            currency.to_decimal(each.at_processor),
            currency.to_decimal(each.in_ledger),
        )
        for each in movements
    ]


@frozen
class EventText:
    """An event of a booking: its number, its published name and its time."""

    sequence: int
    name: str
    at: str


def event_texts(events: Iterable[tuple[int, bytes]]) -> list[EventText]:
    """Encoded events, in the given order."""
    return [_event_text(sequence, request_body.parse_object(body)) for sequence, body in events]


def _event_text(sequence: int, envelope: Any) -> EventText:
    return EventText(sequence, envelope["event"], envelope["created_at"])
