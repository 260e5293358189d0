"""All that Stripe knows of one intent, by strongly consistent reads alone: never its search.

The pages and payments are read by their references, refunds and disputes by the payment,
payouts by the intent's transfer group: so what was made by hand is found as well.
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

from staffbooking_adapters.stripe import facts
from staffbooking_adapters.stripe.marks import Marks
from staffbooking_adapters.stripe.reading import every, id_of, plain
from staffbooking_core.domain.payments.processor import IntentRefs, Snapshot

_by_age = attrgetter("created", "id")


@define
class _Found:
    """What the reads brought, in whatever order they ended."""

    sessions: dict[str, Session] = Factory(dict)
    intents: dict[str, PaymentIntent] = Factory(dict)
    refunds: list[Refund] = Factory(list)
    disputes: list[Dispute] = Factory(list)
    transfers: list[Transfer] = Factory(list)
    reversals: list[TransferReversal] = Factory(list)


async def look(api: V1Services, marks: Marks, refs: IntentRefs) -> Snapshot:
    """Raises the SDK's errors."""
    found = _Found()
    await _together(
        *(partial(_session, api, ref, found) for ref, _ in refs.checkouts),
        partial(_transfers, api, marks.group(refs.intent_id), found),
    )
    named = (id_of(session.payment_intent) for session in found.sessions.values())
    payments = dict.fromkeys((*refs.payments, *filter(None, named)))
    await _together(
        *(
            partial(read, api, payment, found)
            for payment in payments
            for read in (_intent, _refunds, _disputes)
        )
    )
    return _snapshot(found, marks, refs)


async def _together(*calls: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(call)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _session(api: V1Services, ref: str, found: _Found) -> None:
    found.sessions[ref] = await api.checkout.sessions.retrieve_async(ref)


async def _transfers(api: V1Services, group: str, found: _Found) -> None:
    page = await api.transfers.list_async({"transfer_group": group, "limit": 100})
    found.transfers += await every(page)
    for transfer in found.transfers:
        found.reversals += transfer.reversals.data
        if transfer.reversals.has_more:
            last = transfer.reversals.data[-1].id
            rest = await api.transfers.reversals.list_async(
                transfer.id, {"limit": 100, "starting_after": last}
            )
            found.reversals += await every(rest)


async def _intent(api: V1Services, payment: str, found: _Found) -> None:
    found.intents[payment] = await api.payment_intents.retrieve_async(
        payment, {"expand": ["latest_charge.balance_transaction"]}
    )


async def _refunds(api: V1Services, payment: str, found: _Found) -> None:
    page = await api.refunds.list_async(
        {"payment_intent": payment, "limit": 100, "expand": ["data.balance_transaction"]}
    )
    found.refunds += await every(page)


async def _disputes(api: V1Services, payment: str, found: _Found) -> None:
    page = await api.disputes.list_async({"payment_intent": payment, "limit": 100})
    found.disputes += await every(page)


def _snapshot(found: _Found, marks: Marks, refs: IntentRefs) -> Snapshot:
    paid = {
        intent.id: intent
        for intent in found.intents.values()
        if intent.status == "succeeded" and _is_ours(intent, marks, refs.intent_id)
    }
    refunds = [
        each for each in sorted(found.refunds, key=_by_age) if id_of(each.payment_intent) in paid
    ]
    disputes = [
        each for each in sorted(found.disputes, key=_by_age) if id_of(each.payment_intent) in paid
    ]
    currencies = {intent.currency for intent in paid.values()}
    chargebacks = (facts.chargeback(dispute) for dispute in disputes)
    return Snapshot(
        intent_id=refs.intent_id,
        checkouts=tuple(
            facts.checkout(found.sessions[ref], op_id) for ref, op_id in refs.checkouts
        ),
        payments=tuple(facts.payment(intent) for intent in paid.values()),
        refunds=tuple(facts.refund(each, marks) for each in refunds),
        payouts=tuple(facts.payout(each, marks) for each in sorted(found.transfers, key=_by_age)),
        reversals=tuple(
            facts.reversal(each, marks) for each in sorted(found.reversals, key=_by_age)
        ),
        chargebacks=tuple(filter(None, chargebacks)),
        fees=tuple(facts.fees(_moved(paid.values(), refunds, disputes), currencies)),
    )


def _is_ours(intent: PaymentIntent, marks: Marks, intent_id: int) -> bool:
    return intent.livemode is marks.live and marks.intent_of(plain(intent.metadata)) == intent_id


def _moved(
    intents: Iterable[PaymentIntent], refunds: list[Refund], disputes: list[Dispute]
) -> Iterator[object]:
    for intent in intents:
        if isinstance(intent.latest_charge, Charge):
            yield intent.latest_charge.balance_transaction
    for refund in refunds:
        yield refund.balance_transaction
    for dispute in disputes:
        yield from dispute.balance_transactions
