"""Checkout sessions: the hosted pages, and the clients who pay on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from tests.stripe_stub import payments
from tests.stripe_stub.call import Call, Handler, page
from tests.stripe_stub.errors import Refusal
from tests.stripe_stub.state import Books, Doc, check_metadata

LEAST = {
    "aed": 200, "bgn": 100, "czk": 1_500, "dkk": 250, "gbp": 30, "hkd": 400, "huf": 17_500,
    "mxn": 1_000, "myr": 200, "nok": 300, "pln": 200, "ron": 200, "sek": 300, "thb": 1_000,
}  # fmt: skip
"""What a payment must come to at least, in minor units; 50 in the other currencies."""

SHORTEST, LONGEST = timedelta(minutes=30), timedelta(hours=24)


def create(books: Books, call: Call) -> Doc:
    given = call.params
    if given.get("mode") != "payment":
        raise Refusal("Only sessions of mode payment are played here", param="mode")
    if "success_url" not in given:
        raise Refusal(
            "Missing required param: success_url.", code="parameter_missing", param="success_url"
        )
    if "@" not in given.get("customer_email", "@"):
        raise Refusal(
            f"Invalid email address: {given['customer_email']}",
            code="email_invalid",
            param="customer_email",
        )
    amount, currency = _total(given.get("line_items", []))
    session_id = books.new_id("cs_test_a1", 56)
    intent_data = given.get("payment_intent_data", {})
    check_metadata(intent_data.get("metadata", {}))
    session = books.add(
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
            "created": books.stamp(),
            "currency": currency,
            "custom_fields": [],
            "custom_text": {"after_submit": None, "submit": None},
            "customer": None,
            "customer_details": _customer(given.get("customer_email")),
            "customer_email": given.get("customer_email"),
            "expires_at": _expiry(books, given.get("expires_at")),
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
    books.intent_data[session_id] = intent_data
    lapses = datetime.fromtimestamp(session["expires_at"], UTC)
    books.later(lapses, partial(_lapse, books, session))
    return session


def _total(items: list[Doc]) -> tuple[int, str]:
    """The amount and the currency of all items together."""
    if not items:
        raise Refusal(
            "Missing required param: line_items.", code="parameter_missing", param="line_items"
        )
    amount, currency = 0, ""
    for index, item in enumerate(items):
        where = f"line_items[{index}]"
        prices = item.get("price_data", {})
        for key, held in (("quantity", item), ("unit_amount", prices), ("product_data", prices)):
            if key not in held:
                raise Refusal(f"Missing required param: {where}[{key}].", param=where)
        amount += prices["unit_amount"] * item["quantity"]
        currency = prices["currency"]
    if amount < LEAST.get(currency, 50):
        raise Refusal(
            "The Checkout Session's total amount due must add up to at least "
            f"{LEAST.get(currency, 50)} {currency}",
            code="amount_too_small",
        )
    return amount, currency


def _expiry(books: Books, asked: int | None) -> int:
    if asked is None:
        return books.stamp() + int(LONGEST.total_seconds())
    if asked < books.stamp() + SHORTEST.total_seconds():
        raise Refusal(
            "The `expires_at` timestamp must be at least 30 minutes from Checkout Session "
            "creation.",
            param="expires_at",
        )
    if asked > books.stamp() + LONGEST.total_seconds():
        raise Refusal(
            "The `expires_at` timestamp must be less than 24 hours from Checkout Session creation.",
            param="expires_at",
        )
    return asked


def _customer(email: str | None) -> Doc | None:
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


def retrieve(books: Books, call: Call) -> Doc:
    return books.at("checkout.session", call.ids[0])


def listed(books: Books, call: Call) -> Doc:
    return page(call, books.all("checkout.session"))


def expire(books: Books, call: Call) -> Doc:
    session = books.at("checkout.session", call.ids[0])
    if session["status"] != "open":
        raise Refusal(
            'Only Checkout Sessions with a status in ["open"] can be expired. This Checkout '
            f"Session has a status of {session['status']}."
        )
    _lapse(books, session)
    return session


def _lapse(books: Books, session: Doc) -> None:
    if session["status"] != "open":
        return
    session.update(status="expired", url=None)
    if session["payment_intent"]:
        payments.cancel(books, books.find("payment_intent", session["payment_intent"]))
    books.tell("checkout.session.expired", session)


def pay(books: Books, session_id: str, amount: int | None = None) -> None:
    """The client pays; a page that is not open takes nothing. `amount` is for a strange fact."""
    session = books.find("checkout.session", session_id)
    if session["status"] != "open":
        return
    intent = _intent(books, session)
    payments.charge(books, intent, session["customer_email"], amount or session["amount_total"])
    session.update(status="complete", payment_status="paid", url=None)
    books.tell("checkout.session.completed", session)


def decline(books: Books, session_id: str) -> None:
    """The client's card is declined; the page stays open."""
    session = books.find("checkout.session", session_id)
    if session["status"] == "open":
        payments.decline(books, _intent(books, session), session["customer_email"])


def _intent(books: Books, session: Doc) -> Doc:
    """The payment intent of a session, which the first try to pay makes."""
    if session["payment_intent"] is None:
        data = books.intent_data[session["id"]]
        intent = payments.open_intent(books, session["amount_total"], session["currency"], data)
        session["payment_intent"] = intent["id"]
    return books.find("payment_intent", session["payment_intent"])


ROUTES: dict[str, Handler] = {
    "v1.checkout.sessions.create": create,
    "v1.checkout.sessions.retrieve": retrieve,
    "v1.checkout.sessions.list": listed,
    "v1.checkout.sessions.expire": expire,
}
