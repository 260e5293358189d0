"""Transfers to connected accounts, and their reversals."""

from __future__ import annotations

from tests.stripe_stub.accounts import can_receive
from tests.stripe_stub.call import Call, Handler, page
from tests.stripe_stub.errors import Refusal, missing
from tests.stripe_stub.state import Books, Doc, check_amount, check_metadata


def create(books: Books, call: Call) -> Doc:
    given = call.params
    currency = given["currency"]
    source = None
    if "source_transaction" in given:
        source = books.find("charge", given["source_transaction"], "source_transaction")
    payee = _payee(books, given["destination"])
    amount = check_amount(given["amount"]) if "amount" in given else _whole(source)
    group = given.get("transfer_group")
    if source:
        _check_source(books, source, amount, currency)
        if group and source["transfer_group"] not in (None, group):
            raise Refusal(
                "The transfer_group of a transfer must be that of its source_transaction",
                param="transfer_group",
            )
        group = source["transfer_group"] or group
    elif amount > books.available(currency):
        raise Refusal("You have insufficient available funds.", code="balance_insufficient")
    made = books.add(_document(books, call, amount, source, group))
    made["balance_transaction"] = books.move("transfer", made, -amount)["id"]
    books.connected[payee["id"], currency] += amount
    books.tell("transfer.created", made)
    return made


def _document(books: Books, call: Call, amount: int, source: Doc | None, group: str | None) -> Doc:
    given, transfer_id = call.params, books.new_id("tr_")
    return {
        "id": transfer_id,
        "object": "transfer",
        "amount": amount,
        "amount_reversed": 0,
        "balance_transaction": None,
        "created": books.stamp(),
        "currency": given["currency"],
        "description": given.get("description"),
        "destination": given["destination"],
        "destination_payment": books.new_id("py_"),
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


def _payee(books: Books, account: str) -> Doc:
    found = books.anything(account)
    if found is None or found["object"] != "v2.core.account":
        raise missing("destination", account, "destination")
    if not can_receive(found):
        raise Refusal(
            "Your destination account needs to have at least one of the following capabilities "
            "enabled: transfers, crypto_transfers, legacy_payments",
            code="insufficient_capabilities_for_transfer",
        )
    return found


def _whole(source: Doc | None) -> int:
    if source is None:
        raise Refusal("Missing required param: amount.", code="parameter_missing", param="amount")
    return int(source["amount"])


def _check_source(books: Books, source: Doc, amount: int, currency: str) -> None:
    """A charge gives its own currency, and not more than it took."""
    if source["currency"] != currency:
        raise Refusal(
            "The currency of source_transaction's balance transaction "
            f"({source['currency']}) must be the same as the transfer currency ({currency})",
            param="currency",
        )
    if not source["paid"]:
        raise Refusal("The source_transaction has not succeeded", param="source_transaction")
    used = sum(
        each["amount"] - each["amount_reversed"]
        for each in books.all("transfer")
        if each["source_transaction"] == source["id"]
    )
    if used + amount > source["amount"]:
        raise Refusal(
            "Transfers using this transaction as a source must not exceed the source amount of "
            f"${source['amount'] / 100:.2f}. (There are already transfers using this source, "
            f"amounting to a total of ${used / 100:.2f}.)"
        )


def reverse(books: Books, call: Call) -> Doc:
    transfer = books.at("transfer", call.ids[0])
    left = transfer["amount"] - transfer["amount_reversed"]
    if left == 0:
        raise Refusal(f"Transfer {transfer['id']} is already fully reversed.")
    amount = check_amount(call.params.get("amount", left))
    if amount > left:
        raise Refusal(
            f"Reversal amount (${amount / 100:.2f}) is greater than unreversed amount on transfer "
            f"(${left / 100:.2f})",
            param="amount",
        )
    payee = (transfer["destination"], transfer["currency"])
    if amount > books.connected[payee]:
        raise Refusal(
            "The connected account has insufficient funds for this reversal.",
            code="balance_insufficient",
        )
    made = books.add(
        {
            "id": books.new_id("trr_"),
            "object": "transfer_reversal",
            "amount": amount,
            "balance_transaction": None,
            "created": books.stamp(),
            "currency": transfer["currency"],
            "destination_payment_refund": None,
            "metadata": check_metadata(call.params.get("metadata") or {}),
            "source_refund": None,
            "transfer": transfer["id"],
        }
    )
    made["balance_transaction"] = books.move(
        "transfer_refund", made, amount, category="transfer_reversal"
    )["id"]
    books.connected[payee] -= amount
    transfer["amount_reversed"] += amount
    transfer["reversed"] = transfer["amount_reversed"] == transfer["amount"]
    inner = transfer["reversals"]
    inner.update(data=[made, *inner["data"]][:10], has_more=len(inner["data"]) >= 10)
    books.tell("transfer.reversed", transfer)
    return made


def retrieve(books: Books, call: Call) -> Doc:
    return books.at("transfer", call.ids[0])


def listed(books: Books, call: Call) -> Doc:
    return page(call, books.all("transfer"))


def list_reversals(books: Books, call: Call) -> Doc:
    transfer = books.at("transfer", call.ids[0])
    made = [each for each in books.all("transfer_reversal") if each["transfer"] == transfer["id"]]
    return page(call, made)


ROUTES: dict[str, Handler] = {
    "v1.transfers.create": create,
    "v1.transfers.retrieve": retrieve,
    "v1.transfers.list": listed,
    "v1.transfers.reversals.create": reverse,
    "v1.transfers.reversals.list": list_reversals,
}
