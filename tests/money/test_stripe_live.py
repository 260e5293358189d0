"""The processor contract on Stripe's test mode, run by hand with a key.

    STRIPE_TEST_KEY=sk_test_... python -m pytest -m stripe_live

All other tests use the stub, so these assumptions of the stub are tested only here:

- the refusals: of a payout to an account that is not ready, of more than a payment has left,
  of a refund while a chargeback is open;
- that a payout out of a payment passes while the payment's funds are pending;
- the movements of the balance that come with a payment, a refund, a chargeback, and the
  categories that the statement reads them by.

Cases that need a browser or a public address must be checked by hand, with `stripe listen`:
paying on the hosted page, an account that becomes ready, and its thin events.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from staffbooking_adapters.testing.processor import commands, keys, reads
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    PaymentProcessorContract,
    ProcessorBench,
    make_operation_key,
)
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    OperationKeyReused,
    OperationKind,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.domain.reconciliation.statement import processor_totals
from tests.money.stripe_live import (
    DISPUTED_CARD,
    StripeTestModeWorld,
    open_test_mode_bench,
    stripe_test_key,
)

pytestmark = [pytest.mark.anyio, pytest.mark.stripe_live]

POLLS = 30
"""The number of polls for a delayed effect, two seconds apart."""


@pytest.fixture
async def bench() -> AsyncIterator[ProcessorBench]:
    async with open_test_mode_bench(stripe_test_key(os.environ)) as live:
        yield live


async def _soon(happened: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(POLLS):
        if await happened():
            return
        await anyio.sleep(2)
    pytest.fail("Stripe takes longer than this test waits")


class TestStripeInTestMode(PaymentProcessorContract):
    """The part of the contract that needs neither a browser nor a broken network."""

    def open_bench(self, _: pytest.FixtureRequest) -> AbstractAsyncContextManager[ProcessorBench]:
        return open_test_mode_bench(stripe_test_key(os.environ))

    test_a_checkout_is_opened = commands.Checkouts.test_a_checkout_is_opened
    test_the_snapshot_has_the_checkout = commands.Checkouts.test_the_snapshot_has_the_checkout
    test_an_unknown_intent_is_empty = commands.Checkouts.test_an_unknown_intent_is_empty
    test_a_too_small_amount_is_refused = commands.Checkouts.test_a_too_small_amount_is_refused
    test_closing_twice_is_no_error = commands.Checkouts.test_closing_twice_is_no_error
    test_a_refund_is_known_by_its_operation = (
        commands.Refunds.test_a_refund_is_known_by_its_operation
    )
    test_refunds_do_not_exceed_the_payment = commands.Refunds.test_refunds_do_not_exceed_the_payment
    test_an_unknown_payment_is_not_refunded = (
        commands.Refunds.test_an_unknown_payment_is_not_refunded
    )
    test_an_unready_payee_is_not_paid = commands.Payouts.test_an_unready_payee_is_not_paid
    test_a_checkout_is_opened_once = keys.OperationKeys.test_a_checkout_is_opened_once
    test_a_refund_by_hand_has_no_operation = (
        reads.ChangesByHand.test_a_refund_by_hand_has_no_operation
    )
    test_an_intent_is_found_by_its_payment = reads.Intents.test_an_intent_is_found_by_its_payment
    test_an_unknown_payment_has_no_intent = reads.Intents.test_an_unknown_payment_has_no_intent
    test_a_payee_is_opened_once = reads.Payees.test_a_payee_is_opened_once
    test_an_unknown_payee_is_missing = reads.Payees.test_an_unknown_payee_is_missing
    test_a_payee_gets_a_page = reads.Payees.test_a_payee_gets_a_page


@pytest.mark.parametrize("kind", [OperationKind.OPEN_CHECKOUT, OperationKind.REFUND])
async def test_a_key_serves_one_command(bench: ProcessorBench, kind: OperationKind) -> None:
    """A repeat under the same key gets the first answer; another amount under it is refused."""
    trial = await keys.TRIALS[kind](bench)
    first = await trial.send()
    assert await trial.send() == first
    with pytest.raises(OperationKeyReused):
        await trial.changed["amount"](trial.key, CALL_TIMEOUT_SECONDS)


async def test_a_payment_is_in_the_listed_events(bench: ProcessorBench) -> None:
    """A payment is in the listed events within a minute."""
    await bench.make_payment()

    async def listed() -> bool:
        events, _ = await bench.payments.list_events(None, CALL_TIMEOUT_SECONDS)
        return INTENT_ID in {event.intent_id for event in events}

    await _soon(listed)


async def test_a_chargeback_prevents_a_refund(bench: ProcessorBench) -> None:
    """A disputed payment has an open chargeback and a second fee, and its refund is refused."""
    assert isinstance(bench.outside_world, StripeTestModeWorld)
    await bench.outside_world.charge(await bench.open_checkout(), DISPUTED_CARD)

    async def disputed() -> bool:
        return bool((await bench.snapshot()).chargebacks)

    await _soon(disputed)
    snapshot = await bench.snapshot()
    [found], [payment] = snapshot.chargebacks, snapshot.payments
    with pytest.raises(ProcessorRefused) as refused:
        await bench.refund(payment, 1_000)
    assert (found.status, found.amount) == (ChargebackStatus.OPEN, payment.amount)
    assert refused.value.reason is RefusalCode.DISPUTED
    assert len(snapshot.fees) == 2


async def test_the_statement_has_payment_and_refund(bench: ProcessorBench) -> None:
    """The statement has the lines of a payment and its refund by their references."""
    payment = await bench.make_payment()
    refund = await bench.refund(payment, 3_000, make_operation_key(OperationKind.REFUND))
    lines = [each async for each in bench.payments.statement() if each.intent_id == INTENT_ID]
    found = processor_totals(each for each in lines if each.kind is not MovementKind.FEE)
    assert found == {
        (MovementKind.PAYMENT, payment.ref): payment.amount,
        (MovementKind.REFUND, refund.ref): -3_000,
    }
