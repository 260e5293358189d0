"""What every payment processor tells when it is asked, or tells by itself: events, changes,
the statement, payees and its own settings, in the words of the `Payments` port."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    BadSignature,
    Nudge,
    OpKey,
    OpKind,
    RefusalCode,
    Refused,
    ReversalState,
    ReversePayout,
    Unknown,
)
from staffbooking_core.domain.reconciliation.statement import Movement, theirs
from tests.money.processors import COMPANION, INTENT, ON_EACH, WITHIN, Bench, make_key, make_payee
from tests.support.builders import MINUTE, SECOND

pytestmark = [pytest.mark.anyio, ON_EACH]


async def _nudges(bench: Bench) -> Sequence[Nudge]:
    """Where the events that came in say to look."""
    return [
        nudge
        for headers, body in await bench.world.events()
        for nudge in bench.payments.parse_webhook(headers, body, bench.clock.wall())
    ]


async def _intents(bench: Bench, nudges: Sequence[Nudge]) -> set[int | None]:
    """The intents that nudges lead to, some of them by way of a payment."""
    return {
        await bench.payments.find_intent(nudge.payment_ref, WITHIN)
        if nudge.payment_ref
        else nudge.intent_id
        for nudge in nudges
        if nudge.payee_ref is None
    }


async def _reversed(bench: Bench, amount: int) -> ReversalState:
    payout = await bench.paid_out(await bench.paid(), 17_000)
    command = ReversePayout(1, amount, "usd")
    key = make_key(OpKind.REVERSE_PAYOUT)
    return await bench.payments.reverse_payout(command, payout.ref, key, WITHIN)


async def _statement(bench: Bench) -> list[Movement]:
    return [movement async for movement in bench.payments.statement()]


# By hand ------------------------------------------------------------------------------------


async def test_a_refund_by_hand_has_no_operation(bench: Bench) -> None:
    """What an operator gave back is found, and told from what we ordered."""
    payment = await bench.paid()
    ordered = await bench.refunded(payment, 1_000)
    await bench.world.refund_by_hand(payment, 2_000)
    found = (await bench.snapshot()).refunds
    assert {(each.amount, each.op_id) for each in found} == {(1_000, ordered.op_id), (2_000, None)}


async def test_a_reversal_by_hand_has_no_operation(bench: Bench) -> None:
    """What an operator took back of a payout is found, and told from what we ordered."""
    payout = await bench.paid_out(await bench.paid(), 17_000)
    await bench.world.reverse_by_hand(payout, 4_000)
    snapshot = await bench.snapshot()
    assert [(each.payout_ref, each.amount, each.op_id) for each in snapshot.reversals] == [
        (payout.ref, 4_000, None)
    ]
    assert [each.reversed for each in snapshot.payouts] == [4_000]


# A payment's intent -------------------------------------------------------------------------


async def test_a_payment_leads_to_its_intent(bench: Bench) -> None:
    """The intent of a payment of ours is known by the payment alone."""
    payment = await bench.paid(intent_id=34)
    assert await bench.payments.find_intent(payment.ref, WITHIN) == 34


async def test_an_unknown_payment_leads_nowhere(bench: Bench) -> None:
    """A payment that is none of ours has no intent, which is no error."""
    assert await bench.payments.find_intent("pi_none", WITHIN) is None


# Payees -------------------------------------------------------------------------------------


async def test_a_payee_becomes_ready(bench: Bench) -> None:
    """An account that lacks something says what, and nothing more when it is ready."""
    lacking = await bench.payee(ready=False)
    await bench.world.set_ready(lacking.ref, True)
    ready = await bench.payments.payee(lacking.ref, WITHIN)
    assert not lacking.ready
    assert lacking.needs
    assert ready == PayeeState(lacking.ref, ready=True)


async def test_a_payee_is_opened_once(bench: Bench) -> None:
    """The same key opens no second account."""
    key = OpKey(0, COMPANION, OpKind.OPEN_PAYEE, 1)
    first = await bench.payments.open_payee(make_payee(), key, WITHIN)
    assert (await bench.payments.open_payee(make_payee(), key, WITHIN)).ref == first.ref


async def test_a_lost_opening_is_repeated(bench: Bench) -> None:
    """An opening without an answer is sent again under its key, and is there."""
    key = OpKey(0, COMPANION, OpKind.OPEN_PAYEE, 1)
    await bench.world.break_next(OpKind.OPEN_PAYEE, "timeout_after")
    with pytest.raises(Unknown):
        await bench.payments.open_payee(make_payee(), key, WITHIN)
    opened = await bench.payments.open_payee(make_payee(), key, WITHIN)
    assert (await bench.payments.payee(opened.ref, WITHIN)).ref == opened.ref


async def test_an_unknown_payee_is_missing(bench: Bench) -> None:
    """Of an account that it never opened the processor says so."""
    with pytest.raises(Refused) as refused:
        await bench.payments.payee("acct_none", WITHIN)
    assert refused.value.reason is RefusalCode.MISSING


async def test_a_payee_gets_a_page(bench: Bench) -> None:
    """The page for the payee's details is good for a while."""
    payee = await bench.payee(ready=False)
    urls = ("http://test/profile", "http://test/profile/payouts")
    link = await bench.payments.onboarding_link(payee.ref, *urls, WITHIN)
    assert link.url.startswith("http")
    assert link.expires_at > bench.clock.wall() + MINUTE


async def test_a_ready_payee_sends_an_event(bench: Bench) -> None:
    """The bytes that come in point to the account that can be paid now."""
    payee = await bench.payee(ready=False)
    await bench.world.events()
    await bench.world.set_ready(payee.ref, True)
    assert {nudge.payee_ref for nudge in await _nudges(bench)} == {payee.ref}


# Events -------------------------------------------------------------------------------------


async def test_a_payment_sends_an_event(bench: Bench) -> None:
    """The bytes that come in point to the intent that was paid."""
    await bench.paid()
    nudges = [
        nudge
        for headers, body in await bench.world.events()
        for nudge in bench.payments.parse_webhook(headers, body, bench.clock.wall())
    ]
    assert {nudge.intent_id for nudge in nudges} == {INTENT}
    assert all(nudge.event_id for nudge in nudges)


async def test_header_names_have_no_case(bench: Bench) -> None:
    """The signature is found however the server spells the header's name."""
    await bench.paid()
    headers, body = (await bench.world.events())[-1]
    lower = {name.lower(): value for name, value in headers.items()}
    assert bench.payments.parse_webhook(lower, body, bench.clock.wall())


@pytest.mark.parametrize("minutes", [-6, 6])
async def test_an_event_holds_for_minutes(bench: Bench, minutes: int) -> None:
    """An event that is too old, or from the future, is refused."""
    await bench.paid()
    headers, body = (await bench.world.events())[0]
    with pytest.raises(BadSignature):
        bench.payments.parse_webhook(headers, body, bench.clock.wall() + minutes * MINUTE)


async def test_a_changed_event_is_refused(bench: Bench) -> None:
    """One byte more, and the signature does not fit."""
    await bench.paid()
    headers, body = (await bench.world.events())[0]
    with pytest.raises(BadSignature):
        bench.payments.parse_webhook(headers, body + b" ", bench.clock.wall())


async def test_an_unsigned_event_is_refused(bench: Bench) -> None:
    """Without a signature nothing is believed."""
    with pytest.raises(BadSignature):
        bench.payments.parse_webhook({}, b"{}", bench.clock.wall())


async def test_a_chargeback_sends_an_event(bench: Bench) -> None:
    """A bank that takes a payment back is heard of, by the payment if not by the intent."""
    await bench.paid()
    await bench.world.events()
    await bench.world.charge_back(INTENT, "open")
    assert await _intents(bench, await _nudges(bench)) == {INTENT}


async def test_a_refund_by_hand_sends_an_event(bench: Bench) -> None:
    """What an operator does without us is heard of all the same."""
    payment = await bench.paid()
    await bench.world.events()
    await bench.world.refund_by_hand(payment, 2_000)
    assert await _intents(bench, await _nudges(bench)) == {INTENT}


# Changes ------------------------------------------------------------------------------------


async def test_lost_events_are_asked_for(bench: Bench) -> None:
    """Where no event comes in, asking for the changes leads to the same intents."""
    await bench.paid()
    await bench.paid(intent_id=13)
    nudges, _ = await bench.payments.changes(None, WITHIN)
    assert await _intents(bench, nudges) == {INTENT, 13}


async def test_changes_go_on_from_the_cursor(bench: Bench) -> None:
    """From the cursor on what is new is told, and of what is older at most the last of it."""
    await bench.paid()
    _, cursor = await bench.payments.changes(None, WITHIN)
    bench.clock.advance(30 * MINUTE)
    await bench.paid(intent_id=13)
    first, following = await bench.payments.changes(cursor, WITHIN)
    bench.clock.advance(30 * MINUTE)
    await bench.paid(intent_id=14)
    second, _ = await bench.payments.changes(following, WITHIN)
    assert 13 in await _intents(bench, first)
    assert {14} <= await _intents(bench, second) <= {13, 14}


async def test_without_changes_the_cursor_holds(bench: Bench) -> None:
    """Where nothing ever happened nothing is told, and what happens then is."""
    nothing, cursor = await bench.payments.changes(None, WITHIN)
    bench.clock.advance(SECOND)
    await bench.paid()
    nudges, _ = await bench.payments.changes(cursor, WITHIN)
    assert not nothing
    assert await _intents(bench, nudges) == {INTENT}


# The statement ------------------------------------------------------------------------------


async def test_the_statement_has_each_movement(bench: Bench) -> None:
    """Payment, refund, payout and its reversal are lines, by their references."""
    reversal = await _reversed(bench, 4_000)
    [payment] = (await bench.snapshot()).payments
    refund = await bench.refunded(payment, 3_000)
    found = theirs(each for each in await _statement(bench) if each.kind is not MovementKind.FEE)
    assert found == {
        (MovementKind.PAYMENT, payment.ref): 20_000,
        (MovementKind.PAYOUT, reversal.payout_ref): -17_000,
        (MovementKind.REVERSAL, reversal.ref): 4_000,
        (MovementKind.REFUND, refund.ref): -3_000,
    }


async def test_the_statement_knows_whose_a_movement_is(bench: Bench) -> None:
    """Even what was done by hand, and what the bank took, belongs to the intent."""
    payment = await bench.paid()
    payout = await bench.paid_out(payment, 5_000)
    await bench.world.reverse_by_hand(payout, 1_000)
    await bench.world.refund_by_hand(payment, 2_000)
    await bench.world.charge_back(INTENT, "open")
    assert {each.intent_id for each in await _statement(bench)} == {INTENT}


async def test_the_statement_has_a_chargeback(bench: Bench) -> None:
    """What the bank took and gave back are two lines under the chargeback's reference."""
    payment = await bench.paid()
    await bench.world.charge_back(INTENT, "open")
    await bench.world.charge_back(INTENT, "won")
    [chargeback] = (await bench.snapshot()).chargebacks
    found = theirs(await _statement(bench))
    assert found[MovementKind.CHARGEBACK, chargeback.ref] == -payment.amount
    assert found[MovementKind.REINSTATEMENT, chargeback.ref] == payment.amount


async def test_the_statement_is_in_the_order_of_intents(bench: Bench) -> None:
    """All lines of one intent stand together, the lower number first, whatever came first."""
    for intent_id in (31, 7, 112):
        await bench.paid(intent_id=intent_id)
    late = (await bench.snapshot(7)).payments[0]
    await bench.refunded(late, 1_000, make_key(OpKind.REFUND, 7))
    whose = [each.intent_id or 0 for each in await _statement(bench)]
    assert set(whose) == {7, 31, 112}
    assert whose == sorted(whose)


async def test_the_statement_adds_up_to_the_balance(bench: Bench) -> None:
    """Nothing moves the platform's balance that is no line, fees included."""
    await _reversed(bench, 4_000)
    [payment] = (await bench.snapshot()).payments
    await bench.refunded(payment, 3_000)
    await bench.paid(intent_id=13)
    await bench.world.charge_back(13, "open")
    lines = await _statement(bench)
    assert sum(each.amount for each in lines) == await bench.world.balance() != 0


async def test_fees_are_the_statements(bench: Bench) -> None:
    """What the snapshot says that was kept are the fees of the statement, line by line."""
    await bench.paid()
    await bench.world.charge_back(INTENT, "open")
    fees = {(MovementKind.FEE, fee.ref): -fee.amount for fee in (await bench.snapshot()).fees}
    lines = [each for each in await _statement(bench) if each.kind is MovementKind.FEE]
    assert theirs(lines) == fees


# Settings -----------------------------------------------------------------------------------


async def test_a_good_setup_is_found_good(bench: Bench) -> None:
    """Each finding has a name of its own, and none finds fault."""
    found = await bench.payments.checkup(WITHIN)
    assert found
    assert [each for each in found if not each.ok] == []
    assert len({each.name for each in found}) == len(found)
