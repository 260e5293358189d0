"""Effects of transitions: orders to the processor, division of the escrow, debts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW, POLICY
from staffbooking_core.domain.bookings.booking import PaymentIntent, PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    CloseCheckout,
    OpenCheckout,
    OperationKind,
    PayOut,
    RefundPayment,
    ReversePayout,
)
from staffbooking_core.errors import RuleBroken
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    cancelled_journey,
    completed_journey,
    disputed_journey,
    paid_journey,
    paid_out_journey,
)

T, P = Trigger, Party
TOTAL, FEE, PAYOUT = 40_000, 6_000, 34_000
INSURED: dict[str, Any] = {"cancellation_insurance": True}
PREMIUM = 2_000


def commands(step):
    return [order.command for order in step.orders]


def charge_back(journey, after, **given):
    chargeback = journey.chargeback(**given)
    return journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.ends_at + after, chargeback=chargeback)


def judge(journey, after, status, **given):
    trigger = T.CHARGEBACK_WON if status is ChargebackStatus.WON else T.CHARGEBACK_LOST
    chargeback = journey.chargeback(status, **given)
    return journey.apply(trigger, P.PROCESSOR, journey.ends_at + after, chargeback=chargeback)


# Checkout -------------------------------------------------------------------------------


def test_an_acceptance_orders_the_checkout():
    """An acceptance creates the intent with the number of the checkout order."""
    journey = BookingJourney()
    step = journey.apply(T.ACCEPT, P.STAFF, NOW, customer_email="ada@example.com")
    (command,) = commands(step)
    assert isinstance(command, OpenCheckout)
    assert (command.amount, command.customer_email) == (TOTAL, "ada@example.com")
    assert step.booking.intent == PaymentIntent(step.orders[0].n, command.expires_at)
    assert step.booking.payment_status is PaymentStatus.REQUIRES_PAYMENT


@pytest.mark.parametrize(
    "before_start, lives",
    [(48 * HOUR, 23 * HOUR), (10 * HOUR, 10 * HOUR), (MINUTE, 35 * MINUTE)],
)
def test_a_checkout_lives_until_the_start_within_bounds(before_start, lives):
    """A checkout expires at the start of the event, within 35 minutes and 23 hours."""
    journey = BookingJourney()
    now = journey.starts_at - before_start
    (command,) = commands(journey.apply(T.ACCEPT, P.STAFF, now))
    assert command.expires_at == now + lives


def test_a_checkout_lives_no_longer_than_its_booking_waits():
    """A checkout expires at the payment deadline if the deployment has a payment window."""
    journey = BookingJourney(policy=evolve(POLICY, payment_window=2 * HOUR))
    (command,) = commands(journey.apply(T.ACCEPT, P.STAFF, NOW))
    assert command.expires_at == NOW + 2 * HOUR


def opened(journey, expires_at):
    """A journey whose checkout page is open until the given time."""
    page = {"checkout_ref": "co_1", "checkout_url": "https://pay.example/1"}
    intent = evolve(journey.intent, checkout_expires_at=expires_at, **page)
    journey.booking = evolve(journey.booking, intent=intent)
    return journey


@pytest.mark.parametrize("left, orders", [(31 * MINUTE, 0), (30 * MINUTE, 2)])
def test_a_checkout_that_was_never_opened_is_ordered_anew_in_time(left, orders):
    """An unopened checkout is replaced before less than half an hour, the processor's minimum, is
    left."""
    journey = BookingJourney()
    journey.apply(T.ACCEPT, P.STAFF, NOW)
    lapses = journey.intent.checkout_expires_at
    assert len(journey.apply(T.CHECKOUT, P.CUSTOMER, lapses - left).orders) == orders


@pytest.mark.parametrize(
    "left, orders", [(5 * MINUTE + timedelta(microseconds=1), 0), (5 * MINUTE, 2)]
)
def test_a_checkout_is_renewed_shortly_before_it_lapses(left, orders):
    """A page with more than five minutes left is kept."""
    journey = opened(accepted_journey(), NOW + left)
    assert len(journey.apply(T.CHECKOUT, P.CUSTOMER, NOW).orders) == orders


def test_a_renewal_closes_the_page_before_it_opens_the_next():
    """A renewal closes the old page first, so that two are never open."""
    journey = opened(accepted_journey(), NOW)
    step = journey.apply(T.CHECKOUT, P.CUSTOMER, NOW)
    close, fresh = commands(step)
    assert close == CloseCheckout(1)
    assert isinstance(fresh, OpenCheckout)
    assert step.booking.intent.checkout_n == step.orders[1].n
    assert step.booking.intent.checkout_url is None


def test_a_page_on_its_way_is_not_ordered_twice():
    """A request while the first page is being opened orders nothing."""
    journey = BookingJourney()
    journey.apply(T.ACCEPT, P.STAFF, NOW)
    assert journey.apply(T.CHECKOUT, P.CUSTOMER, NOW).orders == ()


@pytest.mark.parametrize("trigger, by", [(T.CANCEL, P.CUSTOMER), (T.EXPIRE, P.SYSTEM)])
def test_an_unpaid_end_closes_the_checkout(trigger, by):
    """The end of an unpaid booking voids the intent and closes its page."""
    step = accepted_journey().apply(trigger, by)
    assert commands(step) == [CloseCheckout(1)]
    assert step.booking.payment_status is PaymentStatus.VOID


# Division of the escrow -----------------------------------------------------------------


def shares(journey):
    booking = journey.booking
    return booking.refunded_amount, booking.platform_fee, booking.payout_amount


def test_a_payment_is_held():
    """A payment is held in escrow in full, without a fee."""
    journey = paid_journey(**INSURED)
    assert journey.booking.escrow == TOTAL + PREMIUM
    assert journey.balance(Account.ESCROW) == -(TOTAL + PREMIUM)
    assert journey.balance(Account.PLATFORM_FEES) == 0


def test_a_completion_takes_the_fee():
    """The platform gets 15 % of the price and the premium, the staff member the rest."""
    journey = completed_journey(**INSURED)
    assert journey.balance(Account.PLATFORM_FEES) == -FEE
    assert journey.balance(Account.INSURANCE_PREMIUMS) == -PREMIUM
    assert journey.balance(Account.STAFF_PAYABLE) == -PAYOUT
    assert journey.booking.payout_status is PayoutStatus.SCHEDULED


@pytest.mark.parametrize(
    "by, hours, refund, fee, payout",
    [
        (P.CUSTOMER, 48, 42_000, 0, 0),
        (P.CUSTOMER, 24, 20_000, 3_000, 17_000),
        (P.CUSTOMER, 23, 20_000, 3_000, 17_000),
        (P.STAFF, 23, 42_000, 0, 0),
        (P.ADMIN, 23, 42_000, 0, 0),
    ],
)
def test_an_insured_cancellation_shares_by_the_table(by, hours, refund, fee, payout):
    """Each tier has its refund, fee and payout; the premium is kept unless the refund is full."""
    journey = paid_journey(**INSURED)
    journey.apply(T.CANCEL, by, journey.starts_at - hours * HOUR)
    assert shares(journey) == (refund, fee, payout)


def test_a_late_cancellation_without_insurance_is_earned():
    """A late cancellation refunds nothing, and pays the staff member as for a completed booking."""
    journey = cancelled_journey()
    assert shares(journey) == (0, FEE, PAYOUT)
    assert journey.booking.payout_status is PayoutStatus.SCHEDULED


def test_a_deployment_may_keep_what_a_late_cancellation_leaves():
    """Without `late_cancel_payout` the platform keeps the amount, and nothing is paid out."""
    journey = cancelled_journey(evolve(POLICY, late_cancel_payout=False))
    assert shares(journey) == (0, TOTAL, 0)
    assert journey.booking.payout_status is PayoutStatus.NONE


def test_that_setting_does_not_touch_completions():
    """A completed booking is paid out whatever `late_cancel_payout` is."""
    assert (
        completed_journey(evolve(POLICY, late_cancel_payout=False)).booking.payout_amount == PAYOUT
    )


def test_a_refund_is_ordered_of_the_bookings_payment():
    """A refund order names payment and amount, and is pending until the processor confirms it."""
    journey = paid_journey()
    step = journey.apply(T.CANCEL, P.STAFF)
    assert commands(step) == [RefundPayment("pay_1", TOTAL, "usd")]
    assert step.booking.payment_status is PaymentStatus.REFUND_PENDING


def test_nothing_is_ordered_where_nothing_goes_back():
    """A refund of 0 is not ordered."""
    journey = paid_journey()
    step = journey.apply(T.CANCEL, P.CUSTOMER, journey.starts_at - HOUR)
    assert step.orders == ()
    assert step.booking.payment_status is PaymentStatus.SUCCEEDED


# Disputes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trigger, amount, expected",
    [
        (T.RESOLVE_RELEASE, 0, (0, FEE, PAYOUT)),
        (T.RESOLVE_REFUND, 0, (42_000, 0, 0)),
        (T.RESOLVE_SPLIT, 10_000, (10_000, 4_500, 25_500)),
        (T.RESOLVE_SPLIT, 40_000, (40_000, 0, 0)),
        (T.RESOLVE_SPLIT, 42_000, (42_000, 0, 0)),
    ],
)
@pytest.mark.parametrize("after_completion", [False, True])
def test_a_resolution_shares_by_its_kind(trigger, amount, expected, after_completion):
    """A resolution divides the escrow alike for disputes before and after completion."""
    journey = completed_journey(**INSURED) if after_completion else disputed_journey(**INSURED)
    if after_completion:
        journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at)
    journey.apply(trigger, P.ADMIN, journey.ends_at + HOUR, refund_amount=amount)
    assert shares(journey) == expected
    assert journey.faults == []


@pytest.mark.parametrize("amount", [-1, 0, 40_001, 41_999, 42_001, 10**9])
def test_a_split_is_of_the_price_or_of_all(amount):
    """A split refunds up to the price or everything; a part of the premium is refused."""
    with pytest.raises(RuleBroken) as caught:
        disputed_journey(**INSURED).apply(
            T.RESOLVE_SPLIT, P.ADMIN, NOW + 9 * DAY, refund_amount=amount
        )
    assert caught.value.code == "split_out_of_range"


def test_a_second_dispute_can_give_the_rest_back():
    """A refund of a dispute after a split returns exactly the rest of the payment."""
    journey = disputed_journey(**INSURED)
    journey.apply(T.RESOLVE_SPLIT, P.ADMIN, journey.ends_at, refund_amount=10_000)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR)
    assert journey.booking.escrow == 32_000
    step = journey.apply(T.RESOLVE_REFUND, P.ADMIN, journey.ends_at + 2 * HOUR)
    assert commands(step) == [RefundPayment("pay_1", 32_000, "usd")]
    assert journey.booking.refunded_amount == 42_000
    assert journey.faults == []


def test_a_dispute_freezes_the_payout():
    """A dispute moves all money back into escrow and freezes the payout."""
    journey = completed_journey(**INSURED)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at)
    assert journey.booking.payout_status is PayoutStatus.FROZEN
    assert journey.booking.escrow == TOTAL + PREMIUM
    assert journey.balance(Account.PLATFORM_FEES) == journey.balance(Account.STAFF_PAYABLE) == 0


def test_a_released_dispute_pays_at_once_where_the_delay_is_over():
    """A payout after a dispute is due at once if the delay since the first completion is over."""
    journey = completed_journey()
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at)
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + 5 * DAY)
    assert journey.booking.payout_due_at == journey.ends_at + 5 * DAY


def test_a_soon_released_dispute_keeps_the_due_time():
    """A payout after a short dispute keeps the due time of the completion."""
    journey = completed_journey()
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at)
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + HOUR)
    assert journey.booking.payout_due_at == journey.ends_at + DAY


# Payout and chargeback ------------------------------------------------------------------


def test_a_release_orders_the_payout():
    """The payout order names the payment and the amount left to pay."""
    journey = completed_journey()
    step = journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    assert commands(step) == [PayOut("pay_1", 2, PAYOUT, "usd")]
    assert step.booking.payout_n == step.orders[0].n


def test_a_chargeback_takes_the_cash():
    """A chargeback becomes a receivable, leaves the escrow whole, and alerts the operators."""
    journey = paid_journey()
    step = charge_back(journey, DAY)
    assert journey.balance(Account.DISPUTE_RECEIVABLE) == TOTAL
    assert journey.balance(Account.PROCESSOR_BALANCE) == 0
    assert journey.booking.escrow == TOTAL
    assert len(step.alerts) == 1


def test_a_chargeback_after_the_payout_claims_it_back():
    """A paid-out amount is claimed by a reversal, and is a debt until that succeeds."""
    journey, _ = paid_out_journey()
    payout = next(op for op in journey.operations.values() if op.kind is OperationKind.PAY_OUT)
    step = charge_back(journey, 2 * DAY)
    assert commands(step) == [ReversePayout(payout.n, PAYOUT, "usd")]
    assert journey.booking.owed_by_staff == journey.balance(Account.STAFF_RECEIVABLE) == PAYOUT
    assert journey.faults == []


def test_a_chargeback_won_after_the_payout_settles_the_debt():
    """The staff member's debt and payout are netted, so nothing is sent twice."""
    journey, _ = paid_out_journey()
    charge_back(journey, 2 * DAY)
    step = judge(journey, 3 * DAY, ChargebackStatus.WON)
    assert step.orders == ()
    assert (journey.booking.owed_by_staff, journey.booking.payout_left) == (0, 0)
    assert journey.booking.payout_status is PayoutStatus.PAID
    assert journey.faults == []


def test_a_chargeback_lost_after_the_payout_leaves_a_debt():
    """The staff member owes the paid-out amount until the reversal succeeds."""
    journey, _ = paid_out_journey()
    charge_back(journey, 2 * DAY)
    judge(journey, 3 * DAY, ChargebackStatus.LOST)
    assert shares(journey) == (0, 0, 0)
    assert journey.booking.owed_by_staff == PAYOUT
    assert journey.booking.payment_status is PaymentStatus.CHARGED_BACK
    assert journey.faults == []


@pytest.mark.parametrize(
    "amount, fee, payout, loss",
    [(10_000, 4_500, 25_500, 0), (40_000, 0, 0, 0), (42_000, 0, 0, 0), (45_000, 0, 0, 3_000)],
)
def test_a_lost_chargeback_leaves_the_rest_earned(amount, fee, payout, loss):
    """A chargeback below the total leaves fee and payout of the rest; the excess of a larger one is
    a loss."""
    journey = paid_journey(**INSURED)
    charge_back(journey, DAY, amount=amount)
    step = judge(journey, 2 * DAY, ChargebackStatus.LOST, amount=amount)
    assert shares(journey) == (0, fee, payout)
    assert journey.balance(Account.CHARGEBACK_LOSSES) == loss
    assert step.orders == ()
    assert journey.faults == []


def test_a_chargeback_of_a_cancelled_booking_changes_no_status():
    """The chargeback is recorded and posted, and the operators are alerted."""
    journey = cancelled_journey()
    step = charge_back(journey, DAY)
    assert (step.booking.status, len(step.alerts)) == (BookingStatus.CANCELLED, 1)
    assert journey.balance(Account.DISPUTE_RECEIVABLE) == TOTAL
    assert journey.faults == []


def test_a_lost_chargeback_of_a_cancelled_booking_is_written_off():
    """The platform bears the loss; earnings stay as they are."""
    journey = cancelled_journey()
    charge_back(journey, DAY)
    judge(journey, 2 * DAY, ChargebackStatus.LOST)
    assert journey.balance(Account.CHARGEBACK_LOSSES) == TOTAL
    assert journey.balance(Account.DISPUTE_RECEIVABLE) == 0
    assert journey.faults == []


def test_a_chargeback_after_all_was_given_back_finds_nothing_to_freeze():
    """A chargeback after a full refund is recorded, and its loss is the platform's."""
    journey = disputed_journey(**INSURED)
    journey.apply(T.RESOLVE_SPLIT, P.ADMIN, journey.ends_at, refund_amount=TOTAL + PREMIUM)
    step = charge_back(journey, DAY)
    assert (step.booking.status, step.booking.escrow) == (BookingStatus.DISPUTED, 0)
    judge(journey, 2 * DAY, ChargebackStatus.LOST)
    assert journey.balance(Account.CHARGEBACK_LOSSES) == TOTAL + PREMIUM
    assert journey.faults == []


# Late and extra payments ----------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [paid_journey, completed_journey, disputed_journey, cancelled_journey]
)
def test_a_second_payment_goes_straight_back(make):
    """A second payment is posted, owed in full and refunded, and changes nothing else."""
    journey = make()
    before = journey.booking
    step = journey.apply(T.PAYMENT, P.PROCESSOR, payment=journey.payment("pay_2"))
    assert commands(step) == [RefundPayment("pay_2", TOTAL, "usd")]
    assert (step.booking.status, step.booking.escrow) == (before.status, before.escrow)
    assert step.booking.refunded_amount == before.refunded_amount
    assert step.event is None
    assert journey.faults == []


def test_a_payment_of_a_cancelled_booking_is_refunded():
    """The booking stays cancelled, and its refunded amount is the whole payment."""
    journey = accepted_journey()
    journey.apply(T.CANCEL, P.CUSTOMER)
    step = journey.apply(T.PAYMENT, P.PROCESSOR, payment=journey.payment())
    assert (step.booking.status, step.event) == (BookingStatus.CANCELLED, None)
    assert step.booking.refunded_amount == TOTAL
    assert step.booking.payment_status is PaymentStatus.REFUND_PENDING
    assert len(step.alerts) == 1
    assert journey.faults == []
