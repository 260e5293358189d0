"""Checkout sessions, and the payments and declines on their hosted pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from tests.stripe_stub import payments
from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.errors import StripeApiError
from tests.stripe_stub.state import StripeObjectData, StripeState, check_metadata

MIN_AMOUNTS = {
    "aed": 200, "bgn": 100, "czk": 1_500, "dkk": 250, "gbp": 30, "hkd": 400, "huf": 17_500,
    "mxn": 1_000, "myr": 200, "nok": 300, "pln": 200, "ron": 200, "sek": 300, "thb": 1_000,
}  # fmt: skip
"""The minimum payment in minor units; 50 in the other currencies."""

MAX_AMOUNTS = {
    "cop": 9_999_999_999, "huf": 9_999_999_999, "idr": 999_999_999_999, "inr": 999_999_999,
    "jpy": 9_999_999_999, "lbp": 99_999_999_999,
}  # fmt: skip
"""The maximum payment by card in minor units; eight digits in the other currencies."""

MIN_SESSION_LIFETIME, MAX_SESSION_LIFETIME = timedelta(minutes=30), timedelta(hours=24)


def create_session(state: StripeState, call: EndpointCall) -> StripeObjectData:
    given = call.params
    if given.get("mode") != "payment":
        raise StripeApiError("Only sessions of mode payment are played here", param="mode")
    if "success_url" not in given:
        raise StripeApiError(
            "Missing required param: success_url.", code="parameter_missing", param="success_url"
        )
    if "@" not in given.get("customer_email", "@"):
        raise StripeApiError(
            f"Invalid email address: {given['customer_email']}",
            code="email_invalid",
            param="customer_email",
        )
    amount, currency = _line_items_total(given.get("line_items", []))
    session_id = state.new_id("cs_test_a1", 56)
    intent_data = given.get("payment_intent_data", {})
    check_metadata(intent_data.get("metadata", {}))
    session = state.add(
        {
            "id": session_id,
            "object": "checkout.session",
            "adaptive_pricing": given.get("adaptive_pricing"),
            "allowed_payment_method_types": given.get("allowed_payment_method_types"),
            "amount_subtotal": amount,
            "amount_total": amount,
            "automatic_tax": {"enabled": False, "liability": None, "status": None},
            "cancel_url": given.get("cancel_url"),
            "client_reference_id": given.get("client_reference_id"),
            "client_secret": None,
            "created": state.timestamp(),
            "currency": currency,
            "custom_fields": [],
            "custom_text": {"after_submit": None, "submit": None},
            "customer": None,
            "customer_details": _customer_details(given.get("customer_email")),
            "customer_email": given.get("customer_email"),
            "expires_at": _session_expiry(state, given.get("expires_at")),
            "livemode": False,
            "locale": given.get("locale"),
            "metadata": check_metadata(given.get("metadata", {})),
            "mode": "payment",
            "payment_intent": None,
            "payment_method_types": given.get("allowed_payment_method_types", ["card"]),
            "payment_status": "unpaid",
            "shipping_options": [],
            "status": "open",
            "submit_type": given.get("submit_type"),
            "success_url": given["success_url"],
            "ui_mode": given.get("ui_mode", "hosted_page"),
            "url": f"https://checkout.stripe.com/c/pay/{session_id}",
        }
    )
    state.intent_data[session_id] = intent_data
    lapses = datetime.fromtimestamp(session["expires_at"], UTC)
    state.schedule(lapses, partial(_expire_open_session, state, session))
    return session


def _line_items_total(items: list[StripeObjectData]) -> tuple[int, str]:
    """The total amount and the currency of the items."""
    if not items:
        raise StripeApiError(
            "Missing required param: line_items.", code="parameter_missing", param="line_items"
        )
    amount, currency = 0, ""
    for index, item in enumerate(items):
        where = f"line_items[{index}]"
        prices = item.get("price_data", {})
        for key, held in (("quantity", item), ("unit_amount", prices), ("product_data", prices)):
            if key not in held:
                raise StripeApiError(f"Missing required param: {where}[{key}].", param=where)
        amount += prices["unit_amount"] * item["quantity"]
        currency = prices["currency"]
    if amount < MIN_AMOUNTS.get(currency, 50):
        raise StripeApiError(
            "The Checkout Session's total amount due must add up to at least "
            f"{MIN_AMOUNTS.get(currency, 50)} {currency}",
            code="amount_too_small",
        )
    if amount > (most := MAX_AMOUNTS.get(currency, 99_999_999)):
        raise StripeApiError(
            f"The Checkout Session's total amount due must be no more than {most} {currency}",
            code="amount_too_large",
        )
    return amount, currency


def _session_expiry(state: StripeState, requested: int | None) -> int:
    if requested is None:
        return state.timestamp() + int(MAX_SESSION_LIFETIME.total_seconds())
    if requested < state.timestamp() + MIN_SESSION_LIFETIME.total_seconds():
        raise StripeApiError(
            "The `expires_at` timestamp must be at least 30 minutes from Checkout Session "
            "creation.",
            param="expires_at",
        )
    if requested > state.timestamp() + MAX_SESSION_LIFETIME.total_seconds():
        raise StripeApiError(
            "The `expires_at` timestamp must be less than 24 hours from Checkout Session creation.",
            param="expires_at",
        )
    return requested


def _customer_details(email: str | None) -> StripeObjectData | None:
    if email is None:
        return None
    return {
        "address": None,
        "email": email,
        "name": None,
        "phone": None,
        "tax_exempt": "none",
        "tax_ids": None,
    }


def retrieve_session(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("checkout.session", call.ids[0])


def list_sessions(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("checkout.session"))


def expire_session(state: StripeState, call: EndpointCall) -> StripeObjectData:
    session = state.find_by_path("checkout.session", call.ids[0])
    if session["status"] != "open":
        raise StripeApiError(
            'Only Checkout Sessions with a status in ["open"] can be expired. This Checkout '
            f"Session has a status of {session['status']}."
        )
    _expire_open_session(state, session)
    return session


def _expire_open_session(state: StripeState, session: StripeObjectData) -> None:
    if session["status"] != "open":
        return
    session.update(status="expired", url=None)
    if session["payment_intent"]:
        payments.cancel_intent(state, state.find("payment_intent", session["payment_intent"]))
    state.emit_event("checkout.session.expired", session)


def pay_session(state: StripeState, session_id: str, amount: int | None = None) -> None:
    """Pay an open session with `amount` or its total; a session that is not open is unchanged."""
    session = state.find("checkout.session", session_id)
    if session["status"] != "open":
        return
    intent = _payment_intent_of(state, session)
    payments.charge_intent(
        state, intent, session["customer_email"], amount or session["amount_total"]
    )
    session.update(status="complete", payment_status="paid", url=None)
    state.emit_event("checkout.session.completed", session)


def decline_session(state: StripeState, session_id: str) -> None:
    """Decline the card on an open session, which stays open."""
    session = state.find("checkout.session", session_id)
    if session["status"] == "open":
        payments.decline_intent(
            state, _payment_intent_of(state, session), session["customer_email"]
        )


def _payment_intent_of(state: StripeState, session: StripeObjectData) -> StripeObjectData:
    """The payment intent of a session, created by the first attempt to pay."""
    if session["payment_intent"] is None:
        data = state.intent_data[session["id"]]
        intent = payments.open_intent(state, session["amount_total"], session["currency"], data)
        session["payment_intent"] = intent["id"]
    return state.find("payment_intent", session["payment_intent"])


ROUTES: dict[str, EndpointHandler] = {
    "v1.checkout.sessions.create": create_session,
    "v1.checkout.sessions.retrieve": retrieve_session,
    "v1.checkout.sessions.list": list_sessions,
    "v1.checkout.sessions.expire": expire_session,
}
