"""Reads a snapshot of one intent with strongly consistent reads only, never Stripe's search.

Checkout sessions and payments are read by reference, refunds and disputes by payment, payouts by
the intent's transfer group, so objects made by hand are found too.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import anyio
from attrs import Factory, define
from stripe import (
    Charge,
    Dispute,
    PaymentIntent,
    Refund,
    Transfer,
    TransferReversal,
    V1Services,
)
from stripe.checkout import Session

from staffbooking_adapters.stripe import mapping
from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import get_id, list_all, metadata_dict
from staffbooking_core.domain.payments.processor import IntentRefs, Snapshot

_creation_order = attrgetter("created", "id")


@define
class _StripeObjects:
    """The objects read so far, in the order in which the reads finished."""

    sessions: dict[str, Session] = Factory(dict)
    intents: dict[str, PaymentIntent] = Factory(dict)
    refunds: list[Refund] = Factory(list)
    disputes: list[Dispute] = Factory(list)
    transfers: list[Transfer] = Factory(list)
    reversals: list[TransferReversal] = Factory(list)


async def fetch_snapshot(api: V1Services, tags: DeploymentTags, refs: IntentRefs) -> Snapshot:
    """Read Stripe's state of an intent: sessions and transfers first, then each payment with its
    refunds and disputes. Raises the SDK's errors."""
    found = _StripeObjects()
    await _run_concurrently(
        *(partial(_fetch_session, api, ref, found) for ref, _ in refs.checkouts),
        partial(_fetch_transfers, api, tags.transfer_group(refs.intent_id), found),
    )
    payment_refs = (get_id(session.payment_intent) for session in found.sessions.values())
    payments = dict.fromkeys((*refs.payments, *filter(None, payment_refs)))
    await _run_concurrently(
        *(
            partial(read, api, payment, found)
            for payment in payments
            for read in (_fetch_intent, _fetch_refunds, _fetch_disputes)
        )
    )
    return _build_snapshot(found, tags, refs)


async def _run_concurrently(*calls: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(call)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _fetch_session(api: V1Services, ref: str, found: _StripeObjects) -> None:
    found.sessions[ref] = await api.checkout.sessions.retrieve_async(ref)


async def _fetch_transfers(api: V1Services, group: str, found: _StripeObjects) -> None:
    page = await api.transfers.list_async({"transfer_group": group, "limit": 100})
    found.transfers += await list_all(page)
    for transfer in found.transfers:
        found.reversals += transfer.reversals.data
        if transfer.reversals.has_more:
            last = transfer.reversals.data[-1].id
            rest = await api.transfers.reversals.list_async(
                transfer.id, {"limit": 100, "starting_after": last}
            )
            found.reversals += await list_all(rest)


async def _fetch_intent(api: V1Services, payment: str, found: _StripeObjects) -> None:
    found.intents[payment] = await api.payment_intents.retrieve_async(
        payment, {"expand": ["latest_charge.balance_transaction"]}
    )


async def _fetch_refunds(api: V1Services, payment: str, found: _StripeObjects) -> None:
    page = await api.refunds.list_async(
        {"payment_intent": payment, "limit": 100, "expand": ["data.balance_transaction"]}
    )
    found.refunds += await list_all(page)


async def _fetch_disputes(api: V1Services, payment: str, found: _StripeObjects) -> None:
    page = await api.disputes.list_async({"payment_intent": payment, "limit": 100})
    found.disputes += await list_all(page)


def _build_snapshot(found: _StripeObjects, tags: DeploymentTags, refs: IntentRefs) -> Snapshot:
    paid = {
        intent.id: intent
        for intent in found.intents.values()
        if intent.status == "succeeded" and _is_ours(intent, tags, refs.intent_id)
    }
    refunds = [
        each
        for each in sorted(found.refunds, key=_creation_order)
        if get_id(each.payment_intent) in paid
    ]
    disputes = [
        each
        for each in sorted(found.disputes, key=_creation_order)
        if get_id(each.payment_intent) in paid
    ]
    currencies = {intent.currency for intent in paid.values()}
    chargebacks = (
        mapping.chargeback(dispute, _unrefunded_amount(paid[get_id(dispute.payment_intent) or ""]))
        for dispute in disputes
    )
    return Snapshot(
        intent_id=refs.intent_id,
        checkouts=tuple(
            mapping.checkout(found.sessions[ref], op_id) for ref, op_id in refs.checkouts
        ),
        payments=tuple(mapping.payment(intent) for intent in paid.values()),
        refunds=tuple(mapping.refund(each, tags) for each in refunds),
        payouts=tuple(
            mapping.payout(each, tags) for each in sorted(found.transfers, key=_creation_order)
        ),
        reversals=tuple(
            mapping.reversal(each, tags) for each in sorted(found.reversals, key=_creation_order)
        ),
        chargebacks=tuple(filter(None, chargebacks)),
        fees=tuple(
            mapping.fees(_balance_transactions(paid.values(), refunds, disputes), currencies)
        ),
    )


def _is_ours(intent: PaymentIntent, tags: DeploymentTags, intent_id: int) -> bool:
    return (
        intent.livemode is tags.is_live
        and tags.find_intent_id(metadata_dict(intent.metadata)) == intent_id
    )


def _unrefunded_amount(intent: PaymentIntent) -> int:
    charge = intent.latest_charge
    refunded = charge.amount_refunded if isinstance(charge, Charge) else 0
    return intent.amount_received - refunded


def _balance_transactions(
    intents: Iterable[PaymentIntent], refunds: list[Refund], disputes: list[Dispute]
) -> Iterator[object]:
    for intent in intents:
        if isinstance(intent.latest_charge, Charge):
            yield intent.latest_charge.balance_transaction
    for refund in refunds:
        yield refund.balance_transaction
    for dispute in disputes:
        yield from dispute.balance_transactions
