"""One intent at the fake processor as a pure state machine.

Every transition takes a state and returns the next one, with an answer for some. It raises
`ProcessorRefused` where a real processor would refuse, and `RuleBroken` for invalid sandbox
actions. The caller applies `advance_to` before any other transition. Amounts are minor units,
times are business time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from attrs import evolve, frozen

from staffbooking_adapters.fake import charge as charges
from staffbooking_adapters.fake.cards import CheckoutOutcome
from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD, Charge, PendingRefund
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    OpenCheckout,
    Payment,
    PayOut,
    PayoutState,
    ProcessorRefused,
    RefundPayment,
    RefundState,
    RefundStatus,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import CashTotals, Movement
from staffbooking_core.domain.shared.money import MAX_AMOUNT_MINOR_UNITS, Currency
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import CheckoutPage

_MIN_PAGE_LIFETIME: Final = timedelta(minutes=30)
_MAX_PAGE_LIFETIME: Final = timedelta(hours=24)
"""The limits of a page's lifetime, as for Stripe's checkout sessions."""

_MIN_AMOUNT_BY_DECIMALS: Final = {0: 1, 2: 50, 3: 500}
"""The minimum charge in minor units, by the currency's decimals."""

RefundProgression: TypeAlias = tuple[RefundStatus, RefundStatus]
"""A refund's first status, and its status after `DELAYED_EFFECT_PERIOD`."""


class PageState(StrEnum):
    OPEN = "open"
    CHALLENGE = "challenge"
    PAID = "paid"
    EXPIRED = "expired"


_OPEN_PAGE_STATES: Final = frozenset({PageState.OPEN, PageState.CHALLENGE})


@frozen
class HostedPage:
    """A hosted checkout page. `message` is the last attempt's decline reason."""

    ref: str
    url: str
    op_id: int
    command: OpenCheckout
    state: PageState = PageState.OPEN
    message: str = ""

    @property
    def checkout(self) -> Checkout:
        status = (
            CheckoutStatus.OPEN if self.state in _OPEN_PAGE_STATES else CheckoutStatus(self.state)
        )
        return Checkout(self.ref, self.url, status, self.command.expires_at, self.op_id)


@frozen
class FakeIntent:
    """One intent; `version` counts its changes, `lines` its statement's lines."""

    id: int
    pages: tuple[HostedPage, ...] = ()
    charges: tuple[Charge, ...] = ()
    disputed: tuple[str, ...] = ()
    """References of the charged-back payments, in the order of their chargebacks."""
    version: int = 0
    lines: int = 0


def min_amount(currency: str) -> int:
    """The minimum charge in minor units: 50 for a currency with two decimals."""
    return _MIN_AMOUNT_BY_DECIMALS[Currency(currency).decimals]


# Reading ------------------------------------------------------------------------------------


def balance(intent: FakeIntent) -> int:
    """The platform's balance from this intent; negative if a paid-out amount was refunded or
    charged back."""
    return sum(_balance_movements(intent).values())


def movements(before: FakeIntent, changed: FakeIntent, now: datetime) -> Iterator[Movement]:
    """The movements of the platform's balance in a change."""
    old, new = _balance_movements(before), _balance_movements(changed)
    for (kind, ref), amount in new.items():
        if (kind, ref) not in old:
            yield Movement(changed.id, kind, ref, amount, now)
    for (kind, ref), amount in old.items():
        if (kind, ref) not in new:
            # A settled refund failed, or a chargeback that was won is lost on appeal.
            if kind is MovementKind.REFUND:
                kind = MovementKind.REFUND_FAILED
            yield Movement(changed.id, kind, ref, -amount, now)


def _balance_movements(intent: FakeIntent) -> CashTotals:
    return {
        name: amount for each in intent.charges for name, amount in each.balance_movements.items()
    }


def next_change_at(intent: FakeIntent) -> datetime | None:
    """When time alone changes it next; None if never."""
    lapses = [page.command.expires_at for page in intent.pages if page.state in _OPEN_PAGE_STATES]
    changes = [c.next_change_at for c in intent.charges if c.next_change_at is not None]
    return min([*lapses, *changes], default=None)


def snapshot(intent: FakeIntent) -> Snapshot:
    """The intent as the payment port's snapshot, each list in the order of creation."""
    every = intent.charges
    by_payment = {each.payment.ref: each.chargeback for each in every}
    return Snapshot(
        intent.id,
        checkouts=tuple(page.checkout for page in intent.pages),
        payments=tuple(each.payment for each in every),
        refunds=tuple(refund for each in every for refund in each.refunds),
        payouts=tuple(payout for each in every for payout in each.payouts),
        reversals=tuple(reversal for each in every for reversal in each.reversals),
        chargebacks=tuple(made for ref in intent.disputed if (made := by_payment[ref])),
        fees=tuple(fee for each in every for fee in each.fees),
    )


def page_view(intent: FakeIntent, ref: str, note: str = "") -> CheckoutPage:
    """The page's content; `note` replaces its message."""
    page = _find_page(intent, ref)
    command = page.command
    paid = page.state is PageState.PAID
    return CheckoutPage(
        ref=ref,
        intent_id=intent.id,
        amount=command.amount,
        currency=command.currency,
        description=command.description,
        booking_code=command.booking_code,
        customer_email=command.customer_email,
        return_url=command.success_url if paid else command.cancel_url,
        state=page.state.value,
        message=note or page.message,
    )


def _find_page(intent: FakeIntent, ref: str) -> HostedPage:
    """The page with this reference. Raises ProcessorRefused (`missing`)."""
    for page in intent.pages:
        if page.ref == ref:
            return page
    raise ProcessorRefused(RefusalCode.MISSING, "no such checkout")


# Time ---------------------------------------------------------------------------------------


def advance_to(intent: FakeIntent, now: datetime) -> FakeIntent:
    """The intent at a later time: pages expire, due refunds end, due chargebacks open."""
    changed = evolve(
        intent,
        pages=tuple(_advance_page(page, now) for page in intent.pages),
        charges=tuple(charges.advance_to(charge, now) for charge in intent.charges),
    )
    return _record_new_disputes(changed)


def _advance_page(page: HostedPage, now: datetime) -> HostedPage:
    lapsed = page.state in _OPEN_PAGE_STATES and page.command.expires_at <= now
    return evolve(page, state=PageState.EXPIRED, message="") if lapsed else page


# Checkout pages -----------------------------------------------------------------------------


def open_checkout(
    intent: FakeIntent, command: OpenCheckout, op_id: int, ref: str, url: str, now: datetime
) -> tuple[FakeIntent, Checkout]:
    """Open a page. Several pages may be open at once; the caller prevents that.

    Raises ProcessorRefused (`amount_too_small`, `invalid`).
    """
    if command.amount < min_amount(command.currency):
        raise ProcessorRefused(RefusalCode.AMOUNT_TOO_SMALL)
    if command.amount > MAX_AMOUNT_MINOR_UNITS:
        raise ProcessorRefused(RefusalCode.INVALID, "the amount is too large")
    if not _MIN_PAGE_LIFETIME <= command.expires_at - now <= _MAX_PAGE_LIFETIME:
        raise ProcessorRefused(
            RefusalCode.INVALID, "a checkout lapses 30 minutes to 24 hours from now"
        )
    page = HostedPage(ref, url, op_id, command)
    return evolve(intent, pages=(*intent.pages, page)), page.checkout


def close_checkout(intent: FakeIntent, ref: str) -> tuple[FakeIntent, Checkout]:
    """Expire an open page; a paid or expired page stays as it is."""
    page = _find_page(intent, ref)
    if page.state in _OPEN_PAGE_STATES:
        intent = _with_page(intent, evolve(page, state=PageState.EXPIRED, message=""))
    return intent, _find_page(intent, ref).checkout


def _with_page(intent: FakeIntent, changed: HostedPage) -> FakeIntent:
    pages = tuple(changed if page.ref == changed.ref else page for page in intent.pages)
    return evolve(intent, pages=pages)


_DECLINE_MESSAGES: Final = {
    CheckoutOutcome.DECLINE: "The card was declined",
    CheckoutOutcome.INSUFFICIENT_FUNDS: "The card was declined: insufficient funds",
}


def apply_outcome(
    intent: FakeIntent, ref: str, outcome: CheckoutOutcome, now: datetime, fee_ppm: int = 0
) -> tuple[FakeIntent, str]:
    """Apply a checkout outcome to a page. Returns the next state, and a note if the page was no
    longer open. The processor's fee is `fee_ppm` millionths of the payment."""
    page = _find_page(intent, ref)
    if page.state is PageState.PAID:
        return intent, "This was already paid"
    if page.state is PageState.EXPIRED:
        return intent, "This checkout has expired"
    match outcome:
        case CheckoutOutcome.SUCCEED:
            return _pay(intent, page, now, fee_ppm), ""
        case CheckoutOutcome.SUCCEED_THEN_CHARGEBACK:
            return _pay(intent, page, now, fee_ppm, now + DELAYED_EFFECT_PERIOD), ""
        case CheckoutOutcome.DECLINE | CheckoutOutcome.INSUFFICIENT_FUNDS:
            changed = evolve(page, state=PageState.OPEN, message=_DECLINE_MESSAGES[outcome])
        case CheckoutOutcome.CHALLENGE:
            changed = evolve(page, state=PageState.CHALLENGE, message="")
        case CheckoutOutcome.EXPIRE:
            changed = evolve(page, state=PageState.EXPIRED, message="")
    return _with_page(intent, changed), ""


def _pay(
    intent: FakeIntent,
    page: HostedPage,
    now: datetime,
    fee_ppm: int,
    chargeback_at: datetime | None = None,
) -> FakeIntent:
    ref, amount = f"fpay_{intent.id}_{len(intent.charges) + 1}", page.command.amount
    payment = Payment(ref, amount, page.command.currency, now)
    fee = (amount * fee_ppm + 500_000) // 1_000_000
    charge = Charge(payment, fee, chargeback_at=chargeback_at)
    intent = _with_page(intent, evolve(page, state=PageState.PAID, message=""))
    return evolve(intent, charges=(*intent.charges, charge))


# Money --------------------------------------------------------------------------------------


def refund(
    intent: FakeIntent,
    command: RefundPayment,
    op_id: int | None,
    now: datetime,
    progression: RefundProgression | None = None,
) -> tuple[FakeIntent, RefundState]:
    """Refund a payment; the refund is settled at once unless `progression` is given."""
    charge = _charge_of_payment(intent, command.payment_ref, command.currency)
    ref = f"fre_{intent.id}_{1 + sum(len(each.refunds) for each in intent.charges)}"
    status, later_status = progression or (RefundStatus.SETTLED, None)
    new_refund = RefundState(ref, status, command.amount, op_id)
    pending = None
    if later_status is not None:
        pending = PendingRefund(ref, now + DELAYED_EFFECT_PERIOD, later_status)
    return _with_charge(intent, charges.refund(charge, new_refund, pending)), new_refund


def pay_out(
    intent: FakeIntent, command: PayOut, op_id: int, ready: bool
) -> tuple[FakeIntent, PayoutState]:
    """Pay a part of a payment out. Raises ProcessorRefused (`payee_not_ready`) unless `ready`."""
    charge = _charge_of_payment(intent, command.payment_ref, command.currency)
    if not ready:
        raise ProcessorRefused(RefusalCode.PAYEE_NOT_READY)
    ref = f"fpo_{intent.id}_{1 + sum(len(each.payouts) for each in intent.charges)}"
    new_payout = PayoutState(ref, command.amount, 0, op_id)
    return _with_charge(intent, charges.pay_out(charge, new_payout)), new_payout


def reverse_payout(
    intent: FakeIntent, command: ReversePayout, payout_ref: str, op_id: int | None
) -> tuple[FakeIntent, ReversalState]:
    """Reverse a payout in whole or in part."""
    charge = _find_charge(
        intent, lambda each: any(payout.ref == payout_ref for payout in each.payouts)
    )
    _require_currency(command.currency, charge)
    ref = f"frv_{intent.id}_{1 + sum(len(each.reversals) for each in intent.charges)}"
    new_reversal = ReversalState(ref, payout_ref, command.amount, op_id)
    return _with_charge(intent, charges.reverse(charge, new_reversal)), new_reversal


def refund_by_hand(intent: FakeIntent, amount: int, now: datetime) -> FakeIntent:
    """Refund without an operation, as on the processor's dashboard, from the first payment with
    that much left. Raises ProcessorRefused as `refund` does."""
    charge = _find_charge(intent, lambda each: each.refundable_amount >= amount)
    command = RefundPayment(charge.payment.ref, amount, charge.payment.currency)
    return refund(intent, command, None, now)[0]


def reverse_by_hand(intent: FakeIntent, amount: int) -> FakeIntent:
    """Reverse without an operation, from the first payout with that much left. Raises
    ProcessorRefused."""
    for charge in intent.charges:
        for payout in charge.payouts:
            if payout.amount - payout.reversed >= amount:
                command = ReversePayout(0, amount, charge.payment.currency)
                return reverse_payout(intent, command, payout.ref, None)[0]
    raise ProcessorRefused(RefusalCode.MISSING)


def chargeback(intent: FakeIntent, outcome: ChargebackStatus) -> FakeIntent:
    """Open a chargeback, or close it as won or lost. `OPEN` applies to the first payment without a
    chargeback that is not fully refunded, a verdict to the first with an open chargeback.

    Raises RuleBroken: `not_paid`, `already_charged_back`, `chargeback_decided`, `nothing_left`.
    """
    if not intent.charges:
        raise RuleBroken("not_paid", "There is no payment to charge back")
    disputed = [each for each in intent.charges if _is_disputed(each)]
    undisputed = [
        each for each in intent.charges if each.chargeback is None and each.refundable_amount
    ]
    if outcome is ChargebackStatus.OPEN:
        charge = (undisputed or disputed or intent.charges)[0]
        changed = charges.open_chargeback(charge)
    else:
        charge = (disputed or undisputed or intent.charges)[0]
        changed = charges.decide_chargeback(charge, outcome)
    return _record_new_disputes(_with_charge(intent, changed))


def overturn_chargebacks(intent: FakeIntent) -> FakeIntent:
    """Give each decided chargeback the opposite verdict, as after an appeal."""
    return evolve(intent, charges=tuple(map(charges.overturn_chargeback, intent.charges)))


def _record_new_disputes(intent: FakeIntent) -> FakeIntent:
    """Append new chargebacks to `disputed`."""
    new = tuple(
        each.payment.ref
        for each in intent.charges
        if each.chargeback is not None and each.payment.ref not in intent.disputed
    )
    return evolve(intent, disputed=(*intent.disputed, *new))


def _is_disputed(charge: Charge) -> bool:
    return charge.chargeback is not None and charge.chargeback.status is ChargebackStatus.OPEN


def _charge_of_payment(intent: FakeIntent, payment_ref: str, currency: str) -> Charge:
    charge = _find_charge(intent, lambda each: each.payment.ref == payment_ref)
    _require_currency(currency, charge)
    return charge


def _find_charge(intent: FakeIntent, predicate: Callable[[Charge], bool]) -> Charge:
    for charge in intent.charges:
        if predicate(charge):
            return charge
    raise ProcessorRefused(RefusalCode.MISSING)


def _require_currency(currency: str, charge: Charge) -> None:
    if currency != charge.payment.currency:
        raise ProcessorRefused(RefusalCode.INVALID, "the currency is not the payment's")


def _with_charge(intent: FakeIntent, changed: Charge) -> FakeIntent:
    every = tuple(
        changed if charge.payment.ref == changed.payment.ref else charge
        for charge in intent.charges
    )
    return evolve(intent, charges=every)
