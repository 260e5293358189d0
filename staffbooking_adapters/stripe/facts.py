"""From Stripe's objects to what the core calls the same things."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from stripe import (
    BalanceTransaction,
    Charge as StripeCharge,
    Dispute,
    PaymentIntent,
    Refund as StripeRefund,
    Transfer,
    TransferReversal,
)
from stripe.checkout import Session
from stripe.v2.core import Account

from staffbooking_adapters.stripe.marks import Marks
from staffbooking_adapters.stripe.reading import dig, id_of, moment, plain
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    Fee,
    Payment,
    PayoutState,
    RefundState,
    RefundStatus,
    ReversalState,
)

CHECKOUTS: Final = {
    "complete": CheckoutStatus.PAID,
    "expired": CheckoutStatus.EXPIRED,
}

REFUNDS: Final = {
    "succeeded": RefundStatus.SETTLED,
    "failed": RefundStatus.FAILED,
    "canceled": RefundStatus.FAILED,
}
"""All else is on its way: pending, or waiting for the client."""

INQUIRIES: Final = frozenset({"warning_needs_response", "warning_under_review", "warning_closed"})
WON: Final = frozenset({"won", "warning_closed"})
DECIDED: Final = frozenset({"lost", "prevented"})
"""By the money: what was prevented may have cost the payment all the same."""


def checkout(session: Session, op_id: int) -> Checkout:
    return Checkout(
        ref=session.id,
        url=session.url or "",
        status=CHECKOUTS.get(session.status or "", CheckoutStatus.OPEN),
        expires_at=moment(session.expires_at),
        op_id=op_id,
    )


def payment(intent: PaymentIntent) -> Payment:
    """Of an intent that succeeded."""
    charge = intent.latest_charge
    made = charge if isinstance(charge, StripeCharge) else intent
    return Payment(intent.id, intent.amount_received, intent.currency, moment(made.created))


def refund(found: StripeRefund, marks: Marks) -> RefundState:
    return RefundState(
        ref=found.id,
        status=REFUNDS.get(found.status or "", RefundStatus.PENDING),
        amount=found.amount,
        op_id=marks.op_of(plain(found.metadata)),
    )


def payout(transfer: Transfer, marks: Marks) -> PayoutState:
    op_id = marks.op_of(plain(transfer.metadata))
    return PayoutState(transfer.id, transfer.amount, transfer.amount_reversed, op_id)


def reversal(found: TransferReversal, marks: Marks) -> ReversalState:
    op_id = marks.op_of(plain(found.metadata))
    return ReversalState(found.id, id_of(found.transfer) or "", found.amount, op_id)


def chargeback(dispute: Dispute) -> Chargeback | None:
    """None for an inquiry, and for what was prevented, while no money was taken."""
    moved = [transaction.amount for transaction in dispute.balance_transactions]
    if not moved and (dispute.status in INQUIRIES or dispute.status == "prevented"):
        return None
    status = ChargebackStatus.OPEN
    if dispute.status in WON or (dispute.status in DECIDED and sum(moved) >= 0):
        status = ChargebackStatus.WON
    elif dispute.status in DECIDED:
        status = ChargebackStatus.LOST
    taken = max((-amount for amount in moved if amount < 0), default=dispute.amount)
    return Chargeback(dispute.id, taken, status, id_of(dispute.payment_intent) or "")


def fees(transactions: Iterable[object], currencies: Collection[str]) -> Iterator[Fee]:
    """What Stripe kept of each movement. Of one in a currency that was not charged nothing is
    told: it would be booked as if it were."""
    for each in transactions:
        if isinstance(each, BalanceTransaction) and each.fee and each.currency in currencies:
            yield Fee(each.id, each.fee)


TRANSFERS: Final = ("configuration", "recipient", "capabilities", "stripe_balance")


def payee(account: Account) -> PayeeState:
    """`needs` has Stripe's own names of what the payee is asked for now."""
    document = account.to_dict()
    asked = [
        entry["description"]
        for entry in dig(document, "requirements", "entries") or ()
        if entry.get("awaiting_action_from") == "user"
        and dig(entry, "minimum_deadline", "status") != "eventually_due"
    ]
    return PayeeState(
        ref=account.id,
        ready=dig(document, *TRANSFERS, "stripe_transfers", "status") == "active",
        needs=tuple(dict.fromkeys(asked)),
    )
