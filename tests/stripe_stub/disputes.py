"""Disputes: chargebacks, inquiries and their verdicts."""

from __future__ import annotations

from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.errors import resource_missing_error
from tests.stripe_stub.payments import charge_of
from tests.stripe_stub.state import StripeObjectData, StripeState

OPENING_STATUSES = {
    "open": "needs_response",
    "warning": "warning_needs_response",
    "prevented": "prevented",
    "prevented_block": "prevented",
}
"""The first status by outcome. `prevented` refunds the client; `prevented_block` moves no money."""

CLOSING_STATUSES = {"won": "won", "lost": "lost", "warning_closed": "warning_closed"}
INQUIRY_STATUSES = frozenset({"warning_needs_response", "warning_under_review", "warning_closed"})


def open_or_decide_dispute(
    state: StripeState, payment: str | int, outcome: str
) -> StripeObjectData:
    """Open a dispute of a payment, or change the status of its latest one.

    `payment` is the id of a payment intent, or the `intent_id` of its metadata. Outcomes:
    open, under_review, won, lost, warning, warning_closed, prevented, prevented_block. A
    dispute that does not exist is opened before it is decided.
    """
    charge = _disputed_charge(state, payment)
    found = [each for each in state.list_objects("dispute") if each["charge"] == charge["id"]]
    if outcome in OPENING_STATUSES:
        return _open_dispute(state, charge, outcome)
    opening = "warning" if outcome == "warning_closed" else "open"
    dispute = found[0] if found else _open_dispute(state, charge, opening)
    if outcome == "under_review":
        dispute["status"] = outcome
        state.emit_event("charge.dispute.updated", dispute)
        return dispute
    dispute["status"] = CLOSING_STATUSES[outcome]
    if outcome == "won":
        _move_dispute(state, dispute, dispute["amount"], 0, "dispute_reversal")
        state.emit_event("charge.dispute.funds_reinstated", dispute)
    state.emit_event("charge.dispute.closed", dispute)
    return dispute


def _disputed_charge(state: StripeState, payment: str | int) -> StripeObjectData:
    for intent in state.list_objects("payment_intent"):
        if str(payment) in (intent["id"], intent["metadata"].get("intent_id")):
            charge = charge_of(state, intent)
            if charge is not None:
                return charge
    raise resource_missing_error("payment_intent", str(payment), "payment_intent")


def _open_dispute(state: StripeState, charge: StripeObjectData, outcome: str) -> StripeObjectData:
    status = OPENING_STATUSES[outcome]
    dispute = state.add(
        {
            "id": state.new_id("du_"),
            "object": "dispute",
            "amount": charge["amount"] - charge["amount_refunded"],
            "balance_transactions": [],
            "charge": charge["id"],
            "created": state.timestamp(),
            "currency": charge["currency"],
            "enhanced_eligibility_types": [],
            "evidence": {"enhanced_evidence": {}},
            "evidence_details": {
                "due_by": state.timestamp() + 7 * 86_400,
                "enhanced_eligibility": {},
                "has_evidence": False,
                "past_due": False,
                "submission_count": 0,
                "submission_method": "not_submitted",
            },
            "is_charge_refundable": status in INQUIRY_STATUSES,
            "livemode": False,
            "metadata": {},
            "payment_intent": charge["payment_intent"],
            "reason": "product_not_received",
            "status": status,
        }
    )
    charge["disputed"] = True
    state.emit_event("charge.dispute.created", dispute)
    if outcome in ("open", "prevented"):
        fee = state.terms.dispute_fee if outcome == "open" else 0
        _move_dispute(state, dispute, -dispute["amount"], fee, "dispute")
        state.emit_event("charge.dispute.funds_withdrawn", dispute)
    return dispute


def _move_dispute(
    state: StripeState, dispute: StripeObjectData, amount: int, fee: int, category: str
) -> None:
    moved = state.add_balance_transaction("adjustment", dispute, amount, fee=fee, category=category)
    dispute["balance_transactions"].append(moved)


def is_refundable(state: StripeState, charge: StripeObjectData) -> bool:
    """Whether no dispute of a charge prevents a refund."""
    found = [each for each in state.list_objects("dispute") if each["charge"] == charge["id"]]
    return all(each["is_charge_refundable"] or each["status"] == "won" for each in found)


def retrieve_dispute(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("dispute", call.ids[0])


def list_disputes(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("dispute"))


ROUTES: dict[str, EndpointHandler] = {
    "v1.disputes.retrieve": retrieve_dispute,
    "v1.disputes.list": list_disputes,
}
