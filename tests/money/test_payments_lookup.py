"""What every payment processor tells when it is asked, or tells by itself: events, changes,
the statement, payees and its own settings, in the words of the `Payments` port."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    BadEventSignature,
    OperationKey,
    OperationKind,
    ProcessorEvent,
    ProcessorRefused,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Unknown,
)
from staffbooking_core.domain.reconciliation.statement import Movement, processor_totals
from tests.money.processors import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    INTENT_ID,
    ON_EACH_PROCESSOR,
    ProcessorBench,
    make_operation_key,
    make_payee_command,
)
from tests.support.builders import MINUTE, SECOND

pytestmark = [pytest.mark.anyio, ON_EACH_PROCESSOR]


async def _nudges(bench: ProcessorBench) -> Sequence[ProcessorEvent]:
    """Where the events that came in say to look."""
    return [
        nudge
        for headers, body in await bench.outside_world.events()
        for nudge in bench.payments.parse_webhook(headers, body, bench.clock.wall())
    ]


async def _intents(bench: ProcessorBench, nudges: Sequence[ProcessorEvent]) -> set[int | None]:
    """The intents that nudges lead to, some of them by way of a payment."""
    return {
        await bench.payments.find_intent(nudge.payment_ref, CALL_TIMEOUT_SECONDS)
        if nudge.payment_ref
        else nudge.intent_id
        for nudge in nudges
        if nudge.payee_ref is None
    }


async def _reversed(bench: ProcessorBench, amount: int) -> ReversalState:
    payout = await bench.pay_out(await bench.make_payment(), 17_000)
    command = ReversePayout(1, amount, "usd")
    key = make_operation_key(OperationKind.REVERSE_PAYOUT)
    return await bench.payments.reverse_payout(command, payout.ref, key, CALL_TIMEOUT_SECONDS)


async def _statement(bench: ProcessorBench) -> list[Movement]:
    return [movement async for movement in bench.payments.statement()]


# By hand ------------------------------------------------------------------------------------


async def test_a_refund_by_hand_has_no_operation(bench: ProcessorBench) -> None:
    """What an operator gave back is found, and told from what we ordered."""
    payment = await bench.make_payment()
    ordered = await bench.refund(payment, 1_000)
    await bench.outside_world.refund_by_hand(payment, 2_000)
    found = (await bench.snapshot()).refunds
    assert {(each.amount, each.op_id) for each in found} == {(1_000, ordered.op_id), (2_000, None)}


async def test_a_reversal_by_hand_has_no_operation(bench: ProcessorBench) -> None:
    """What an operator took back of a payout is found, and told from what we ordered."""
    payout = await bench.pay_out(await bench.make_payment(), 17_000)
    await bench.outside_world.reverse_by_hand(payout, 4_000)
    snapshot = await bench.snapshot()
    assert [(each.payout_ref, each.amount, each.op_id) for each in snapshot.reversals] == [
        (payout.ref, 4_000, None)
    ]
    assert [each.reversed for each in snapshot.payouts] == [4_000]


# A payment's intent -------------------------------------------------------------------------


async def test_a_payment_leads_to_its_intent(bench: ProcessorBench) -> None:
    """The intent of a payment of ours is known by the payment alone."""
    payment = await bench.make_payment(intent_id=34)
    assert await bench.payments.find_intent(payment.ref, CALL_TIMEOUT_SECONDS) == 34


async def test_an_unknown_payment_leads_nowhere(bench: ProcessorBench) -> None:
    """A payment that is none of ours has no intent, which is no error."""
    assert await bench.payments.find_intent("pi_none", CALL_TIMEOUT_SECONDS) is None


# Payees -------------------------------------------------------------------------------------


async def test_a_payee_becomes_ready(bench: ProcessorBench) -> None:
    """An account that lacks something says what, and nothing more when it is ready."""
    lacking = await bench.open_payee(ready=False)
    await bench.outside_world.set_ready(lacking.ref, True)
    ready = await bench.payments.payee(lacking.ref, CALL_TIMEOUT_SECONDS)
    assert not lacking.ready
    assert lacking.needs
    assert ready == PayeeState(lacking.ref, ready=True)


async def test_a_payee_is_opened_once(bench: ProcessorBench) -> None:
    """The same key opens no second account."""
    key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
    first = await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    assert (
        await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    ).ref == first.ref


async def test_a_lost_opening_is_repeated(bench: ProcessorBench) -> None:
    """An opening without an answer is sent again under its key, and is there."""
    key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
    await bench.outside_world.break_next(OperationKind.OPEN_PAYEE, "timeout_after")
    with pytest.raises(Unknown):
        await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    opened = await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    assert (await bench.payments.payee(opened.ref, CALL_TIMEOUT_SECONDS)).ref == opened.ref


async def test_an_unknown_payee_is_missing(bench: ProcessorBench) -> None:
    """Of an account that it never opened the processor says so."""
    with pytest.raises(ProcessorRefused) as refused:
        await bench.payments.payee("acct_none", CALL_TIMEOUT_SECONDS)
    assert refused.value.reason is RefusalCode.MISSING


async def test_a_payee_gets_a_page(bench: ProcessorBench) -> None:
    """The page for the payee's details is good for a while."""
    payee = await bench.open_payee(ready=False)
    urls = ("http://test/profile", "http://test/profile/payouts")
    link = await bench.payments.onboarding_link(payee.ref, *urls, CALL_TIMEOUT_SECONDS)
    assert link.url.startswith("http")
    assert link.expires_at > bench.clock.wall() + MINUTE


async def test_a_ready_payee_sends_an_event(bench: ProcessorBench) -> None:
    """The bytes that come in point to the account that can be paid now."""
    payee = await bench.open_payee(ready=False)
    await bench.outside_world.events()
    await bench.outside_world.set_ready(payee.ref, True)
    assert {nudge.payee_ref for nudge in await _nudges(bench)} == {payee.ref}


# Events -------------------------------------------------------------------------------------


async def test_a_payment_sends_an_event(bench: ProcessorBench) -> None:
    """The bytes that come in point to the intent that was paid."""
    await bench.make_payment()
    nudges = [
        nudge
        for headers, body in await bench.outside_world.events()
        for nudge in bench.payments.parse_webhook(headers, body, bench.clock.wall())
    ]
    assert {nudge.intent_id for nudge in nudges} == {INTENT_ID}
    assert all(nudge.event_id for nudge in nudges)


async def test_header_names_have_no_case(bench: ProcessorBench) -> None:
    """The signature is found however the server spells the header's name."""
    await bench.make_payment()
    headers, body = (await bench.outside_world.events())[-1]
    lower = {name.lower(): value for name, value in headers.items()}
    assert bench.payments.parse_webhook(lower, body, bench.clock.wall())


@pytest.mark.parametrize("minutes", [-6, 6])
async def test_an_event_holds_for_minutes(bench: ProcessorBench, minutes: int) -> None:
    """An event that is too old, or from the future, is refused."""
    await bench.make_payment()
    headers, body = (await bench.outside_world.events())[0]
    with pytest.raises(BadEventSignature):
        bench.payments.parse_webhook(headers, body, bench.clock.wall() + minutes * MINUTE)


async def test_a_changed_event_is_refused(bench: ProcessorBench) -> None:
    """One byte more, and the signature does not fit."""
    await bench.make_payment()
    headers, body = (await bench.outside_world.events())[0]
    with pytest.raises(BadEventSignature):
        bench.payments.parse_webhook(headers, body + b" ", bench.clock.wall())


async def test_an_unsigned_event_is_refused(bench: ProcessorBench) -> None:
    """Without a signature nothing is believed."""
    with pytest.raises(BadEventSignature):
        bench.payments.parse_webhook({}, b"{}", bench.clock.wall())


async def test_a_chargeback_sends_an_event(bench: ProcessorBench) -> None:
    """A bank that takes a payment back is heard of, by the payment if not by the intent."""
    await bench.make_payment()
    await bench.outside_world.events()
    await bench.outside_world.charge_back(INTENT_ID, "open")
    assert await _intents(bench, await _nudges(bench)) == {INTENT_ID}


async def test_a_refund_by_hand_sends_an_event(bench: ProcessorBench) -> None:
    """What an operator does without us is heard of all the same."""
    payment = await bench.make_payment()
    await bench.outside_world.events()
    await bench.outside_world.refund_by_hand(payment, 2_000)
    assert await _intents(bench, await _nudges(bench)) == {INTENT_ID}


# Changes ------------------------------------------------------------------------------------


async def test_lost_events_are_asked_for(bench: ProcessorBench) -> None:
    """Where no event comes in, asking for the changes leads to the same intents."""
    await bench.make_payment()
    await bench.make_payment(intent_id=13)
    nudges, _ = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
    assert await _intents(bench, nudges) == {INTENT_ID, 13}


async def test_changes_go_on_from_the_cursor(bench: ProcessorBench) -> None:
    """From the cursor on what is new is told, and of what is older at most the last of it."""
    await bench.make_payment()
    _, cursor = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
    bench.clock.advance(30 * MINUTE)
    await bench.make_payment(intent_id=13)
    first, following = await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)
    bench.clock.advance(30 * MINUTE)
    await bench.make_payment(intent_id=14)
    second, _ = await bench.payments.list_events(following, CALL_TIMEOUT_SECONDS)
    assert 13 in await _intents(bench, first)
    assert {14} <= await _intents(bench, second) <= {13, 14}


async def test_without_changes_the_cursor_holds(bench: ProcessorBench) -> None:
    """Where nothing ever happened nothing is told, and what happens then is."""
    nothing, cursor = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
    bench.clock.advance(SECOND)
    await bench.make_payment()
    nudges, _ = await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)
    assert not nothing
    assert await _intents(bench, nudges) == {INTENT_ID}


# The statement ------------------------------------------------------------------------------


async def test_the_statement_has_each_movement(bench: ProcessorBench) -> None:
    """Payment, refund, payout and its reversal are lines, by their references."""
    reversal = await _reversed(bench, 4_000)
    [payment] = (await bench.snapshot()).payments
    refund = await bench.refund(payment, 3_000)
    found = processor_totals(
        each for each in await _statement(bench) if each.kind is not MovementKind.FEE
    )
    assert found == {
        (MovementKind.PAYMENT, payment.ref): 20_000,
        (MovementKind.PAYOUT, reversal.payout_ref): -17_000,
        (MovementKind.REVERSAL, reversal.ref): 4_000,
        (MovementKind.REFUND, refund.ref): -3_000,
    }


async def test_the_statement_knows_whose_a_movement_is(bench: ProcessorBench) -> None:
    """Even what was done by hand, and what the bank took, belongs to the intent."""
    payment = await bench.make_payment()
    payout = await bench.pay_out(payment, 5_000)
    await bench.outside_world.reverse_by_hand(payout, 1_000)
    await bench.outside_world.refund_by_hand(payment, 2_000)
    await bench.outside_world.charge_back(INTENT_ID, "open")
    assert {each.intent_id for each in await _statement(bench)} == {INTENT_ID}


async def test_the_statement_has_a_chargeback(bench: ProcessorBench) -> None:
    """What the bank took and gave back are two lines under the chargeback's reference."""
    payment = await bench.make_payment()
    await bench.outside_world.charge_back(INTENT_ID, "open")
    await bench.outside_world.charge_back(INTENT_ID, "won")
    [chargeback] = (await bench.snapshot()).chargebacks
    found = processor_totals(await _statement(bench))
    assert found[MovementKind.CHARGEBACK, chargeback.ref] == -payment.amount
    assert found[MovementKind.REINSTATEMENT, chargeback.ref] == payment.amount


async def test_the_statement_is_in_the_order_of_intents(bench: ProcessorBench) -> None:
    """All lines of one intent stand together, the lower number first, whatever came first."""
    for intent_id in (31, 7, 112):
        await bench.make_payment(intent_id=intent_id)
    late = (await bench.snapshot(7)).payments[0]
    await bench.refund(late, 1_000, make_operation_key(OperationKind.REFUND, 7))
    whose = [each.intent_id or 0 for each in await _statement(bench)]
    assert set(whose) == {7, 31, 112}
    assert whose == sorted(whose)


async def test_the_statement_adds_up_to_the_balance(bench: ProcessorBench) -> None:
    """Nothing moves the platform's balance that is no line, fees included."""
    await _reversed(bench, 4_000)
    [payment] = (await bench.snapshot()).payments
    await bench.refund(payment, 3_000)
    await bench.make_payment(intent_id=13)
    await bench.outside_world.charge_back(13, "open")
    lines = await _statement(bench)
    assert sum(each.amount for each in lines) == await bench.outside_world.balance() != 0


async def test_fees_are_the_statements(bench: ProcessorBench) -> None:
    """What the snapshot says that was kept are the fees of the statement, line by line."""
    await bench.make_payment()
    await bench.outside_world.charge_back(INTENT_ID, "open")
    fees = {(MovementKind.FEE, fee.ref): -fee.amount for fee in (await bench.snapshot()).fees}
    lines = [each for each in await _statement(bench) if each.kind is MovementKind.FEE]
    assert processor_totals(lines) == fees


# Settings -----------------------------------------------------------------------------------


async def test_a_good_setup_is_found_good(bench: ProcessorBench) -> None:
    """Each finding has a name of its own, and none finds fault."""
    found = await bench.payments.checkup(CALL_TIMEOUT_SECONDS)
    assert found
    assert [each for each in found if not each.ok] == []
    assert len({each.name for each in found}) == len(found)
