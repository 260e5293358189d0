"""Payment intents and their charges."""

from __future__ import annotations

from typing import Any

from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.state import StripeObjectData, StripeState

CARD_DETAILS = {
    "type": "card",
    "card": {
        "brand": "visa",
        "country": "US",
        "exp_month": 12,
        "exp_year": 2040,
        "funding": "credit",
        "last4": "4242",
        "network": "visa",
    },
}


def open_intent(
    state: StripeState, amount: int, currency: str, data: dict[str, Any]
) -> StripeObjectData:
    intent = state.add(
        {
            "id": state.new_id("pi_"),
            "object": "payment_intent",
            "amount": amount,
            "amount_capturable": 0,
            "amount_received": 0,
            "canceled_at": None,
            "capture_method": "automatic_async",
            "client_secret": None,
            "confirmation_method": "automatic",
            "created": state.timestamp(),
            "currency": currency,
            "customer": None,
            "description": data.get("description"),
            "last_payment_error": None,
            "latest_charge": None,
            "livemode": False,
            "metadata": data.get("metadata", {}),
            "payment_method_types": ["card"],
            "status": "requires_payment_method",
            "transfer_data": None,
            "transfer_group": data.get("transfer_group"),
        }
    )
    state.emit_event("payment_intent.created", intent)
    return intent


def charge_intent(
    state: StripeState, intent: StripeObjectData, email: str | None, amount: int
) -> None:
    """Charge the card successfully."""
    charged = _charge(state, intent, email, amount, "succeeded")
    moved = state.add_balance_transaction("charge", charged, amount, fee=state.terms.fee(amount))
    charged.update(
        paid=True, captured=True, amount_captured=amount, balance_transaction=moved["id"]
    )
    intent.update(
        amount=amount,
        amount_received=amount,
        last_payment_error=None,
        latest_charge=charged["id"],
        status="succeeded",
    )
    state.emit_event("charge.succeeded", charged)
    state.emit_event("payment_intent.succeeded", intent)


def decline_intent(state: StripeState, intent: StripeObjectData, email: str | None) -> None:
    """Decline the card, which adds a failed charge."""
    failed = _charge(state, intent, email, intent["amount"], "failed")
    failed.update(failure_code="card_declined", failure_message="Your card was declined.")
    error = {
        "type": "card_error",
        "code": "card_declined",
        "decline_code": "generic_decline",
        "message": "Your card was declined.",
        "charge": failed["id"],
    }
    intent.update(latest_charge=failed["id"], last_payment_error=error)
    state.emit_event("charge.failed", failed)
    state.emit_event("payment_intent.payment_failed", intent)


def _charge(
    state: StripeState, intent: StripeObjectData, email: str | None, amount: int, status: str
) -> StripeObjectData:
    return state.add(
        {
            "id": state.new_id("ch_"),
            "object": "charge",
            "amount": amount,
            "amount_captured": 0,
            "amount_refunded": 0,
            "balance_transaction": None,
            "billing_details": {"address": None, "email": email, "name": None, "phone": None},
            "captured": False,
            "created": state.timestamp(),
            "currency": intent["currency"],
            "customer": None,
            "description": intent["description"],
            "disputed": False,
            "failure_code": None,
            "failure_message": None,
            "fraud_details": {},
            "livemode": False,
            "metadata": dict(intent["metadata"]),
            "paid": False,
            "payment_intent": intent["id"],
            "payment_method": state.new_id("pm_"),
            "payment_method_details": CARD_DETAILS,
            "refunded": False,
            "status": status,
            "transfer_group": intent["transfer_group"],
        }
    )


def cancel_intent(state: StripeState, intent: StripeObjectData) -> None:
    """Cancel an unpaid intent whose session expired."""
    intent.update(status="canceled", canceled_at=state.timestamp(), cancellation_reason="expired")
    state.emit_event("payment_intent.canceled", intent)


def charge_of(state: StripeState, intent: StripeObjectData) -> StripeObjectData | None:
    """The latest charge of an intent if it is paid."""
    latest = intent["latest_charge"]
    found = state.find("charge", latest) if latest else None
    return found if found and found["paid"] else None


def retrieve_intent(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("payment_intent", call.ids[0])


def list_intents(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("payment_intent"))


def retrieve_charge(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("charge", call.ids[0])


def list_charges(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("charge"))


ROUTES: dict[str, EndpointHandler] = {
    "v1.payment_intents.retrieve": retrieve_intent,
    "v1.payment_intents.list": list_intents,
    "v1.charges.retrieve": retrieve_charge,
    "v1.charges.list": list_charges,
}
