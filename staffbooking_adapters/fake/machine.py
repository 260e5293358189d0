"""One intent at the fake processor: its state, and what commands and time make of it.

Every function takes a state and gives the next one, with the answer where there is one.
It raises `Refused` where a real processor would, and `RuleBroken` for what only the test
bench can ask for. A state is brought to the present by `at` before anything is done to it.
Amounts are minor units, times are business time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

from attrs import evolve, frozen

from staffbooking_adapters.fake import charge as charges
from staffbooking_adapters.fake.cards import Outcome
from staffbooking_adapters.fake.charge import LATER, Charge, Pending
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    OpenCheckout,
    Payment,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    RefundStatus,
    RefusalCode,
    Refused,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Cash, Movement
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import CheckoutPage

SHORTEST: Final = timedelta(minutes=30)
LONGEST: Final = timedelta(hours=24)
"""A page must lapse this long after its opening, as Stripe's sessions must."""

MINIMUM: Final = {0: 1, 2: 50, 3: 500}
"""The least amount that can be charged, by the currency's decimals."""

Course: TypeAlias = tuple[RefundStatus, RefundStatus]
"""How a refund stands at first, and a while later."""


class PageState(StrEnum):
    OPEN = "open"
    CHALLENGE = "challenge"
    PAID = "paid"
    EXPIRED = "expired"


LIVE: Final = frozenset({PageState.OPEN, PageState.CHALLENGE})


@frozen
class Page:
    """A hosted checkout page. `message` says why the last try was declined."""

    ref: str
    url: str
    op_id: int
    command: OpenCheckout
    state: PageState = PageState.OPEN
    message: str = ""

    @property
    def checkout(self) -> Checkout:
        status = CheckoutStatus.OPEN if self.state in LIVE else CheckoutStatus(self.state)
        return Checkout(self.ref, self.url, status, self.command.expires_at, self.op_id)


@frozen
class Intent:
    """All of one intent; `version` counts its changes, `lines` those of its statement."""

    id: int
    pages: tuple[Page, ...] = ()
    charges: tuple[Charge, ...] = ()
    disputed: tuple[str, ...] = ()
    """The payments that were charged back, in that order."""
    version: int = 0
    lines: int = 0


def min_amount(currency: str) -> int:
    """The least total that can be charged: 50 of a currency with two decimals."""
    return MINIMUM[Currency(currency).decimals]


# Reading ------------------------------------------------------------------------------------


def balance(intent: Intent) -> int:
    """What the platform holds of it at the processor: below zero where it paid out what was
    taken back."""
    return sum(_moved(intent).values())


def movements(was: Intent, changed: Intent, now: datetime) -> Iterator[Movement]:
    """What a change did to the platform's balance, line by line."""
    before, after = _moved(was), _moved(changed)
    for (kind, ref), amount in after.items():
        if (kind, ref) not in before:
            yield Movement(changed.id, kind, ref, amount, now)
    for (kind, ref), amount in before.items():
        if (kind, ref) not in after:
            # Nothing else can be undone: a refund that had settled has failed.
            yield Movement(changed.id, MovementKind.REFUND_FAILED, ref, -amount, now)


def _moved(intent: Intent) -> Cash:
    return {name: amount for each in intent.charges for name, amount in each.moved.items()}


def next_change(intent: Intent) -> datetime | None:
    """When it changes by itself, if nobody does anything."""
    lapses = [page.command.expires_at for page in intent.pages if page.state in LIVE]
    changes = [c.next_change for c in intent.charges if c.next_change is not None]
    return min([*lapses, *changes], default=None)


def snapshot(intent: Intent) -> Snapshot:
    """Everything, in the order in which it was made."""
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


def view(intent: Intent, ref: str, note: str = "") -> CheckoutPage:
    """What the page shows now; `note` is what the last act on it led to."""
    page = find_page(intent, ref)
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


def find_page(intent: Intent, ref: str) -> Page:
    """The page of this reference; refused as missing."""
    for page in intent.pages:
        if page.ref == ref:
            return page
    raise Refused(RefusalCode.MISSING, "no such checkout")


# Time ---------------------------------------------------------------------------------------


def at(intent: Intent, now: datetime) -> Intent:
    """The intent at a later moment: pages lapse, refunds end, a late chargeback comes."""
    changed = evolve(
        intent,
        pages=tuple(_page_at(page, now) for page in intent.pages),
        charges=tuple(charges.at(charge, now) for charge in intent.charges),
    )
    return _with_disputes(changed)


def _page_at(page: Page, now: datetime) -> Page:
    lapsed = page.state in LIVE and page.command.expires_at <= now
    return evolve(page, state=PageState.EXPIRED, message="") if lapsed else page


# Checkout pages -----------------------------------------------------------------------------


def open_checkout(
    intent: Intent, command: OpenCheckout, op_id: int, ref: str, url: str, now: datetime
) -> tuple[Intent, Checkout]:
    """One more page. Nothing keeps a second one from being open: that is the caller's care."""
    if command.amount < min_amount(command.currency):
        raise Refused(RefusalCode.AMOUNT_TOO_SMALL)
    if not SHORTEST <= command.expires_at - now <= LONGEST:
        raise Refused(RefusalCode.INVALID, "a checkout lapses 30 minutes to 24 hours from now")
    page = Page(ref, url, op_id, command)
    return evolve(intent, pages=(*intent.pages, page)), page.checkout


def close_checkout(intent: Intent, ref: str) -> tuple[Intent, Checkout]:
    """An open page expires; a paid or expired one stays what it is."""
    page = find_page(intent, ref)
    if page.state in LIVE:
        intent = _with_page(intent, evolve(page, state=PageState.EXPIRED, message=""))
    return intent, find_page(intent, ref).checkout


def _with_page(intent: Intent, changed: Page) -> Intent:
    pages = tuple(changed if page.ref == changed.ref else page for page in intent.pages)
    return evolve(intent, pages=pages)


DECLINED: Final = {
    Outcome.DECLINE: "The card was declined",
    Outcome.INSUFFICIENT_FUNDS: "The card was declined: insufficient funds",
}


def play(
    intent: Intent, ref: str, outcome: Outcome, now: datetime, fee_ppm: int = 0
) -> tuple[Intent, str]:
    """The client's act on a page: the next state, and a note where nothing could be done.

    Of what is paid the processor keeps `fee_ppm` millionths."""
    page = find_page(intent, ref)
    if page.state is PageState.PAID:
        return intent, "This was already paid"
    if page.state is PageState.EXPIRED:
        return intent, "This checkout has expired"
    match outcome:
        case Outcome.SUCCEED:
            return _paid(intent, page, now, fee_ppm), ""
        case Outcome.SUCCEED_THEN_CHARGEBACK:
            return _paid(intent, page, now, fee_ppm, now + LATER), ""
        case Outcome.DECLINE | Outcome.INSUFFICIENT_FUNDS:
            changed = evolve(page, state=PageState.OPEN, message=DECLINED[outcome])
        case Outcome.CHALLENGE:
            changed = evolve(page, state=PageState.CHALLENGE, message="")
        case Outcome.EXPIRE:
            changed = evolve(page, state=PageState.EXPIRED, message="")
    return _with_page(intent, changed), ""


def _paid(
    intent: Intent, page: Page, now: datetime, fee_ppm: int, chargeback_at: datetime | None = None
) -> Intent:
    ref, amount = f"fpay_{intent.id}_{len(intent.charges) + 1}", page.command.amount
    payment = Payment(ref, amount, page.command.currency, now)
    fee = (amount * fee_ppm + 500_000) // 1_000_000
    charge = Charge(payment, fee, chargeback_at=chargeback_at)
    intent = _with_page(intent, evolve(page, state=PageState.PAID, message=""))
    return evolve(intent, charges=(*intent.charges, charge))


# Money --------------------------------------------------------------------------------------


def refund(
    intent: Intent,
    command: Refund,
    op_id: int | None,
    now: datetime,
    course: Course | None = None,
) -> tuple[Intent, RefundState]:
    """Give back to the client: settled at once and for good, unless `course` says otherwise."""
    charge = _charge(intent, command.payment_ref, command.currency)
    ref = f"fre_{intent.id}_{1 + sum(len(each.refunds) for each in intent.charges)}"
    status, ends = course or (RefundStatus.SETTLED, None)
    made = RefundState(ref, status, command.amount, op_id)
    pending = None if ends is None else Pending(ref, now + LATER, ends)
    return _with_charge(intent, charges.refund(charge, made, pending)), made


def pay_out(intent: Intent, command: PayOut, op_id: int, ready: bool) -> tuple[Intent, PayoutState]:
    """Hand a part of a payment to a payee, who must be `ready`."""
    charge = _charge(intent, command.payment_ref, command.currency)
    if not ready:
        raise Refused(RefusalCode.PAYEE_NOT_READY)
    ref = f"fpo_{intent.id}_{1 + sum(len(each.payouts) for each in intent.charges)}"
    made = PayoutState(ref, command.amount, 0, op_id)
    return _with_charge(intent, charges.pay_out(charge, made)), made


def reverse_payout(
    intent: Intent, command: ReversePayout, payout_ref: str, op_id: int | None
) -> tuple[Intent, ReversalState]:
    """Take a payout back, in whole or in part."""
    charge = _find(intent, lambda each: any(made.ref == payout_ref for made in each.payouts))
    _must_be(command.currency, charge)
    ref = f"frv_{intent.id}_{1 + sum(len(each.reversals) for each in intent.charges)}"
    made = ReversalState(ref, payout_ref, command.amount, op_id)
    return _with_charge(intent, charges.reverse(charge, made)), made


def refund_by_hand(intent: Intent, amount: int, now: datetime) -> Intent:
    """As somebody would on the processor's own pages: from the first payment that has as
    much left. Raises Refused like `refund`."""
    charge = _find(intent, lambda each: each.remaining >= amount)
    command = Refund(charge.payment.ref, amount, charge.payment.currency)
    return refund(intent, command, None, now)[0]


def reverse_by_hand(intent: Intent, amount: int) -> Intent:
    """Likewise of a payout: of the first that has as much left."""
    for charge in intent.charges:
        for payout in charge.payouts:
            if payout.amount - payout.reversed >= amount:
                command = ReversePayout(0, amount, charge.payment.currency)
                return reverse_payout(intent, command, payout.ref, None)[0]
    raise Refused(RefusalCode.MISSING)


def chargeback(intent: Intent, outcome: ChargebackStatus) -> Intent:
    """The client's bank claims a payment back, or decides. Of several payments it claims the
    first of which something can be taken back, and decides of the first that is disputed.

    Raises RuleBroken: `not_paid`, `already_charged_back`, `chargeback_decided`, `nothing_left`.
    """
    if not intent.charges:
        raise RuleBroken("not_paid", "There is no payment to charge back")
    disputed = [each for each in intent.charges if _is_disputed(each)]
    takeable = [each for each in intent.charges if each.chargeback is None and each.remaining]
    if outcome is ChargebackStatus.OPEN:
        charge = (takeable or disputed or intent.charges)[0]
        changed = charges.open_chargeback(charge)
    else:
        charge = (disputed or takeable or intent.charges)[0]
        changed = charges.decide_chargeback(charge, outcome)
    return _with_disputes(_with_charge(intent, changed))


def _with_disputes(intent: Intent) -> Intent:
    """Take note of chargebacks that are new."""
    new = tuple(
        each.payment.ref
        for each in intent.charges
        if each.chargeback is not None and each.payment.ref not in intent.disputed
    )
    return evolve(intent, disputed=(*intent.disputed, *new))


def _is_disputed(charge: Charge) -> bool:
    return charge.chargeback is not None and charge.chargeback.status is ChargebackStatus.OPEN


def _charge(intent: Intent, payment_ref: str, currency: str) -> Charge:
    charge = _find(intent, lambda each: each.payment.ref == payment_ref)
    _must_be(currency, charge)
    return charge


def _find(intent: Intent, wanted: Callable[[Charge], bool]) -> Charge:
    for charge in intent.charges:
        if wanted(charge):
            return charge
    raise Refused(RefusalCode.MISSING)


def _must_be(currency: str, charge: Charge) -> None:
    if currency != charge.payment.currency:
        raise Refused(RefusalCode.INVALID, "the currency is not the payment's")


def _with_charge(intent: Intent, changed: Charge) -> Intent:
    every = tuple(
        changed if charge.payment.ref == changed.payment.ref else charge
        for charge in intent.charges
    )
    return evolve(intent, charges=every)
