"""Refunds: out of the platform's balance, pending or not, and sometimes back again."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.stripe_stub import disputes
from tests.stripe_stub.call import Call, Handler, page
from tests.stripe_stub.errors import Refusal
from tests.stripe_stub.payments import charge_of
from tests.stripe_stub.state import Books, Doc, check_amount, check_metadata


def create(books: Books, call: Call) -> Doc:
    return refund(books, call.params)


def refund(books: Books, given: dict[str, Any]) -> Doc:
    """Give money of a payment back: all that is left, or `amount` of it."""
    charge = _charge(books, given)
    if charge["disputed"] and not disputes.is_refundable(books, charge):
        raise Refusal(f"Charge {charge['id']} has been charged back.", code="charge_disputed")
    left = charge["amount"] - charge["amount_refunded"]
    if left == 0:
        raise Refusal(
            f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded"
        )
    amount = check_amount(given.get("amount", left))
    if amount > left:
        # Stripe gives no code here; the message is all there is.
        raise Refusal(
            f"Refund amount (${amount / 100:.2f}) is greater than unrefunded amount on charge "
            f"(${left / 100:.2f})",
            param="amount",
        )
    fate = books.refund_fates.pop(0) if books.refund_fates else ""
    made = books.add(
        {
            "id": books.new_id("re_"),
            "object": "refund",
            "amount": amount,
            "balance_transaction": None,
            "charge": charge["id"],
            "created": books.stamp(),
            "currency": charge["currency"],
            "destination_details": None,
            "metadata": check_metadata(given.get("metadata") or {}),
            "payment_intent": charge["payment_intent"],
            "reason": given.get("reason"),
            "receipt_number": None,
            "source_transfer_reversal": None,
            "status": "pending" if fate else "succeeded",
            "transfer_reversal": None,
        }
    )
    made["balance_transaction"] = books.move("refund", made, -amount)["id"]
    _count(charge, amount)
    books.tell("refund.created", made)
    books.tell("charge.refunded", charge)
    if fate:
        made["pending_reason"] = "processing"
        end = _settle if fate == "pending_then_settled" else _fail
        books.later(books.now() + books.terms.refunds_settle_after, partial(end, books, made))
    return made


def _charge(books: Books, given: dict[str, Any]) -> Doc:
    """What a refund takes its money from."""
    if "charge" in given:
        return books.find("charge", given["charge"], "charge")
    if "payment_intent" not in given:
        raise Refusal("One of the following params should be provided: charge, payment_intent")
    intent = books.find("payment_intent", given["payment_intent"], "payment_intent")
    charge = charge_of(books, intent)
    if charge is None:
        raise Refusal(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            code="payment_intent_unexpected_state",
        )
    return charge


def _count(charge: Doc, amount: int) -> None:
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]


def _settle(books: Books, made: Doc) -> None:
    made.update(status="succeeded", pending_reason=None)
    books.tell("refund.updated", made)


def _fail(books: Books, made: Doc) -> None:
    back = books.move("refund_failure", made, made["amount"])
    made.update(
        status="failed",
        failure_reason="expired_or_canceled_card",
        failure_balance_transaction=back["id"],
        pending_reason=None,
    )
    charge = books.find("charge", made["charge"])
    _count(charge, -made["amount"])
    books.tell("refund.updated", made)
    books.tell("refund.failed", made)


def retrieve(books: Books, call: Call) -> Doc:
    return books.at("refund", call.ids[0])


def listed(books: Books, call: Call) -> Doc:
    return page(call, books.all("refund"))


ROUTES: dict[str, Handler] = {
    "v1.refunds.create": create,
    "v1.refunds.retrieve": retrieve,
    "v1.refunds.list": listed,
}
