"""Maps Stripe's objects to the core's types."""

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

from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import from_timestamp, get_id, get_path, metadata_dict
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    Payment,
    PayoutState,
    ProcessorFee,
    RefundState,
    RefundStatus,
    ReversalState,
)

_CHECKOUT_STATUSES: Final = {
    "complete": CheckoutStatus.PAID,
    "expired": CheckoutStatus.EXPIRED,
}

_REFUND_STATUSES: Final = {
    "succeeded": RefundStatus.SETTLED,
    "failed": RefundStatus.FAILED,
    "canceled": RefundStatus.FAILED,
}
"""Final statuses of refunds; all others are pending."""

_INQUIRY_STATUSES: Final = frozenset(
    {"warning_needs_response", "warning_under_review", "warning_closed"}
)
_WON_STATUSES: Final = frozenset({"won", "warning_closed"})
_DECIDED_STATUSES: Final = frozenset({"lost", "prevented"})
"""Statuses whose outcome follows from the balance: a prevented dispute may still have cost the
payment."""


def checkout(session: Session, op_id: int) -> Checkout:
    """The state of a checkout session."""
    return Checkout(
        ref=session.id,
        url=session.url or "",
        status=_CHECKOUT_STATUSES.get(session.status or "", CheckoutStatus.OPEN),
        expires_at=from_timestamp(session.expires_at),
        op_id=op_id,
    )


def payment(intent: PaymentIntent) -> Payment:
    """The payment of a succeeded payment intent."""
    charge = intent.latest_charge
    made = charge if isinstance(charge, StripeCharge) else intent
    return Payment(intent.id, intent.amount_received, intent.currency, from_timestamp(made.created))


def refund(stripe_refund: StripeRefund, tags: DeploymentTags) -> RefundState:
    """The state of a refund."""
    return RefundState(
        ref=stripe_refund.id,
        status=_REFUND_STATUSES.get(stripe_refund.status or "", RefundStatus.PENDING),
        amount=stripe_refund.amount,
        op_id=tags.find_op_id(metadata_dict(stripe_refund.metadata)),
    )


def payout(transfer: Transfer, tags: DeploymentTags) -> PayoutState:
    """The state of a transfer to a payee."""
    op_id = tags.find_op_id(metadata_dict(transfer.metadata))
    return PayoutState(transfer.id, transfer.amount, transfer.amount_reversed, op_id)


def reversal(transfer_reversal: TransferReversal, tags: DeploymentTags) -> ReversalState:
    """The state of a transfer reversal."""
    op_id = tags.find_op_id(metadata_dict(transfer_reversal.metadata))
    return ReversalState(
        transfer_reversal.id,
        get_id(transfer_reversal.transfer) or "",
        transfer_reversal.amount,
        op_id,
    )


def chargeback(dispute: Dispute, left: int) -> Chargeback | None:
    """The chargeback of a dispute about a payment of which `left` is not refunded; None for an
    inquiry or a prevented dispute without withdrawn money, and where nothing is left to withdraw.
    """
    amounts = [transaction.amount for transaction in dispute.balance_transactions]
    if not amounts and (dispute.status in _INQUIRY_STATUSES or dispute.status == "prevented"):
        return None
    status = ChargebackStatus.OPEN
    if dispute.status in _WON_STATUSES or (
        dispute.status in _DECIDED_STATUSES and sum(amounts) >= 0
    ):
        status = ChargebackStatus.WON
    elif dispute.status in _DECIDED_STATUSES:
        status = ChargebackStatus.LOST
    # Without movements yet, Stripe will withdraw no more than what was not refunded.
    expected = min(dispute.amount, left)
    amount = max((-amount for amount in amounts if amount < 0), default=expected)
    if amount <= 0:
        return None
    return Chargeback(dispute.id, amount, status, get_id(dispute.payment_intent) or "")


def fees(transactions: Iterable[object], currencies: Collection[str]) -> Iterator[ProcessorFee]:
    """Stripe's fees of each movement. Fees in a currency that was not charged are omitted: they
    would be booked in the wrong currency."""
    for each in transactions:
        if isinstance(each, BalanceTransaction) and each.fee and each.currency in currencies:
            yield ProcessorFee(each.id, each.fee)


_TRANSFER_STATUS_PATH: Final = (
    "configuration",
    "recipient",
    "capabilities",
    "stripe_balance",
    "stripe_transfers",
    "status",
)


def payee(account: Account) -> PayeeState:
    """The payee's state; `needs` holds Stripe's names of the requirements that are due now."""
    document = account.to_dict()
    requirements = [
        entry["description"]
        for entry in get_path(document, "requirements", "entries") or ()
        if entry.get("awaiting_action_from") == "user"
        and get_path(entry, "minimum_deadline", "status") != "eventually_due"
    ]
    return PayeeState(
        ref=account.id,
        ready=get_path(document, *_TRANSFER_STATUS_PATH) == "active",
        needs=tuple(dict.fromkeys(requirements)),
    )
