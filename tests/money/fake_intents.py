"""One intent of the fake processor, number 7, in the states that tests start from."""

from __future__ import annotations

from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import CheckoutOutcome
from staffbooking_adapters.fake.machine import FakeIntent, RefundProgression
from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.processor.base import make_checkout_command
from staffbooking_core.domain.payments.processor import PayOut, RefundPayment, ReversePayout


def intent_with_checkout(
    amount: int = 1_000, currency: str = "usd", ref: str = "p1", n: int = 1
) -> FakeIntent:
    intent, _ = machine.open_checkout(
        FakeIntent(7), make_checkout_command(amount, currency), n, ref, f"http://test/{ref}", NOW
    )
    return intent


def intent_with_payment(
    amount: int = 1_000, outcome: CheckoutOutcome = CheckoutOutcome.SUCCEED, fee_ppm: int = 0
) -> FakeIntent:
    intent, _ = machine.apply_outcome(intent_with_checkout(amount), "p1", outcome, NOW, fee_ppm)
    return intent


def intent_with_two_payments() -> FakeIntent:
    """Two payments, of 1,000 and of 500."""
    two, _ = machine.open_checkout(
        intent_with_checkout(), make_checkout_command(500), 2, "p2", "http://test", NOW
    )
    for ref in ("p1", "p2"):
        two, _ = machine.apply_outcome(two, ref, CheckoutOutcome.SUCCEED, NOW)
    return two


def refund_intent(
    intent: FakeIntent, amount: int, progression: RefundProgression | None = None
) -> FakeIntent:
    command = RefundPayment("fpay_7_1", amount, "usd")
    return machine.refund(intent, command, 2, NOW, progression)[0]


def pay_out_intent(intent: FakeIntent, amount: int) -> FakeIntent:
    return machine.pay_out(intent, PayOut("fpay_7_1", 3, amount, "usd"), 4, ready=True)[0]


def reverse_intent_payout(
    intent: FakeIntent, amount: int, payout_ref: str = "fpo_7_1"
) -> FakeIntent:
    return machine.reverse_payout(intent, ReversePayout(1, amount, "usd"), payout_ref, 5)[0]
