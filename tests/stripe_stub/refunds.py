"""Refunds from the platform's balance: succeeded at once, or pending and then ended."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.stripe_stub import disputes
from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.errors import StripeApiError
from tests.stripe_stub.payments import charge_of
from tests.stripe_stub.state import StripeObjectData, StripeState, check_amount, check_metadata


def create_refund(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return make_refund(state, call.params)


def make_refund(state: StripeState, given: dict[str, Any]) -> StripeObjectData:
    """Refund `amount` of a payment, or all that is left."""
    charge = _charge_to_refund(state, given)
    if charge["disputed"] and not disputes.is_refundable(state, charge):
        raise StripeApiError(
            f"Charge {charge['id']} has been charged back.", code="charge_disputed"
        )
    left = charge["amount"] - charge["amount_refunded"]
    if left == 0:
        raise StripeApiError(
            f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded"
        )
    amount = check_amount(given.get("amount", left))
    if amount > left:
        # Stripe gives no code here, only a message.
        raise StripeApiError(
            f"Refund amount (${amount / 100:.2f}) is greater than unrefunded amount on charge "
            f"(${left / 100:.2f})",
            param="amount",
        )
    outcome = state.next_refund_outcomes.pop(0) if state.next_refund_outcomes else ""
    made = state.add(
        {
            "id": state.new_id("re_"),
            "object": "refund",
            "amount": amount,
            "balance_transaction": None,
            "charge": charge["id"],
            "created": state.timestamp(),
            "currency": charge["currency"],
            "destination_details": None,
            "metadata": check_metadata(given.get("metadata") or {}),
            "payment_intent": charge["payment_intent"],
            "reason": given.get("reason"),
            "receipt_number": None,
            "source_transfer_reversal": None,
            "status": "pending" if outcome else "succeeded",
            "transfer_reversal": None,
        }
    )
    made["balance_transaction"] = state.add_balance_transaction("refund", made, -amount)["id"]
    _add_refunded_amount(charge, amount)
    state.emit_event("refund.created", made)
    state.emit_event("charge.refunded", charge)
    if outcome:
        made["pending_reason"] = "processing"
        end = _settle_refund if outcome == "pending_then_settled" else _fail_refund
        state.schedule(state.now() + state.terms.refunds_settle_after, partial(end, state, made))
    return made


def _charge_to_refund(state: StripeState, given: dict[str, Any]) -> StripeObjectData:
    """The charge that the parameters refer to by its id or by its payment intent."""
    if "charge" in given:
        return state.find("charge", given["charge"], "charge")
    if "payment_intent" not in given:
        raise StripeApiError(
            "One of the following params should be provided: charge, payment_intent"
        )
    intent = state.find("payment_intent", given["payment_intent"], "payment_intent")
    charge = charge_of(state, intent)
    if charge is None:
        raise StripeApiError(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            code="payment_intent_unexpected_state",
        )
    return charge


def _add_refunded_amount(charge: StripeObjectData, amount: int) -> None:
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]


def _settle_refund(state: StripeState, made: StripeObjectData) -> None:
    made.update(status="succeeded", pending_reason=None)
    state.emit_event("refund.updated", made)


def _fail_refund(state: StripeState, made: StripeObjectData) -> None:
    back = state.add_balance_transaction("refund_failure", made, made["amount"])
    made.update(
        status="failed",
        failure_reason="expired_or_canceled_card",
        failure_balance_transaction=back["id"],
        pending_reason=None,
    )
    charge = state.find("charge", made["charge"])
    _add_refunded_amount(charge, -made["amount"])
    state.emit_event("refund.updated", made)
    state.emit_event("refund.failed", made)


def retrieve_refund(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("refund", call.ids[0])


def list_refunds(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("refund"))


ROUTES: dict[str, EndpointHandler] = {
    "v1.refunds.create": create_refund,
    "v1.refunds.retrieve": retrieve_refund,
    "v1.refunds.list": list_refunds,
}
