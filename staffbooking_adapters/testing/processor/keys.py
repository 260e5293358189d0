"""The contract of `PaymentProcessor` for every command alike: one key moves money at most once, and
what may have happened is never called a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import pytest
from attrs import evolve, frozen

from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    INTENT_ID,
    PaymentProcessorContract,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
    make_payee_command,
)
from staffbooking_core.domain.payments.processor import (
    CheckoutStatus,
    IntentRefs,
    OperationKey,
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    PayOut,
    ProcessorBusy,
    ProcessorRefused,
    RefundPayment,
    RefusalCode,
    ReversePayout,
)

Call: TypeAlias = Callable[[OperationKey, float], Awaitable[Any]]


@frozen
class Trial:
    """A command that is ready to be sent, with what it needs at the processor."""

    key: OperationKey
    call: Call
    changed: Mapping[str, Call]
    """The same command with something else changed, by what it is."""
    list_refs: Callable[[], Awaitable[list[str]]]
    """References of what the command has made, as a snapshot has them."""

    async def send(self, key: OperationKey | None = None) -> Any:
        return await self.call(key or self.key, CALL_TIMEOUT_SECONDS)


async def _try_opening_a_checkout(bench: ProcessorBench) -> Trial:
    key = make_operation_key(OperationKind.OPEN_CHECKOUT)

    def opening(amount: int) -> Call:
        command = make_checkout_command(amount, now=bench.clock.wall())
        return lambda key, seconds: bench.payments.open_checkout(command, key, seconds)

    async def list_refs() -> list[str]:
        return [each.ref for each in (await bench.snapshot()).checkouts]

    return Trial(key, opening(20_000), {"amount": opening(21_000)}, list_refs)


async def _try_closing_a_checkout(bench: ProcessorBench) -> Trial:
    page, other = await bench.open_checkout(), await bench.open_checkout()

    def closing(ref: str) -> Call:
        return lambda key, seconds: bench.payments.close_checkout(ref, key, seconds)

    async def list_refs() -> list[str]:
        pages = (await bench.snapshot()).checkouts
        return [each.ref for each in pages if each.status is CheckoutStatus.EXPIRED]

    key = make_operation_key(OperationKind.CLOSE_CHECKOUT)
    return Trial(key, closing(page.ref), {"page": closing(other.ref)}, list_refs)


async def _try_a_refund(bench: ProcessorBench) -> Trial:
    payment = await bench.make_payment()

    def refunding(amount: int) -> Call:
        command = RefundPayment(payment.ref, amount, payment.currency)
        return lambda key, seconds: bench.payments.refund(command, key, seconds)

    async def list_refs() -> list[str]:
        return [each.ref for each in (await bench.snapshot()).refunds]

    key = make_operation_key(OperationKind.REFUND)
    return Trial(key, refunding(5_000), {"amount": refunding(6_000)}, list_refs)


async def _try_a_payout(bench: ProcessorBench) -> Trial:
    payment, payee = await bench.make_payment(), await bench.open_payee()
    other_key = OperationKey(0, COMPANION_ID + 1, OperationKind.OPEN_PAYEE, 1)
    other = await bench.payments.open_payee(
        make_payee_command(COMPANION_ID + 1), other_key, CALL_TIMEOUT_SECONDS
    )
    command = PayOut(payment.ref, COMPANION_ID, 5_000, payment.currency, payee.ref)

    def paying(command: PayOut) -> Call:
        return lambda key, seconds: bench.payments.pay_out(command, key, seconds)

    async def list_refs() -> list[str]:
        return [each.ref for each in (await bench.snapshot()).payouts]

    changed = {
        "amount": paying(evolve(command, amount=6_000)),
        "payee": paying(evolve(command, payee_ref=other.ref)),
    }
    return Trial(make_operation_key(OperationKind.PAY_OUT), paying(command), changed, list_refs)


async def _try_a_reversal(bench: ProcessorBench) -> Trial:
    payment = await bench.make_payment()
    payout, other = [await bench.pay_out(payment, 9_000) for _ in range(2)]

    def reversing(ref: str, amount: int) -> Call:
        command = ReversePayout(1, amount, payment.currency)
        return lambda key, seconds: bench.payments.reverse_payout(command, ref, key, seconds)

    async def list_refs() -> list[str]:
        return [each.ref for each in (await bench.snapshot()).reversals]

    changed = {"amount": reversing(payout.ref, 4_000), "payout": reversing(other.ref, 3_000)}
    key = make_operation_key(OperationKind.REVERSE_PAYOUT)
    return Trial(key, reversing(payout.ref, 3_000), changed, list_refs)


async def _try_opening_a_payee(bench: ProcessorBench) -> Trial:
    command = make_payee_command()

    def opening(name: str) -> Call:
        named = evolve(command, name=name)
        return lambda key, seconds: bench.payments.open_payee(named, key, seconds)

    async def list_refs() -> list[str]:
        return []  # No read lists payees.

    key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
    return Trial(key, opening(command.name), {"name": opening("Mia Berg")}, list_refs)


TRIALS: Mapping[OperationKind, Callable[[ProcessorBench], Awaitable[Trial]]] = {
    OperationKind.OPEN_CHECKOUT: _try_opening_a_checkout,
    OperationKind.CLOSE_CHECKOUT: _try_closing_a_checkout,
    OperationKind.REFUND: _try_a_refund,
    OperationKind.PAY_OUT: _try_a_payout,
    OperationKind.REVERSE_PAYOUT: _try_a_reversal,
    OperationKind.OPEN_PAYEE: _try_opening_a_payee,
}
MOVEMENTS = (OperationKind.REFUND, OperationKind.PAY_OUT, OperationKind.REVERSE_PAYOUT)
IN_SNAPSHOTS = (*MOVEMENTS, OperationKind.CLOSE_CHECKOUT)
"""The commands whose effect a snapshot has, whether or not the answer came."""
CHANGES = (
    (OperationKind.OPEN_CHECKOUT, "amount"),
    (OperationKind.CLOSE_CHECKOUT, "page"),
    (OperationKind.REFUND, "amount"),
    (OperationKind.PAY_OUT, "amount"),
    (OperationKind.PAY_OUT, "payee"),
    (OperationKind.REVERSE_PAYOUT, "amount"),
    (OperationKind.REVERSE_PAYOUT, "payout"),
    (OperationKind.OPEN_PAYEE, "name"),
)
NOT_EXECUTED_ERRORS = {
    "timeout_before": OutcomeUnknown,
    "error_500": OutcomeUnknown,
    "rate_limit": ProcessorBusy,
    "conflict": ProcessorBusy,
}
READS: Mapping[str, Callable[[ProcessorBench], Awaitable[Any]]] = {
    "payee": lambda bench: bench.payments.payee("acct_none", 0),
    "onboarding_link": lambda bench: bench.payments.onboarding_link(
        "acct_none", "http://test/done", "http://test/again", 0
    ),
    "snapshot": lambda bench: bench.payments.snapshot(IntentRefs(INTENT_ID), 0),
    "find_intent": lambda bench: bench.payments.find_intent("fpay_12_1", 0),
    "list_events": lambda bench: bench.payments.list_events(None, 0),
    "checkup": lambda bench: bench.payments.checkup(0),
}


class OperationKeys(PaymentProcessorContract):
    """The same key with the same command never moves money twice."""

    @pytest.mark.parametrize("kind", TRIALS)
    async def test_the_same_key_answers_the_same(
        self, bench: ProcessorBench, kind: OperationKind
    ) -> None:
        """A repeat under the same key gets the first answer."""
        trial = await TRIALS[kind](bench)
        first = await trial.send()
        assert await trial.send() == first

    @pytest.mark.parametrize("kind", IN_SNAPSHOTS)
    async def test_the_same_key_moves_money_once(
        self, bench: ProcessorBench, kind: OperationKind
    ) -> None:
        """A repeat under the same key makes no second refund, payout or reversal, and closes no
        second page."""
        trial = await TRIALS[kind](bench)
        answers = [await trial.send(), await trial.send()]
        assert await trial.list_refs() == [answers[0].ref]

    async def test_a_checkout_is_opened_once(self, bench: ProcessorBench) -> None:
        """A repeat under the same key gets the first checkout and opens no second."""
        key = make_operation_key(OperationKind.OPEN_CHECKOUT)
        first = await bench.open_checkout(key)
        assert await bench.open_checkout(key) == first
        assert len((await bench.snapshot()).checkouts) == 1

    @pytest.mark.parametrize("kind", MOVEMENTS)
    async def test_a_refusal_is_repeated(self, bench: ProcessorBench, kind: OperationKind) -> None:
        """A refusal is repeated under its key, and the key of the next generation succeeds."""
        trial = await TRIALS[kind](bench)
        await bench.outside_world.break_next(kind, "refuse:insufficient_funds")
        for _ in range(2):
            with pytest.raises(ProcessorRefused) as refused:
                await trial.send()
            assert refused.value.reason is RefusalCode.INSUFFICIENT_FUNDS
        following = evolve(trial.key, generation=2)
        assert (await trial.send(following)).op_id == trial.key.op_id

    @pytest.mark.parametrize(("kind", "change"), CHANGES)
    async def test_a_key_serves_one_command(
        self, bench: ProcessorBench, kind: OperationKind, change: str
    ) -> None:
        """The same key with another amount, page, payout, payee or name raises
        `OperationKeyReused`."""
        trial = await TRIALS[kind](bench)
        await trial.send()
        with pytest.raises(OperationKeyReused):
            await trial.changed[change](trial.key, CALL_TIMEOUT_SECONDS)

    @pytest.mark.parametrize("kind", MOVEMENTS)
    async def test_one_of_many_calls_at_once_is_executed(
        self, bench: ProcessorBench, kind: OperationKind
    ) -> None:
        """Sixteen concurrent calls under one key make one refund, payout or reversal; each returns
        it or is busy."""
        trial, answers = await TRIALS[kind](bench), set()

        async def call() -> None:
            try:
                answers.add((await trial.send()).ref)
            except ProcessorBusy:
                answers.add(None)

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(call)
        [ref] = await trial.list_refs()
        assert {ref} <= answers <= {ref, None}


class Faults(PaymentProcessorContract):
    """A call that may have been executed is unknown, never failed."""

    @pytest.mark.parametrize("fault", NOT_EXECUTED_ERRORS)
    @pytest.mark.parametrize("kind", TRIALS)
    async def test_a_call_that_was_not_executed(
        self, bench: ProcessorBench, kind: OperationKind, fault: str
    ) -> None:
        """A call that was not executed raises `OutcomeUnknown` or `ProcessorBusy`, as no error but
        a `ProcessorError` may escape, and makes nothing."""
        trial = await TRIALS[kind](bench)
        await bench.outside_world.break_next(kind, fault)
        with pytest.raises(NOT_EXECUTED_ERRORS[fault]):
            await trial.send()
        assert await trial.list_refs() == []

    @pytest.mark.parametrize("fault", ["timeout_after", "error_500_after"])
    @pytest.mark.parametrize("kind", TRIALS)
    async def test_a_call_whose_answer_was_lost(
        self, bench: ProcessorBench, kind: OperationKind, fault: str
    ) -> None:
        """A call whose answer was lost raises `OutcomeUnknown`: no error of the network, and none
        but a `ProcessorError`, may escape. The snapshot has what it made."""
        trial = await TRIALS[kind](bench)
        await bench.outside_world.break_next(kind, fault)
        with pytest.raises(OutcomeUnknown):
            await trial.send()
        assert kind not in IN_SNAPSHOTS or len(await trial.list_refs()) == 1

    async def test_a_refund_whose_answer_was_lost(self, bench: ProcessorBench) -> None:
        """A refund whose answer was lost is in the snapshot with its amount and the operation's
        id."""
        payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
        await bench.outside_world.break_next(OperationKind.REFUND, "timeout_after")
        with pytest.raises(OutcomeUnknown):
            await bench.refund(payment, 5_000, key)
        [refund] = (await bench.snapshot()).refunds
        assert (refund.amount, refund.op_id) == (5_000, key.op_id)

    @pytest.mark.parametrize("fault", ["timeout_before", "timeout_after", "rate_limit", "conflict"])
    @pytest.mark.parametrize("kind", IN_SNAPSHOTS)
    async def test_a_repeat_succeeds(
        self, bench: ProcessorBench, kind: OperationKind, fault: str
    ) -> None:
        """A repeat under the same key after an unknown or busy call is answered with what was made,
        which is there once."""
        trial = await TRIALS[kind](bench)
        await bench.outside_world.break_next(kind, fault)
        with pytest.raises((OutcomeUnknown, ProcessorBusy)):
            await trial.send()
        answer = await trial.send()
        assert await trial.list_refs() == [answer.ref]

    @pytest.mark.parametrize("kind", TRIALS)
    async def test_a_command_without_time_is_unknown(
        self, bench: ProcessorBench, kind: OperationKind
    ) -> None:
        """A command without time raises `OutcomeUnknown`; `ProcessorBusy` if nothing was sent."""
        trial = await TRIALS[kind](bench)
        with pytest.raises((OutcomeUnknown, ProcessorBusy)):
            await trial.call(trial.key, 0)

    @pytest.mark.parametrize("read", READS)
    async def test_a_read_without_time_is_unknown(self, bench: ProcessorBench, read: str) -> None:
        """A read without time raises `OutcomeUnknown`."""
        with pytest.raises(OutcomeUnknown):
            await READS[read](bench)
