"""Conversion of Stripe's objects to a snapshot, and which of them are ours."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from stripe import Dispute, Refund

from staffbooking_adapters.stripe import mapping
from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.testing.builders import MINUTE
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    IntentRefs,
    OperationKind,
    ProcessorFee,
    RefundState,
    RefundStatus,
)
from tests.money.processors import make_stripe_processor, stub_of

pytestmark = pytest.mark.anyio

TAGS = DeploymentTags("test", is_live=False)


# Tags ---------------------------------------------------------------------------------------


def test_tags_are_read_as_written() -> None:
    """Intent and operation are read from the metadata, and the intent from the transfer group."""
    key = make_operation_key(OperationKind.REFUND, 34)
    metadata = TAGS.metadata(key)
    assert (TAGS.find_intent_id(metadata), TAGS.find_op_id(metadata)) == (34, key.op_id)
    assert TAGS.find_intent_id_by_group(TAGS.transfer_group(34)) == 34


@pytest.mark.parametrize("other", ["other", "test_intent_3", "tes"])
def test_tags_of_others_are_not_ours(other: str) -> None:
    """Metadata and transfer group of another deployment are foreign and have no intent of ours."""
    theirs = evolve(TAGS, environment=other)
    metadata = theirs.metadata(make_operation_key(OperationKind.REFUND))
    assert TAGS.is_foreign(metadata)
    assert (TAGS.find_intent_id(metadata), TAGS.find_op_id(metadata)) == (None, None)
    assert TAGS.find_intent_id_by_group(theirs.transfer_group(34)) is None


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "1" * 19, None, 7])
def test_an_id_is_plain_digits(text: Any) -> None:
    """An intent id in the metadata that is not plain ASCII digits is ignored."""
    assert TAGS.find_intent_id({"sb_env": "test", "intent_id": text}) is None


@pytest.mark.parametrize("group", ["34", "ORDER-34", "sb_test_intent_", "", None])
def test_a_group_by_hand_has_no_intent(group: str | None) -> None:
    """A transfer group of another form has no intent."""
    assert TAGS.find_intent_id_by_group(group) is None


def test_untagged_metadata_is_not_foreign() -> None:
    """Empty metadata is not foreign, and an operation without a deployment name is ignored."""
    assert not TAGS.is_foreign({})
    assert TAGS.find_op_id({"op_id": "5"}) is None


# Ownership ----------------------------------------------------------------------------------


async def test_another_deployments_payment_is_not_ours(stripe: ProcessorBench) -> None:
    """A payment of the same intent of another deployment is not in the snapshot."""
    payment = await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    refs = IntentRefs(INTENT_ID, payments=(payment.ref,))
    snapshot = await other.snapshot(refs, CALL_TIMEOUT_SECONDS)
    found = await other.find_intent(payment.ref, CALL_TIMEOUT_SECONDS)
    await other.close()
    assert (snapshot.payments, snapshot.fees, found) == ((), (), None)


async def test_another_intents_payment_is_not_this_ones(stripe: ProcessorBench) -> None:
    """A payment of another intent is not in the snapshot."""
    payment = await stripe.make_payment(intent_id=13)
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert snapshot.payments == ()


async def test_a_payment_of_the_other_mode_is_not_ours(stripe: ProcessorBench) -> None:
    """A live payment is not in the snapshot of a test key."""
    payment = await stripe.make_payment()
    stub_of(stripe).objects("payment_intent")[0]["livemode"] = True
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert snapshot.payments == ()


async def test_a_payment_is_found_without_its_page(stripe: ProcessorBench) -> None:
    """A payment and its refund are found by the payment's reference without a session."""
    payment = await stripe.make_payment()
    refund = await stripe.refund(payment, 1_000)
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert (snapshot.checkouts, snapshot.payments) == ((), (payment,))
    assert snapshot.refunds == (refund,)


async def test_a_payment_known_twice_is_one(stripe: ProcessorBench) -> None:
    """A payment known by its session and by its reference is in the snapshot once."""
    payment = await stripe.make_payment()
    refs = IntentRefs(INTENT_ID, stripe.checkouts[INTENT_ID], (payment.ref,))
    assert (await stripe.payments.snapshot(refs, CALL_TIMEOUT_SECONDS)).payments == (payment,)


async def test_the_charged_amount_is_reported(stripe: ProcessorBench) -> None:
    """A payment has the charged amount, even if it differs from the session's."""
    checkout = await stripe.open_checkout()
    stub_of(stripe).pay(checkout.ref, amount=19_999)
    [payment] = (await stripe.snapshot()).payments
    assert payment.amount == 19_999


# Completeness -------------------------------------------------------------------------------


async def test_lists_are_read_completely(stripe: ProcessorBench) -> None:
    """A snapshot has all of 101 refunds."""
    payment = await stripe.make_payment()
    for _ in range(101):
        await stripe.outside_world.refund_by_hand(payment, 1)
    refunds = (await stripe.snapshot()).refunds
    assert len({each.ref for each in refunds}) == 101


async def test_reversals_are_read_completely(stripe: ProcessorBench) -> None:
    """A snapshot has all of 12 reversals, though a transfer includes only ten."""
    payout = await stripe.pay_out(await stripe.make_payment(), 17_000)
    for _ in range(12):
        await stripe.outside_world.reverse_by_hand(payout, 100)
    snapshot = await stripe.snapshot()
    assert len({each.ref for each in snapshot.reversals}) == 12
    assert [each.reversed for each in snapshot.payouts] == [1_200]


async def test_refunds_are_listed_oldest_first(stripe: ProcessorBench) -> None:
    """A snapshot lists refunds oldest first, though Stripe lists them newest first."""
    payment = await stripe.make_payment()
    refunds = []
    for amount in (300, 200, 100):
        refunds.append(await stripe.refund(payment, amount))
        stripe.clock.advance(MINUTE)
    assert (await stripe.snapshot()).refunds == tuple(refunds)


# Refunds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "ours"),
    [
        ("succeeded", RefundStatus.SETTLED),
        ("pending", RefundStatus.PENDING),
        ("requires_action", RefundStatus.PENDING),
        (None, RefundStatus.PENDING),
        ("failed", RefundStatus.FAILED),
        ("canceled", RefundStatus.FAILED),
    ],
)
def test_each_refund_status_is_mapped(status: str | None, ours: RefundStatus) -> None:
    """Each status of Stripe is mapped to settled, failed or pending."""
    document = {"id": "re_1", "amount": 5, "status": status, "metadata": {}}
    found = mapping.refund(Refund.construct_from(document, None), TAGS)
    assert found == RefundState("re_1", ours, 5, None)


async def test_a_refund_may_fail_late(stripe: ProcessorBench) -> None:
    """A pending refund that fails is failed in the next snapshot."""
    payment = await stripe.make_payment()
    stub_of(stripe).inject_fault("refund", "pending_then_failed")
    pending = await stripe.refund(payment, 5_000)
    stripe.clock.advance(2 * MINUTE)
    [failed] = (await stripe.snapshot()).refunds
    assert (pending.status, failed.status) == (RefundStatus.PENDING, RefundStatus.FAILED)
    assert failed.ref == pending.ref


# Chargebacks --------------------------------------------------------------------------------

OUT, BACK = -20_000, 20_000
OPEN, WON, LOST = ChargebackStatus


@pytest.mark.parametrize(
    ("status", "moved", "ours"),
    [
        ("warning_needs_response", (), None),
        ("warning_under_review", (), None),
        ("warning_closed", (), None),
        ("prevented", (), None),
        ("needs_response", (), OPEN),
        ("needs_response", (OUT,), OPEN),
        ("under_review", (OUT,), OPEN),
        ("appeal_needs_response", (OUT,), OPEN),
        ("warning_under_review", (OUT,), OPEN),
        ("won", (OUT, BACK), WON),
        ("won", (OUT,), WON),
        ("warning_closed", (OUT, BACK), WON),
        ("lost", (OUT,), LOST),
        ("lost", (OUT, BACK, OUT), LOST),
        ("prevented", (OUT,), LOST),
        ("prevented", (OUT, BACK), WON),
    ],
)
def test_a_dispute_is_judged_by_its_movements(
    status: str, moved: tuple[int, ...], ours: ChargebackStatus | None
) -> None:
    """A dispute's balance movements decide whether it is a chargeback and its status."""
    document = {
        "id": "du_1",
        "amount": 20_000,
        "status": status,
        "payment_intent": "pi_1",
        "balance_transactions": [
            {"object": "balance_transaction", "amount": amount} for amount in moved
        ],
    }
    found = mapping.chargeback(Dispute.construct_from(document, None), left=20_000)
    assert found == (None if ours is None else Chargeback("du_1", 20_000, ours, "pi_1"))


@pytest.mark.parametrize(("refunded", "amounts"), [(5_000, [15_000]), (20_000, [])])
async def test_a_chargeback_without_movements_takes_what_is_left(
    stripe: ProcessorBench, refunded: int, amounts: list[int]
) -> None:
    """A chargeback of the whole payment, whose movements Stripe does not show yet, has the amount
    that is left after refunds, and is none where nothing is left."""
    payment = await stripe.make_payment(amount=20_000)
    await stripe.refund(payment, refunded)
    await stripe.outside_world.charge_back(INTENT_ID, "warning")
    [dispute] = stub_of(stripe).objects("dispute")
    dispute.update(status="needs_response", amount=20_000)
    assert [each.amount for each in (await stripe.snapshot()).chargebacks] == amounts


@pytest.mark.parametrize(
    ("outcome", "ours"),
    [("warning", None), ("warning_closed", None), ("prevented_block", None), ("prevented", LOST)],
)
async def test_inquiries_are_left_out(
    stripe: ProcessorBench, outcome: str, ours: ChargebackStatus | None
) -> None:
    """Inquiries and blocked disputes are no chargebacks, and a prevented one is lost."""
    await stripe.make_payment()
    await stripe.outside_world.charge_back(INTENT_ID, outcome)
    found = (await stripe.snapshot()).chargebacks
    assert [each.status for each in found] == ([] if ours is None else [ours])


async def test_a_chargeback_takes_the_unrefunded_amount(stripe: ProcessorBench) -> None:
    """A chargeback of a partly refunded payment has the rest as its amount."""
    payment = await stripe.make_payment()
    await stripe.refund(payment, 5_000)
    await stripe.outside_world.charge_back(INTENT_ID, "open")
    [found] = (await stripe.snapshot()).chargebacks
    assert (found.amount, found.payment_ref) == (15_000, payment.ref)


# Fees ---------------------------------------------------------------------------------------


async def test_fees_have_their_transactions_reference(stripe: ProcessorBench) -> None:
    """Fees of a payment and its chargeback have the ids of their balance transactions."""
    await stripe.make_payment()
    await stripe.outside_world.charge_back(INTENT_ID, "open")
    moved = {each["fee"]: each["id"] for each in stub_of(stripe).objects("balance_transaction")}
    assert (await stripe.snapshot()).fees == (
        ProcessorFee(moved[610], 610),
        ProcessorFee(moved[1_500], 1_500),
    )


async def test_fees_of_another_currency_are_left_out(stripe: ProcessorBench) -> None:
    """A fee in another currency is not in the snapshot."""
    await stripe.make_payment()
    stub_of(stripe).objects("balance_transaction")[0]["currency"] = "eur"
    assert (await stripe.snapshot()).fees == ()
