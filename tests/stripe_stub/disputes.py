"""Disputes: what clients' banks take back, ask about, give back or keep."""

from __future__ import annotations

from tests.stripe_stub.call import Call, Handler, page
from tests.stripe_stub.errors import missing
from tests.stripe_stub.payments import charge_of
from tests.stripe_stub.state import Books, Doc

OPENINGS = {
    "open": "needs_response",
    "warning": "warning_needs_response",
    "prevented": "prevented",
    "prevented_block": "prevented",
}
"""`prevented` is a resolution that gave the client the money; a block has moved none."""

ENDINGS = {"won": "won", "lost": "lost", "warning_closed": "warning_closed"}
INQUIRIES = frozenset({"warning_needs_response", "warning_under_review", "warning_closed"})


def charge_back(books: Books, payment: str | int, outcome: str) -> Doc:
    """The bank moves.

    `payment` is the id of a payment intent, or the `intent_id` of its metadata. Outcomes:
    open, under_review, won, lost, warning, warning_closed, prevented, prevented_block. One
    that is decided without having been open is opened first.
    """
    charge = _charge(books, payment)
    found = [each for each in books.all("dispute") if each["charge"] == charge["id"]]
    if outcome in OPENINGS:
        return _open(books, charge, outcome)
    opening = "warning" if outcome == "warning_closed" else "open"
    dispute = found[0] if found else _open(books, charge, opening)
    if outcome == "under_review":
        dispute["status"] = outcome
        books.tell("charge.dispute.updated", dispute)
        return dispute
    dispute["status"] = ENDINGS[outcome]
    if outcome == "won":
        _move(books, dispute, dispute["amount"], 0, "dispute_reversal")
        books.tell("charge.dispute.funds_reinstated", dispute)
    books.tell("charge.dispute.closed", dispute)
    return dispute


def _charge(books: Books, payment: str | int) -> Doc:
    for intent in books.all("payment_intent"):
        if str(payment) in (intent["id"], intent["metadata"].get("intent_id")):
            charge = charge_of(books, intent)
            if charge is not None:
                return charge
    raise missing("payment_intent", str(payment), "payment_intent")


def _open(books: Books, charge: Doc, outcome: str) -> Doc:
    status = OPENINGS[outcome]
    dispute = books.add(
        {
            "id": books.new_id("du_"),
            "object": "dispute",
            "amount": charge["amount"] - charge["amount_refunded"],
            "balance_transactions": [],
            "charge": charge["id"],
            "created": books.stamp(),
            "currency": charge["currency"],
            "enhanced_eligibility_types": [],
            "evidence": {"enhanced_evidence": {}},
            "evidence_details": {
                "due_by": books.stamp() + 7 * 86_400,
                "enhanced_eligibility": {},
                "has_evidence": False,
                "past_due": False,
                "submission_count": 0,
                "submission_method": "not_submitted",
            },
            "is_charge_refundable": status in INQUIRIES,
            "livemode": False,
            "metadata": {},
            "payment_intent": charge["payment_intent"],
            "reason": "product_not_received",
            "status": status,
        }
    )
    charge["disputed"] = True
    books.tell("charge.dispute.created", dispute)
    if outcome in ("open", "prevented"):
        fee = books.terms.dispute_fee if outcome == "open" else 0
        _move(books, dispute, -dispute["amount"], fee, "dispute")
        books.tell("charge.dispute.funds_withdrawn", dispute)
    return dispute


def _move(books: Books, dispute: Doc, amount: int, fee: int, category: str) -> None:
    moved = books.move("adjustment", dispute, amount, fee=fee, category=category)
    dispute["balance_transactions"].append(moved)


def is_refundable(books: Books, charge: Doc) -> bool:
    """Whether no dispute of a charge stands in the way of a refund."""
    found = [each for each in books.all("dispute") if each["charge"] == charge["id"]]
    return all(each["is_charge_refundable"] or each["status"] == "won" for each in found)


def retrieve(books: Books, call: Call) -> Doc:
    return books.at("dispute", call.ids[0])


def listed(books: Books, call: Call) -> Doc:
    return page(call, books.all("dispute"))


ROUTES: dict[str, Handler] = {
    "v1.disputes.retrieve": retrieve,
    "v1.disputes.list": listed,
}
