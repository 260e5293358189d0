"""Transfers to connected accounts, and their reversals."""

from __future__ import annotations

from tests.stripe_stub.accounts import can_receive
from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.errors import StripeApiError, resource_missing_error
from tests.stripe_stub.state import StripeObjectData, StripeState, check_amount, check_metadata


def create_transfer(state: StripeState, call: EndpointCall) -> StripeObjectData:
    given = call.params
    currency = given["currency"]
    source = None
    if "source_transaction" in given:
        source = state.find("charge", given["source_transaction"], "source_transaction")
    payee = _destination_account(state, given["destination"])
    amount = check_amount(given["amount"]) if "amount" in given else _source_amount(source)
    group = given.get("transfer_group")
    if source:
        _check_source(state, source, amount, currency)
        if group and source["transfer_group"] not in (None, group):
            raise StripeApiError(
                "The transfer_group of a transfer must be that of its source_transaction",
                param="transfer_group",
            )
        group = source["transfer_group"] or group
    elif amount > state.available_balance(currency):
        raise StripeApiError("You have insufficient available funds.", code="balance_insufficient")
    made = state.add(_transfer_object(state, call, amount, source, group))
    made["balance_transaction"] = state.add_balance_transaction("transfer", made, -amount)["id"]
    state.connected_balances[payee["id"], currency] += amount
    state.emit_event("transfer.created", made)
    return made


def _transfer_object(
    state: StripeState,
    call: EndpointCall,
    amount: int,
    source: StripeObjectData | None,
    group: str | None,
) -> StripeObjectData:
    given, transfer_id = call.params, state.new_id("tr_")
    return {
        "id": transfer_id,
        "object": "transfer",
        "amount": amount,
        "amount_reversed": 0,
        "balance_transaction": None,
        "created": state.timestamp(),
        "currency": given["currency"],
        "description": given.get("description"),
        "destination": given["destination"],
        "destination_payment": state.new_id("py_"),
        "livemode": False,
        "metadata": check_metadata(given.get("metadata", {})),
        "reversals": {
            "object": "list",
            "data": [],
            "has_more": False,
            "url": f"/v1/transfers/{transfer_id}/reversals",
        },
        "reversed": False,
        "source_transaction": source and source["id"],
        "source_type": "card",
        "transfer_group": group,
    }


def _destination_account(state: StripeState, account: str) -> StripeObjectData:
    found = state.find_any(account)
    if found is None or found["object"] != "v2.core.account":
        raise resource_missing_error("destination", account, "destination")
    if not can_receive(found):
        raise StripeApiError(
            "Your destination account needs to have at least one of the following capabilities "
            "enabled: transfers, crypto_transfers, legacy_payments",
            code="insufficient_capabilities_for_transfer",
        )
    return found


def _source_amount(source: StripeObjectData | None) -> int:
    if source is None:
        raise StripeApiError(
            "Missing required param: amount.", code="parameter_missing", param="amount"
        )
    return int(source["amount"])


def _check_source(state: StripeState, source: StripeObjectData, amount: int, currency: str) -> None:
    """Raise StripeApiError if the charge has another currency, is unpaid, or has less left."""
    if source["currency"] != currency:
        raise StripeApiError(
            "The currency of source_transaction's balance transaction "
            f"({source['currency']}) must be the same as the transfer currency ({currency})",
            param="currency",
        )
    if not source["paid"]:
        raise StripeApiError("The source_transaction has not succeeded", param="source_transaction")
    used = sum(
        each["amount"] - each["amount_reversed"]
        for each in state.list_objects("transfer")
        if each["source_transaction"] == source["id"]
    )
    if used + amount > source["amount"]:
        raise StripeApiError(
            "Transfers using this transaction as a source must not exceed the source amount of "
            f"${source['amount'] / 100:.2f}. (There are already transfers using this source, "
            f"amounting to a total of ${used / 100:.2f}.)"
        )


def reverse_transfer(state: StripeState, call: EndpointCall) -> StripeObjectData:
    transfer = state.find_by_path("transfer", call.ids[0])
    left = transfer["amount"] - transfer["amount_reversed"]
    if left == 0:
        raise StripeApiError(f"Transfer {transfer['id']} is already fully reversed.")
    amount = check_amount(call.params.get("amount", left))
    if amount > left:
        raise StripeApiError(
            f"Reversal amount (${amount / 100:.2f}) is greater than unreversed amount on transfer "
            f"(${left / 100:.2f})",
            param="amount",
        )
    payee = (transfer["destination"], transfer["currency"])
    if amount > state.connected_balances[payee]:
        raise StripeApiError(
            "The connected account has insufficient funds for this reversal.",
            code="balance_insufficient",
        )
    made = state.add(
        {
            "id": state.new_id("trr_"),
            "object": "transfer_reversal",
            "amount": amount,
            "balance_transaction": None,
            "created": state.timestamp(),
            "currency": transfer["currency"],
            "destination_payment_refund": None,
            "metadata": check_metadata(call.params.get("metadata") or {}),
            "source_refund": None,
            "transfer": transfer["id"],
        }
    )
    made["balance_transaction"] = state.add_balance_transaction(
        "transfer_refund", made, amount, category="transfer_reversal"
    )["id"]
    state.connected_balances[payee] -= amount
    transfer["amount_reversed"] += amount
    transfer["reversed"] = transfer["amount_reversed"] == transfer["amount"]
    inner = transfer["reversals"]
    inner.update(data=[made, *inner["data"]][:10], has_more=len(inner["data"]) >= 10)
    state.emit_event("transfer.reversed", transfer)
    return made


def retrieve_transfer(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("transfer", call.ids[0])


def list_transfers(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("transfer"))


def list_reversals(state: StripeState, call: EndpointCall) -> StripeObjectData:
    transfer = state.find_by_path("transfer", call.ids[0])
    made = [
        each
        for each in state.list_objects("transfer_reversal")
        if each["transfer"] == transfer["id"]
    ]
    return list_page(call, made)


ROUTES: dict[str, EndpointHandler] = {
    "v1.transfers.create": create_transfer,
    "v1.transfers.retrieve": retrieve_transfer,
    "v1.transfers.list": list_transfers,
    "v1.transfers.reversals.create": reverse_transfer,
    "v1.transfers.reversals.list": list_reversals,
}
