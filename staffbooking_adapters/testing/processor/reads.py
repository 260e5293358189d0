"""The contract of `PaymentProcessor` for reads: snapshots, payees, events, the statement and the
checkup."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staffbooking_adapters.testing.builders import MINUTE, SECOND
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    INTENT_ID,
    PaymentProcessorContract,
    ProcessorBench,
    make_operation_key,
    make_payee_command,
)
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    BadEventSignature,
    OperationKey,
    OperationKind,
    OutcomeUnknown,
    ProcessorEvent,
    ProcessorRefused,
    RefusalCode,
    ReversalState,
    ReversePayout,
)
from staffbooking_core.domain.reconciliation.statement import Movement, processor_totals


async def _received_events(bench: ProcessorBench) -> Sequence[ProcessorEvent]:
    """The processor events in the webhooks that are due."""
    return [
        event
        for headers, body in await bench.outside_world.events()
        for event in bench.payments.parse_webhook(headers, body, bench.clock.wall())
    ]


async def _intents(bench: ProcessorBench, events: Sequence[ProcessorEvent]) -> set[int | None]:
    """The intents of processor events, found by the payment if an event has no intent."""
    return {
        await bench.payments.find_intent(event.payment_ref, CALL_TIMEOUT_SECONDS)
        if event.payment_ref
        else event.intent_id
        for event in events
        if event.payee_ref is None
    }


async def _reversed(bench: ProcessorBench, amount: int) -> ReversalState:
    payout = await bench.pay_out(await bench.make_payment(), 17_000)
    command = ReversePayout(1, amount, "usd")
    key = make_operation_key(OperationKind.REVERSE_PAYOUT)
    return await bench.payments.reverse_payout(command, payout.ref, key, CALL_TIMEOUT_SECONDS)


async def _statement(bench: ProcessorBench) -> list[Movement]:
    return [movement async for movement in bench.payments.statement()]


class ChangesByHand(PaymentProcessorContract):
    """What was done by hand at the processor is told apart from what the service ordered."""

    async def test_a_refund_by_hand_has_no_operation(self, bench: ProcessorBench) -> None:
        """A refund by hand is in the snapshot without an operation, unlike an ordered one."""
        payment = await bench.make_payment()
        ordered = await bench.refund(payment, 1_000)
        await bench.outside_world.refund_by_hand(payment, 2_000)
        found = (await bench.snapshot()).refunds
        assert {(each.amount, each.op_id) for each in found} == {
            (1_000, ordered.op_id),
            (2_000, None),
        }

    async def test_a_reversal_by_hand_has_no_operation(self, bench: ProcessorBench) -> None:
        """A reversal by hand is in the snapshot without an operation and counts for its payout."""
        payout = await bench.pay_out(await bench.make_payment(), 17_000)
        await bench.outside_world.reverse_by_hand(payout, 4_000)
        snapshot = await bench.snapshot()
        assert [(each.payout_ref, each.amount, each.op_id) for each in snapshot.reversals] == [
            (payout.ref, 4_000, None)
        ]
        assert [each.reversed for each in snapshot.payouts] == [4_000]


class Intents(PaymentProcessorContract):
    """The intent of a payment is found again."""

    async def test_an_intent_is_found_by_its_payment(self, bench: ProcessorBench) -> None:
        """An intent is found by its payment's reference."""
        payment = await bench.make_payment(intent_id=34)
        assert await bench.payments.find_intent(payment.ref, CALL_TIMEOUT_SECONDS) == 34

    async def test_an_unknown_payment_has_no_intent(self, bench: ProcessorBench) -> None:
        """An unknown payment has no intent."""
        assert await bench.payments.find_intent("pi_none", CALL_TIMEOUT_SECONDS) is None


class Payees(PaymentProcessorContract):
    """Accounts of payees, and the pages where they complete them."""

    async def test_a_payee_becomes_ready(self, bench: ProcessorBench) -> None:
        """An account that is not ready has needs, and a ready one has none."""
        lacking = await bench.open_payee(ready=False)
        await bench.outside_world.set_ready(lacking.ref, True)
        ready = await bench.payments.payee(lacking.ref, CALL_TIMEOUT_SECONDS)
        assert not lacking.ready
        assert lacking.needs
        assert ready == PayeeState(lacking.ref, ready=True)

    async def test_a_payee_is_opened_once(self, bench: ProcessorBench) -> None:
        """A repeat under the same key returns the first account."""
        key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
        first = await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
        assert (
            await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
        ).ref == first.ref

    async def test_a_lost_opening_is_repeated(self, bench: ProcessorBench) -> None:
        """A repeat after a lost answer returns an account that can be read."""
        key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
        await bench.outside_world.break_next(OperationKind.OPEN_PAYEE, "timeout_after")
        with pytest.raises(OutcomeUnknown):
            await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
        opened = await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
        assert (await bench.payments.payee(opened.ref, CALL_TIMEOUT_SECONDS)).ref == opened.ref

    async def test_an_unknown_payee_is_missing(self, bench: ProcessorBench) -> None:
        """A read of an unknown account is refused as missing."""
        with pytest.raises(ProcessorRefused) as refused:
            await bench.payments.payee("acct_none", CALL_TIMEOUT_SECONDS)
        assert refused.value.reason is RefusalCode.MISSING

    async def test_a_payee_gets_a_page(self, bench: ProcessorBench) -> None:
        """An onboarding link has a URL and is valid for more than a minute."""
        payee = await bench.open_payee(ready=False)
        urls = ("http://test/profile", "http://test/profile/payouts")
        link = await bench.payments.onboarding_link(payee.ref, *urls, CALL_TIMEOUT_SECONDS)
        assert link.url.startswith("http")
        assert link.expires_at > bench.clock.wall() + MINUTE

    async def test_a_ready_payee_sends_an_event(self, bench: ProcessorBench) -> None:
        """An account that becomes ready sends an event that names it."""
        payee = await bench.open_payee(ready=False)
        await bench.outside_world.events()
        await bench.outside_world.set_ready(payee.ref, True)
        assert {event.payee_ref for event in await _received_events(bench)} == {payee.ref}


class Webhooks(PaymentProcessorContract):
    """Signed webhooks."""

    async def test_a_payment_sends_an_event(self, bench: ProcessorBench) -> None:
        """A payment sends events with ids that name its intent."""
        await bench.make_payment()
        events = [
            event
            for headers, body in await bench.outside_world.events()
            for event in bench.payments.parse_webhook(headers, body, bench.clock.wall())
        ]
        assert {event.intent_id for event in events} == {INTENT_ID}
        assert all(event.event_id for event in events)

    async def test_header_names_have_no_case(self, bench: ProcessorBench) -> None:
        """An event with a lower-case signature header is accepted."""
        await bench.make_payment()
        headers, body = (await bench.outside_world.events())[-1]
        lower = {name.lower(): value for name, value in headers.items()}
        assert bench.payments.parse_webhook(lower, body, bench.clock.wall())

    @pytest.mark.parametrize("minutes", [-6, 6])
    async def test_an_event_is_valid_for_minutes(self, bench: ProcessorBench, minutes: int) -> None:
        """An event six minutes old or in the future is refused."""
        await bench.make_payment()
        headers, body = (await bench.outside_world.events())[0]
        with pytest.raises(BadEventSignature):
            bench.payments.parse_webhook(headers, body, bench.clock.wall() + minutes * MINUTE)

    async def test_a_changed_event_is_refused(self, bench: ProcessorBench) -> None:
        """An event with one more byte is refused."""
        await bench.make_payment()
        headers, body = (await bench.outside_world.events())[0]
        with pytest.raises(BadEventSignature):
            bench.payments.parse_webhook(headers, body + b" ", bench.clock.wall())

    async def test_an_unsigned_event_is_refused(self, bench: ProcessorBench) -> None:
        """An event without a signature is refused."""
        with pytest.raises(BadEventSignature):
            bench.payments.parse_webhook({}, b"{}", bench.clock.wall())

    async def test_a_chargeback_sends_an_event(self, bench: ProcessorBench) -> None:
        """A chargeback sends events that lead to its intent."""
        await bench.make_payment()
        await bench.outside_world.events()
        await bench.outside_world.charge_back(INTENT_ID, "open")
        assert await _intents(bench, await _received_events(bench)) == {INTENT_ID}

    async def test_a_refund_by_hand_sends_an_event(self, bench: ProcessorBench) -> None:
        """A refund by hand sends events that lead to its intent."""
        payment = await bench.make_payment()
        await bench.outside_world.events()
        await bench.outside_world.refund_by_hand(payment, 2_000)
        assert await _intents(bench, await _received_events(bench)) == {INTENT_ID}


class EventLists(PaymentProcessorContract):
    """Events are listed too, so that lost webhooks are recovered."""

    async def test_lost_events_are_listed(self, bench: ProcessorBench) -> None:
        """The listed events lead to all paid intents, though no webhook was received."""
        await bench.make_payment()
        await bench.make_payment(intent_id=13)
        events, _ = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
        assert await _intents(bench, events) == {INTENT_ID, 13}

    async def test_changes_are_listed_from_the_cursor(self, bench: ProcessorBench) -> None:
        """A cursor lists later events, and repeats no events older than the previous page."""
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

    async def test_the_cursor_of_an_empty_list_works(self, bench: ProcessorBench) -> None:
        """Without events the list is empty, and its cursor lists the next event."""
        nothing, cursor = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
        bench.clock.advance(SECOND)
        await bench.make_payment()
        events, _ = await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)
        assert not nothing
        assert await _intents(bench, events) == {INTENT_ID}


class Statements(PaymentProcessorContract):
    """The statement has every movement of the balance."""

    async def test_the_statement_has_each_movement(self, bench: ProcessorBench) -> None:
        """Payment, refund, payout and reversal are lines with their references."""
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

    async def test_each_line_has_its_intent(self, bench: ProcessorBench) -> None:
        """Movements by hand and a chargeback have lines with the intent."""
        payment = await bench.make_payment()
        payout = await bench.pay_out(payment, 5_000)
        await bench.outside_world.reverse_by_hand(payout, 1_000)
        await bench.outside_world.refund_by_hand(payment, 2_000)
        await bench.outside_world.charge_back(INTENT_ID, "open")
        assert {each.intent_id for each in await _statement(bench)} == {INTENT_ID}

    async def test_the_statement_has_a_chargeback(self, bench: ProcessorBench) -> None:
        """A won chargeback has two lines with its reference, one out and one back."""
        payment = await bench.make_payment()
        await bench.outside_world.charge_back(INTENT_ID, "open")
        await bench.outside_world.charge_back(INTENT_ID, "won")
        [chargeback] = (await bench.snapshot()).chargebacks
        found = processor_totals(await _statement(bench))
        assert found[MovementKind.CHARGEBACK, chargeback.ref] == -payment.amount
        assert found[MovementKind.REINSTATEMENT, chargeback.ref] == payment.amount

    async def test_the_statement_is_ordered_by_intent(self, bench: ProcessorBench) -> None:
        """Lines are ordered by intent id, not by time."""
        for intent_id in (31, 7, 112):
            await bench.make_payment(intent_id=intent_id)
        late = (await bench.snapshot(7)).payments[0]
        await bench.refund(late, 1_000, make_operation_key(OperationKind.REFUND, 7))
        intents = [each.intent_id or 0 for each in await _statement(bench)]
        assert set(intents) == {7, 31, 112}
        assert intents == sorted(intents)

    async def test_the_statement_adds_up_to_the_balance(self, bench: ProcessorBench) -> None:
        """The lines, fees included, add up to the platform's balance."""
        await _reversed(bench, 4_000)
        [payment] = (await bench.snapshot()).payments
        await bench.refund(payment, 3_000)
        await bench.make_payment(intent_id=13)
        await bench.outside_world.charge_back(13, "open")
        lines = await _statement(bench)
        assert sum(each.amount for each in lines) == await bench.outside_world.balance() != 0

    async def test_fees_equal_the_statements(self, bench: ProcessorBench) -> None:
        """The fees in the snapshot are the fee lines of the statement."""
        await bench.make_payment()
        await bench.outside_world.charge_back(INTENT_ID, "open")
        fees = {(MovementKind.FEE, fee.ref): -fee.amount for fee in (await bench.snapshot()).fees}
        lines = [each for each in await _statement(bench) if each.kind is MovementKind.FEE]
        assert processor_totals(lines) == fees


class Checkups(PaymentProcessorContract):
    """The check of the account's settings."""

    async def test_a_correct_setup_is_in_order(self, bench: ProcessorBench) -> None:
        """A correct setup has findings with unique names, all in order."""
        found = await bench.payments.checkup(CALL_TIMEOUT_SECONDS)
        assert found
        assert [each for each in found if not each.ok] == []
        assert len({each.name for each in found}) == len(found)
