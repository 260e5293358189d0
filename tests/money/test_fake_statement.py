"""The fake processor's statement: one `Movement` per change of its balance."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.codec import dump
from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD
from staffbooking_adapters.fake.documents import STATEMENT_LINE_KIND, FakeStoreTransaction
from staffbooking_adapters.fake.faults import REFUND_PROGRESSIONS
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
    make_operation_key,
)
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    OperationKind,
    OutcomeUnknown,
    ProcessorRefused,
    ReversePayout,
)
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import RuleBroken
from tests.money.fake_helpers import UnavailableDocumentStore, make_fake_bench, statement_lines
from tests.money.fake_intents import (
    intent_with_payment,
    pay_out_intent,
    refund_intent,
    reverse_intent_payout,
)
from tests.money.processors import fake_processor_of, make_bench_on_store

pytestmark = pytest.mark.anyio


async def kinds(bench: ProcessorBench) -> list[tuple[str, int]]:
    """Kind and amount of each line of the statement, in order."""
    return [(line.kind.value, line.amount) for line in await statement_lines(bench)]


async def test_a_payment_is_a_line(bench: ProcessorBench) -> None:
    """The line of a payment has the payment's reference, amount and time."""
    payment = await bench.make_payment(amount=20_000)
    assert await statement_lines(bench) == [
        Movement(INTENT_ID, MovementKind.PAYMENT, payment.ref, 20_000, payment.paid_at)
    ]


async def test_a_change_without_movement_has_no_line(bench: ProcessorBench) -> None:
    """An open page and a pending refund have no line."""
    await bench.open_checkout(intent_id=13)
    payment = await bench.make_payment()
    await fake_processor_of(bench).sandbox.add_fault("refund", "pending_then_settled", 1)
    await bench.refund(payment, 5_000)
    assert await kinds(bench) == [("payment", 20_000)]


async def test_a_refund_is_a_line_when_it_settles(bench: ProcessorBench) -> None:
    """A pending refund gets its line at the time it settles, without a read of the intent."""
    payment = await bench.make_payment()
    await fake_processor_of(bench).sandbox.add_fault("refund", "pending_then_settled", 1)
    state = await bench.refund(payment, 5_000)
    await bench.clock.set_business(NOW + DELAYED_EFFECT_PERIOD)
    assert (await statement_lines(bench))[1:] == [
        Movement(INTENT_ID, MovementKind.REFUND, state.ref, -5_000, NOW + DELAYED_EFFECT_PERIOD)
    ]


async def test_a_refund_that_never_settled_has_no_line(bench: ProcessorBench) -> None:
    """A refund that fails while pending has no line."""
    payment = await bench.make_payment()
    await fake_processor_of(bench).sandbox.add_fault("refund", "pending_then_failed", 1)
    await bench.refund(payment, 5_000)
    await bench.clock.set_business(NOW + DELAYED_EFFECT_PERIOD)
    assert await kinds(bench) == [("payment", 20_000)]


async def test_a_settled_refund_that_fails_has_two_lines(bench: ProcessorBench) -> None:
    """A settled refund that fails has a second line that returns the amount."""
    payment = await bench.make_payment()
    await fake_processor_of(bench).sandbox.add_fault("refund", "settled_then_failed", 1)
    state = await bench.refund(payment, 5_000)
    assert await kinds(bench) == [("payment", 20_000), ("refund", -5_000)]
    await bench.clock.set_business(NOW + DELAYED_EFFECT_PERIOD)
    assert (await statement_lines(bench))[2:] == [
        Movement(
            INTENT_ID, MovementKind.REFUND_FAILED, state.ref, 5_000, NOW + DELAYED_EFFECT_PERIOD
        )
    ]


async def test_payouts_and_reversals_are_lines(bench: ProcessorBench) -> None:
    """A payout and its reversal have one line each with the reference from the port's answer."""
    payout = await bench.pay_out(await bench.make_payment(), 17_000)
    command, key = ReversePayout(1, 2_000, "usd"), make_operation_key(OperationKind.REVERSE_PAYOUT)
    reversal = await bench.payments.reverse_payout(command, payout.ref, key, CALL_TIMEOUT_SECONDS)
    assert [(line.kind, line.ref, line.amount) for line in (await statement_lines(bench))[1:]] == [
        (MovementKind.PAYOUT, payout.ref, -17_000),
        (MovementKind.REVERSAL, reversal.ref, 2_000),
    ]


@pytest.mark.parametrize("opened_first", [False, True])
async def test_a_won_chargeback_has_two_lines(bench: ProcessorBench, opened_first: bool) -> None:
    """A won chargeback has two lines that add up to zero, even without a separate opening."""
    await bench.make_payment()
    if opened_first:
        await fake_processor_of(bench).sandbox.chargeback(INTENT_ID, "open")
    await fake_processor_of(bench).sandbox.chargeback(INTENT_ID, "won")
    [chargeback] = (await bench.snapshot()).chargebacks
    assert [(line.kind, line.ref, line.amount) for line in (await statement_lines(bench))[1:]] == [
        (MovementKind.CHARGEBACK, chargeback.ref, -20_000),
        (MovementKind.REINSTATEMENT, chargeback.ref, 20_000),
    ]


async def test_a_lost_chargeback_has_one_line(bench: ProcessorBench) -> None:
    """A lost chargeback has the line of its opening only."""
    await bench.make_payment()
    for outcome in ("open", "lost"):
        await fake_processor_of(bench).sandbox.chargeback(INTENT_ID, outcome)
    assert await kinds(bench) == [("payment", 20_000), ("chargeback", -20_000)]


async def test_fees_are_lines() -> None:
    """The fees of a payment and of its chargeback are lines with the snapshot's references."""
    bench = make_fake_bench(fee_ppm=29_000)
    await bench.make_payment(amount=20_000)
    await fake_processor_of(bench).sandbox.chargeback(INTENT_ID, "lost")
    fees = [line for line in await statement_lines(bench) if line.kind is MovementKind.FEE]
    assert [(line.ref, -line.amount) for line in fees] == [
        (fee.ref, fee.amount) for fee in (await bench.snapshot()).fees
    ]
    assert [line.amount for line in fees] == [-580, -580]


async def test_no_fee_is_taken_by_default(bench: ProcessorBench) -> None:
    """A payment has no fee by default."""
    await bench.make_payment()
    assert (await bench.snapshot()).fees == ()


async def test_actions_by_hand_are_listed(bench: ProcessorBench) -> None:
    """A refund and a reversal by hand have lines, though no operation."""
    payment = await bench.make_payment()
    await bench.pay_out(payment, 10_000)
    await fake_processor_of(bench).dashboard.refund(INTENT_ID, 3_000)
    await fake_processor_of(bench).dashboard.reverse_payout(INTENT_ID, 4_000)
    assert (await kinds(bench))[2:] == [("refund", -3_000), ("reversal", 4_000)]
    snapshot = await bench.snapshot()
    assert (snapshot.refunds[0].op_id, snapshot.reversals[0].op_id) == (None, None)


async def test_lines_are_ordered_by_intent(bench: ProcessorBench) -> None:
    """Lines are ordered by intent number, not by text or by time."""
    for intent_id in (10, 9, 100):
        await bench.make_payment(intent_id=intent_id)
    await fake_processor_of(bench).sandbox.chargeback(9, "open")
    assert [line.intent_id for line in await statement_lines(bench)] == [9, 9, 10, 100]


async def test_a_long_statement_is_complete(bench: ProcessorBench) -> None:
    """A statement longer than one page of the document store is listed completely."""
    payment = await bench.make_payment(intent_id=1)

    async def work(tx: FakeStoreTransaction) -> None:
        for number in range(1, 1_201):
            line = Movement(number, MovementKind.PAYMENT, payment.ref, 1, NOW)
            await tx.put(STATEMENT_LINE_KIND, f"{number:019d}{2:06d}", dump(line))

    await fake_processor_of(bench)._store.transact(work)
    found = [line.intent_id async for line in bench.payments.statement()]
    assert found == [1, *range(1, 1_201)]


async def test_an_abandoned_statement_blocks_nothing(bench: ProcessorBench) -> None:
    """An abandoned read of the statement does not block later payments."""
    for intent_id in (1, 2):
        await bench.make_payment(intent_id=intent_id)
    async for _ in bench.payments.statement():
        break
    await bench.make_payment(intent_id=3)
    assert len(await statement_lines(bench)) == 3


async def test_an_unreachable_document_store_has_no_statement() -> None:
    """The statement of an unreachable document store raises `OutcomeUnknown`."""
    statement: AsyncIterator[Movement] = make_bench_on_store(
        UnavailableDocumentStore()
    ).payments.statement()
    with pytest.raises(OutcomeUnknown):
        await anext(statement)


ACTIONS = st.one_of(
    st.tuples(st.just("refund"), st.sampled_from([None, *REFUND_PROGRESSIONS])),
    st.tuples(st.just("pay_out"), st.none()),
    st.tuples(st.just("reverse"), st.none()),
    st.tuples(st.just("claim"), st.sampled_from(ChargebackStatus)),
    st.tuples(st.just("wait"), st.none()),
)


def apply_action(intent: FakeIntent, action: str, how: str | None) -> FakeIntent:
    match action:
        case "refund":
            return refund_intent(intent, 100, REFUND_PROGRESSIONS.get(str(how)))
        case "pay_out":
            return pay_out_intent(intent, 200)
        case "reverse":
            return reverse_intent_payout(intent, 50, f"fpo_{intent.id}_1")
        case "claim":
            return machine.chargeback(intent, ChargebackStatus(str(how)))
    return machine.advance_to(intent, NOW + DELAYED_EFFECT_PERIOD)


@given(st.lists(ACTIONS, max_size=15))
def test_lines_add_up_to_the_balance(actions: list[tuple[str, str | None]]) -> None:
    """After any actions the lines add up to the balance, and no line occurs twice."""
    intent, found = intent_with_payment(fee_ppm=29_000), list[Movement]()
    found.extend(machine.movements(FakeIntent(7), intent, NOW))
    for action, how in actions:
        before = intent
        try:
            intent = apply_action(intent, action, how)
        except (ProcessorRefused, RuleBroken):
            continue
        found.extend(machine.movements(before, intent, NOW))
        assert sum(line.amount for line in found) == machine.balance(intent)
    assert len({(line.kind, line.ref) for line in found}) == len(found)
