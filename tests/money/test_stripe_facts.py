"""What the adapter of Stripe makes of Stripe's objects, and which of them are ours."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from stripe import Dispute, Refund

from staffbooking_adapters.stripe import facts
from staffbooking_adapters.stripe.marks import DeploymentTags
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    IntentRefs,
    OperationKind,
    ProcessorFee,
    RefundState,
    RefundStatus,
)
from tests.money.processors import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
    make_operation_key,
    make_stripe_processor,
    stub_of,
)
from tests.support.builders import MINUTE

pytestmark = pytest.mark.anyio

MARKS = DeploymentTags("test", is_live=False)


# Marks --------------------------------------------------------------------------------------


def test_marks_are_read_as_they_are_written() -> None:
    """Intent and operation come back out of the metadata, and of the transfer group."""
    key = make_operation_key(OperationKind.REFUND, 34)
    metadata = MARKS.metadata(key)
    assert (MARKS.find_intent_id(metadata), MARKS.find_op_id(metadata)) == (34, key.op_id)
    assert MARKS.find_intent_id_by_group(MARKS.transfer_group(34)) == 34


@pytest.mark.parametrize("other", ["other", "test_intent_3", "tes"])
def test_marks_of_others_are_not_ours(other: str) -> None:
    """Another deployment's numbers mean nothing here, however its name begins."""
    theirs = evolve(MARKS, environment=other)
    metadata = theirs.metadata(make_operation_key(OperationKind.REFUND))
    assert MARKS.is_foreign(metadata)
    assert (MARKS.find_intent_id(metadata), MARKS.find_op_id(metadata)) == (None, None)
    assert MARKS.find_intent_id_by_group(theirs.transfer_group(34)) is None


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "1" * 19, None, 7])
def test_a_number_is_plain_digits(text: Any) -> None:
    """What somebody wrote into the metadata by hand is no number of ours."""
    assert MARKS.find_intent_id({"sb_env": "test", "intent_id": text}) is None


@pytest.mark.parametrize("group", ["34", "ORDER-34", "sb_test_intent_", "", None])
def test_a_group_by_hand_is_no_intents(group: str | None) -> None:
    """A transfer group that somebody made up leads to no intent."""
    assert MARKS.find_intent_id_by_group(group) is None


def test_what_bears_no_name_is_not_foreign() -> None:
    """What was made by hand is nobody else's."""
    assert not MARKS.is_foreign({})
    assert MARKS.find_op_id({"op_id": "5"}) is None


# Whose it is --------------------------------------------------------------------------------


async def test_another_deployments_payment_is_not_ours(stripe: ProcessorBench) -> None:
    """On one account the same intent of another deployment is another one."""
    payment = await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    refs = IntentRefs(INTENT_ID, payments=(payment.ref,))
    snapshot = await other.snapshot(refs, CALL_TIMEOUT_SECONDS)
    found = await other.find_intent(payment.ref, CALL_TIMEOUT_SECONDS)
    await other.close()
    assert (snapshot.payments, snapshot.fees, found) == ((), (), None)


async def test_another_intents_payment_is_not_this_ones(stripe: ProcessorBench) -> None:
    """A payment counts for the intent whose number it bears, whoever asks."""
    payment = await stripe.make_payment(intent_id=13)
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert snapshot.payments == ()


async def test_a_payment_of_the_other_mode_is_not_ours(stripe: ProcessorBench) -> None:
    """What pretends to be real money under a test key is not counted."""
    payment = await stripe.make_payment()
    stub_of(stripe).objects("payment_intent")[0]["livemode"] = True
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert snapshot.payments == ()


async def test_a_payment_is_found_without_its_page(stripe: ProcessorBench) -> None:
    """A payment that is known by its own reference needs no page to be found."""
    payment = await stripe.make_payment()
    refund = await stripe.refund(payment, 1_000)
    snapshot = await stripe.payments.snapshot(
        IntentRefs(INTENT_ID, payments=(payment.ref,)), CALL_TIMEOUT_SECONDS
    )
    assert (snapshot.checkouts, snapshot.payments) == ((), (payment,))
    assert snapshot.refunds == (refund,)


async def test_a_payment_known_twice_is_one(stripe: ProcessorBench) -> None:
    """Its page and its own reference lead to the same payment."""
    payment = await stripe.make_payment()
    refs = IntentRefs(INTENT_ID, stripe.checkouts[INTENT_ID], (payment.ref,))
    assert (await stripe.payments.snapshot(refs, CALL_TIMEOUT_SECONDS)).payments == (payment,)


async def test_the_real_amount_is_told(stripe: ProcessorBench) -> None:
    """If another amount than the total was charged, that is the fact."""
    checkout = await stripe.open_checkout()
    stub_of(stripe).pay(checkout.ref, amount=19_999)
    [payment] = (await stripe.snapshot()).payments
    assert payment.amount == 19_999


# Completely ---------------------------------------------------------------------------------


async def test_lists_are_read_to_their_ends(stripe: ProcessorBench) -> None:
    """Past a hundred refunds none is overlooked."""
    payment = await stripe.make_payment()
    for _ in range(101):
        await stripe.outside_world.refund_by_hand(payment, 1)
    refunds = (await stripe.snapshot()).refunds
    assert len({each.ref for each in refunds}) == 101


async def test_reversals_are_read_to_their_end(stripe: ProcessorBench) -> None:
    """A payout shows its last ten reversals; the others are asked for."""
    payout = await stripe.pay_out(await stripe.make_payment(), 17_000)
    for _ in range(12):
        await stripe.outside_world.reverse_by_hand(payout, 100)
    snapshot = await stripe.snapshot()
    assert len({each.ref for each in snapshot.reversals}) == 12
    assert [each.reversed for each in snapshot.payouts] == [1_200]


async def test_what_happened_first_is_told_first(stripe: ProcessorBench) -> None:
    """Stripe lists the newest first, a snapshot the oldest."""
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
def test_a_refund_stands_in_one_of_three_ways(status: str | None, ours: RefundStatus) -> None:
    """Settled or failed is final for us, all else is on its way."""
    document = {"id": "re_1", "amount": 5, "status": status, "metadata": {}}
    found = facts.refund(Refund.construct_from(document, None), MARKS)
    assert found == RefundState("re_1", ours, 5, None)


async def test_a_refund_may_fail_late(stripe: ProcessorBench) -> None:
    """A refund that was on its way and comes back is seen to have failed."""
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
def test_a_dispute_is_judged_by_the_money(
    status: str, moved: tuple[int, ...], ours: ChargebackStatus | None
) -> None:
    """An inquiry is no chargeback; of what was prevented the money tells how it ended."""
    document = {
        "id": "du_1",
        "amount": 20_000,
        "status": status,
        "payment_intent": "pi_1",
        "balance_transactions": [
            {"object": "balance_transaction", "amount": amount} for amount in moved
        ],
    }
    found = facts.chargeback(Dispute.construct_from(document, None))
    assert found == (None if ours is None else Chargeback("du_1", 20_000, ours, "pi_1"))


@pytest.mark.parametrize(
    ("outcome", "ours"),
    [("warning", None), ("warning_closed", None), ("prevented_block", None), ("prevented", LOST)],
)
async def test_inquiries_are_left_out(
    stripe: ProcessorBench, outcome: str, ours: ChargebackStatus | None
) -> None:
    """While the bank only asks, or was told in time, there is no chargeback."""
    await stripe.make_payment()
    await stripe.outside_world.charge_back(INTENT_ID, outcome)
    found = (await stripe.snapshot()).chargebacks
    assert [each.status for each in found] == ([] if ours is None else [ours])


async def test_a_chargeback_takes_what_was_left(stripe: ProcessorBench) -> None:
    """Of a payment that was refunded in part the bank takes the rest."""
    payment = await stripe.make_payment()
    await stripe.refund(payment, 5_000)
    await stripe.outside_world.charge_back(INTENT_ID, "open")
    [found] = (await stripe.snapshot()).chargebacks
    assert (found.amount, found.payment_ref) == (15_000, payment.ref)


# Fees ---------------------------------------------------------------------------------------


async def test_fees_are_told_by_their_movement(stripe: ProcessorBench) -> None:
    """What Stripe kept of the payment, and for the chargeback, by the movement's reference."""
    await stripe.make_payment()
    await stripe.outside_world.charge_back(INTENT_ID, "open")
    moved = {each["fee"]: each["id"] for each in stub_of(stripe).objects("balance_transaction")}
    assert (await stripe.snapshot()).fees == (
        ProcessorFee(moved[610], 610),
        ProcessorFee(moved[1_500], 1_500),
    )


async def test_fees_of_another_currency_are_left_out(stripe: ProcessorBench) -> None:
    """A fee that was kept of converted money is none of the booking's currency."""
    await stripe.make_payment()
    stub_of(stripe).objects("balance_transaction")[0]["currency"] = "eur"
    assert (await stripe.snapshot()).fees == ()
