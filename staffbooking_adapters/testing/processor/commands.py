"""The contract of `PaymentProcessor` for commands: what each does, and what it refuses."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import HOUR, NOW, SECOND
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    INTENT_ID,
    PaymentProcessorContract,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    CheckoutStatus,
    OperationKind,
    PayOut,
    ProcessorRefused,
    RefundPayment,
    RefundStatus,
    RefusalCode,
    ReversePayout,
)


class Checkouts(PaymentProcessorContract):
    """Hosted checkout pages: opened, paid, declined, closed, expired."""

    async def test_a_checkout_is_opened(self, bench: ProcessorBench) -> None:
        """An opened checkout has a URL, the command's expiry and the operation's id."""
        key = make_operation_key(OperationKind.OPEN_CHECKOUT)
        checkout = await bench.open_checkout(key)
        assert checkout.url.startswith("http")
        assert (checkout.status, checkout.op_id) == (CheckoutStatus.OPEN, key.op_id)
        assert checkout.expires_at == make_checkout_command().expires_at

    async def test_the_snapshot_has_the_checkout(self, bench: ProcessorBench) -> None:
        """A snapshot has the opened checkout."""
        checkout = await bench.open_checkout()
        snapshot = await bench.snapshot()
        assert snapshot.checkouts == (checkout,)

    async def test_an_unknown_intent_is_empty(self, bench: ProcessorBench) -> None:
        """The snapshot of an unknown intent is empty."""
        snapshot = await bench.snapshot(404)
        assert (snapshot.intent_id, snapshot.checkouts, snapshot.payments) == (404, (), ())

    async def test_a_too_small_amount_is_refused(self, bench: ProcessorBench) -> None:
        """An amount below the minimum is refused, and the minimum is accepted."""
        minimum = bench.payments.min_amount("usd")
        with pytest.raises(ProcessorRefused) as refused:
            await bench.open_checkout(amount=minimum - 1)
        assert refused.value.reason is RefusalCode.AMOUNT_TOO_SMALL
        assert (await bench.open_checkout(amount=minimum)).status is CheckoutStatus.OPEN

    async def test_a_too_large_amount_is_refused(self, bench: ProcessorBench) -> None:
        """An amount above the maximum is refused for good, and the maximum is accepted."""
        maximum = bench.payments.max_amount("usd")
        with pytest.raises(ProcessorRefused) as refused:
            await bench.open_checkout(amount=maximum + 1)
        assert not refused.value.is_retryable
        assert (await bench.open_checkout(amount=maximum)).status is CheckoutStatus.OPEN

    async def test_a_payment_is_in_the_snapshot(self, bench: ProcessorBench) -> None:
        """A payment is in the snapshot with the whole amount, and the checkout is paid."""
        payment = await bench.make_payment(amount=20_000)
        snapshot = await bench.snapshot()
        assert snapshot.payments == (payment,)
        assert (payment.amount, payment.currency, payment.paid_at) == (20_000, "usd", NOW)
        assert [checkout.status for checkout in snapshot.checkouts] == [CheckoutStatus.PAID]

    async def test_paying_twice_charges_once(self, bench: ProcessorBench) -> None:
        """Paying a paid checkout makes no second payment."""
        checkout = await bench.open_checkout()
        await bench.outside_world.pay(checkout)
        await bench.outside_world.pay(checkout)
        assert len((await bench.snapshot()).payments) == 1

    async def test_a_declined_card_leaves_the_page_open(self, bench: ProcessorBench) -> None:
        """After a decline there is no payment, and the open checkout can be paid."""
        checkout = await bench.open_checkout()
        await bench.outside_world.decline(checkout)
        declined = await bench.snapshot()
        await bench.outside_world.pay(checkout)
        assert (declined.checkouts, declined.payments) == ((checkout,), ())
        assert len((await bench.snapshot()).payments) == 1

    async def test_a_closed_page_cannot_be_paid(self, bench: ProcessorBench) -> None:
        """A closed checkout is expired and cannot be paid."""
        checkout = await bench.open_checkout()
        key = make_operation_key(OperationKind.CLOSE_CHECKOUT)
        closed = await bench.payments.close_checkout(checkout.ref, key, CALL_TIMEOUT_SECONDS)
        await bench.outside_world.pay(checkout)
        assert closed.status is CheckoutStatus.EXPIRED
        assert (await bench.snapshot()).payments == ()

    async def test_closing_a_paid_page_returns_it_as_paid(self, bench: ProcessorBench) -> None:
        """Closing a paid checkout returns it as paid."""
        checkout = await bench.open_checkout()
        await bench.outside_world.pay(checkout)
        key = make_operation_key(OperationKind.CLOSE_CHECKOUT)
        closed = await bench.payments.close_checkout(checkout.ref, key, CALL_TIMEOUT_SECONDS)
        assert (closed.ref, closed.status) == (checkout.ref, CheckoutStatus.PAID)

    async def test_closing_twice_is_no_error(self, bench: ProcessorBench) -> None:
        """Closing a checkout twice returns it as expired each time."""
        ref = (await bench.open_checkout()).ref
        for _ in range(2):
            key = make_operation_key(OperationKind.CLOSE_CHECKOUT)
            closed = await bench.payments.close_checkout(ref, key, CALL_TIMEOUT_SECONDS)
            assert closed.status is CheckoutStatus.EXPIRED

    async def test_a_page_expires_by_itself(self, bench: ProcessorBench) -> None:
        """A checkout is expired from its expiry on and cannot be paid."""
        checkout = await bench.open_checkout()
        bench.clock.advance(12 * HOUR)
        await bench.outside_world.pay(checkout)
        snapshot = await bench.snapshot()
        assert [each.status for each in snapshot.checkouts] == [CheckoutStatus.EXPIRED]
        assert snapshot.payments == ()

    async def test_a_page_can_be_paid_until_its_expiry(self, bench: ProcessorBench) -> None:
        """A checkout can be paid a second before its expiry."""
        checkout = await bench.open_checkout()
        bench.clock.advance(12 * HOUR - SECOND)
        await bench.outside_world.pay(checkout)
        assert len((await bench.snapshot()).payments) == 1


class Refunds(PaymentProcessorContract):
    """Refunds, in full and in part."""

    async def test_a_refund_is_known_by_its_operation(self, bench: ProcessorBench) -> None:
        """A refund is settled, and the snapshot has it with the operation's id."""
        payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
        refund = await bench.refund(payment, 5_000, key)
        assert (refund.status, refund.amount, refund.op_id) == (
            RefundStatus.SETTLED,
            5_000,
            key.op_id,
        )
        assert (await bench.snapshot()).refunds == (refund,)

    async def test_refunds_do_not_exceed_the_payment(self, bench: ProcessorBench) -> None:
        """Partial refunds can take the whole payment, and a further one is refused."""
        payment = await bench.make_payment(amount=20_000)
        await bench.refund(payment, 15_000)
        with pytest.raises(ProcessorRefused) as exceeding:
            await bench.refund(payment, 5_001)
        await bench.refund(payment, 5_000)
        with pytest.raises(ProcessorRefused) as nothing:
            await bench.refund(payment, 1)
        assert exceeding.value.reason is RefusalCode.EXCEEDS_REMAINING
        assert nothing.value.reason is RefusalCode.NOTHING_LEFT

    async def test_an_unknown_payment_is_not_refunded(self, bench: ProcessorBench) -> None:
        """A refund of an unknown payment is refused as missing."""
        await bench.make_payment()
        with pytest.raises(ProcessorRefused) as refused:
            await bench.payments.refund(
                RefundPayment("none", 1, "usd"),
                make_operation_key(OperationKind.REFUND),
                CALL_TIMEOUT_SECONDS,
            )
        assert refused.value.reason is RefusalCode.MISSING


class Payouts(PaymentProcessorContract):
    """Payouts and their reversals."""

    async def test_a_payout_is_known_by_its_operation(self, bench: ProcessorBench) -> None:
        """A payout has the whole amount, and the snapshot has it with the operation's id."""
        payment, key = await bench.make_payment(), make_operation_key(OperationKind.PAY_OUT)
        payout = await bench.pay_out(payment, 17_000, key)
        assert (payout.amount, payout.reversed, payout.op_id) == (17_000, 0, key.op_id)
        assert (await bench.snapshot()).payouts == (payout,)

    async def test_payouts_do_not_exceed_the_payment(self, bench: ProcessorBench) -> None:
        """Payouts that exceed their payment in sum are refused, whatever the balance."""
        payment = await bench.make_payment(amount=20_000)
        await bench.make_payment(intent_id=13)
        await bench.pay_out(payment, 17_000)
        with pytest.raises(ProcessorRefused) as refused:
            await bench.pay_out(payment, 3_001)
        assert refused.value.reason is RefusalCode.EXCEEDS_REMAINING

    async def test_an_unknown_payment_is_not_paid_out(self, bench: ProcessorBench) -> None:
        """A payout of an unknown payment is refused as missing."""
        await bench.make_payment()
        command = PayOut("none", COMPANION_ID, 1, "usd", (await bench.open_payee()).ref)
        with pytest.raises(ProcessorRefused) as refused:
            await bench.payments.pay_out(
                command, make_operation_key(OperationKind.PAY_OUT), CALL_TIMEOUT_SECONDS
            )
        assert refused.value.reason is RefusalCode.MISSING

    async def test_an_unready_payee_is_not_paid(self, bench: ProcessorBench) -> None:
        """A payout to a payee that is not ready is refused as retryable."""
        payment = await bench.make_payment()
        unready = await bench.open_payee(ready=False)
        with pytest.raises(ProcessorRefused) as refused:
            await bench.pay_out(payment, 17_000, payee=unready)
        assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
        assert refused.value.is_retryable

    async def test_a_repeated_refusal_has_the_same_text(self, bench: ProcessorBench) -> None:
        """Each refusal of a payout that is tried again has the same text, by which the core knows
        a failure that operators were told of."""
        payment, unready = await bench.make_payment(), await bench.open_payee(ready=False)
        texts = []
        for _ in range(2):
            with pytest.raises(ProcessorRefused) as refused:
                await bench.pay_out(payment, 17_000, payee=unready)
            texts.append(str(refused.value))
        assert texts[0] == texts[1]

    @pytest.mark.parametrize("payee_ref", ["acct_none", ""], ids=["unknown", "absent"])
    async def test_an_unknown_payee_is_not_paid(
        self, bench: ProcessorBench, payee_ref: str
    ) -> None:
        """A payout to an unknown payee, or with an empty `payee_ref`, is refused as
        `PAYEE_NOT_READY`, which is tried again once there is an account; `MISSING`, which is of the
        payment, would end the payout for good."""
        payment = await bench.make_payment()
        command = PayOut(payment.ref, COMPANION_ID, 17_000, "usd", payee_ref)
        key = make_operation_key(OperationKind.PAY_OUT)
        with pytest.raises(ProcessorRefused) as refused:
            await bench.payments.pay_out(command, key, CALL_TIMEOUT_SECONDS)
        assert refused.value.reason is RefusalCode.PAYEE_NOT_READY

    async def test_a_payout_is_reversed(self, bench: ProcessorBench) -> None:
        """A partial reversal is in the snapshot, and its payout has the reversed amount."""
        payout = await bench.pay_out(await bench.make_payment(), 17_000)
        key = make_operation_key(OperationKind.REVERSE_PAYOUT)
        part = ReversePayout(1, 10_000, "usd")
        reversal = await bench.payments.reverse_payout(part, payout.ref, key, CALL_TIMEOUT_SECONDS)
        snapshot = await bench.snapshot()
        assert (reversal.payout_ref, reversal.amount, reversal.op_id) == (
            payout.ref,
            10_000,
            key.op_id,
        )
        assert snapshot.reversals == (reversal,)
        assert [each.reversed for each in snapshot.payouts] == [10_000]

    async def test_reversals_do_not_exceed_the_payout(self, bench: ProcessorBench) -> None:
        """A reversal of more than the payout is refused."""
        payout = await bench.pay_out(await bench.make_payment(), 17_000)
        too_much = ReversePayout(1, 17_001, "usd")
        with pytest.raises(ProcessorRefused) as refused:
            await bench.payments.reverse_payout(
                too_much,
                payout.ref,
                make_operation_key(OperationKind.REVERSE_PAYOUT),
                CALL_TIMEOUT_SECONDS,
            )
        assert refused.value.reason is RefusalCode.EXCEEDS_REMAINING


class Chargebacks(PaymentProcessorContract):
    """Chargebacks by the customer's bank."""

    @pytest.mark.parametrize("outcome", list(ChargebackStatus))
    async def test_a_chargeback_is_in_the_snapshot(
        self, bench: ProcessorBench, outcome: ChargebackStatus
    ) -> None:
        """The snapshot has a chargeback with its amount, status and payment."""
        payment = await bench.make_payment()
        await bench.outside_world.charge_back(INTENT_ID, "open")
        if outcome is not ChargebackStatus.OPEN:
            await bench.outside_world.charge_back(INTENT_ID, outcome)
        [found] = (await bench.snapshot()).chargebacks
        assert found == Chargeback(found.ref, payment.amount, outcome, payment.ref)

    async def test_a_disputed_payment_is_not_refunded(self, bench: ProcessorBench) -> None:
        """A refund is refused while a chargeback is open."""
        payment = await bench.make_payment()
        await bench.outside_world.charge_back(INTENT_ID, "open")
        with pytest.raises(ProcessorRefused) as refused:
            await bench.refund(payment, 1)
        assert refused.value.reason is RefusalCode.DISPUTED
