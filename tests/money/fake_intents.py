"""One intent of the fake processor, number 7, in the states that tests start from."""

from __future__ import annotations

from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import Outcome
from staffbooking_adapters.fake.machine import Course, Intent
from staffbooking_core.domain.payments.processor import PayOut, Refund, ReversePayout
from tests.money.processors import make_checkout
from tests.support.builders import NOW


def opened(amount: int = 1_000, currency: str = "usd", ref: str = "p1", n: int = 1) -> Intent:
    intent, _ = machine.open_checkout(
        Intent(7), make_checkout(amount, currency), n, ref, f"http://test/{ref}", NOW
    )
    return intent


def paid(amount: int = 1_000, outcome: Outcome = Outcome.SUCCEED, fee_ppm: int = 0) -> Intent:
    intent, _ = machine.play(opened(amount), "p1", outcome, NOW, fee_ppm)
    return intent


def paid_twice() -> Intent:
    """Two payments, of 1,000 and of 500."""
    two, _ = machine.open_checkout(opened(), make_checkout(500), 2, "p2", "http://test", NOW)
    for ref in ("p1", "p2"):
        two, _ = machine.play(two, ref, Outcome.SUCCEED, NOW)
    return two


def refund(intent: Intent, amount: int, course: Course | None = None) -> Intent:
    command = Refund("fpay_7_1", amount, "usd")
    return machine.refund(intent, command, 2, NOW, course)[0]


def pay_out(intent: Intent, amount: int) -> Intent:
    return machine.pay_out(intent, PayOut("fpay_7_1", 3, amount, "usd"), 4, ready=True)[0]


def reverse(intent: Intent, amount: int, payout_ref: str = "fpo_7_1") -> Intent:
    return machine.reverse_payout(intent, ReversePayout(1, amount, "usd"), payout_ref, 5)[0]
