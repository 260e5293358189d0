"""Money of whole bookings on each processor.

Each test ends with a ledger equal to the processor's statement (`PaymentScenario.finish`).
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, SECOND
from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.ledger import Account, MovementKind as Moved
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases.payments import operations, payouts, refunds
from tests.money.payment_scenarios import LATER_DATE, PAYOUT_AMOUNT, TOTAL_AMOUNT, PaymentScenario

pytestmark = pytest.mark.anyio

# The usual course ---------------------------------------------------------------------------


async def test_a_booking_is_paid_and_paid_out(scenario: PaymentScenario) -> None:
    """A completed booking moves its total in once and its payout amount out once."""
    booking = await scenario.finish(await scenario.paid_out())

    assert (booking.status, booking.payout_status) == (BookingStatus.COMPLETED, PayoutStatus.PAID)
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
    }


async def test_an_unconfirmed_booking_is_paid_out(scenario: PaymentScenario) -> None:
    """An unconfirmed booking is paid out 72 hours and a day after its end."""
    booking = await scenario.paid()
    await scenario.jump_to(booking.ends_at + 72 * HOUR + DAY)

    booking = await scenario.finish(booking)

    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
    }


async def test_a_second_card_pays_after_a_decline(scenario: PaymentScenario) -> None:
    """After a decline the same checkout is paid once."""
    booking = await scenario.accepted()
    await scenario.simulate_checkout(booking, "decline")
    await scenario.drain()
    await scenario.simulate_checkout(booking)

    await scenario.settle()

    assert (await scenario.booking(booking)).status is BookingStatus.PAID
    assert await scenario.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}
    await scenario.check()


async def test_a_booking_is_cancelled_before_payment(scenario: PaymentScenario) -> None:
    """A booking cancelled before payment closes its checkout, so a later payment moves nothing."""
    booking = await scenario.accepted()
    page = await scenario.checkout_page(booking)
    await scenario.cancel(booking)
    await scenario.drain()
    await scenario.bench.outside_world.pay(page)

    booking = await scenario.finish(booking)

    assert (booking.status, booking.payment_status) == (BookingStatus.CANCELLED, PaymentStatus.VOID)
    assert await scenario.moved_by_kind(booking) == {}


async def test_a_payment_after_cancellation_is_refunded(scenario: PaymentScenario) -> None:
    """A payment after the cancellation is refunded in full."""
    booking = await scenario.accepted()
    page = await scenario.checkout_page(booking)
    await scenario.cancel(booking)
    await scenario.bench.outside_world.pay(page)

    booking = await scenario.finish(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT,
    }


# Cancellations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "insured", "refund", "payout"),
    [
        (48 * HOUR, False, 40_000, 0),
        (24 * HOUR, False, 20_000, 17_000),
        (HOUR, False, 0, 34_000),
        (48 * HOUR, True, 42_000, 0),
        (HOUR, True, 20_000, 17_000),
    ],
    ids=["all", "half", "nothing", "insured early", "insured late"],
)
async def test_the_client_cancels(
    scenario: PaymentScenario, before: timedelta, insured: bool, refund: int, payout: int
) -> None:
    """A client's cancellation splits the price into refund and payout by notice and insurance."""
    booking = await scenario.paid(cancellation_insurance=insured)
    await scenario.jump_to(booking.starts_at - before)
    await scenario.cancel(booking)
    await scenario.drain()
    scenario.pass_time(DAY)

    booking = await scenario.finish(booking)

    wanted = {Moved.PAYMENT: booking.total_amount, Moved.REFUND: -refund, Moved.PAYOUT: -payout}
    assert await scenario.moved_by_kind(booking) == {
        kind: sum_ for kind, sum_ in wanted.items() if sum_
    }


async def test_the_companion_cancels(scenario: PaymentScenario) -> None:
    """A companion's cancellation an hour before the start refunds the client in full."""
    booking = await scenario.paid()
    await scenario.jump_to(booking.starts_at - HOUR)
    await scenario.cancel(booking, scenario.staff)

    booking = await scenario.finish(booking)

    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT,
    }


# Disputes and chargebacks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "refund", "payout"),
    [
        (ResolutionOutcome.RELEASE, 0, 34_000),
        (ResolutionOutcome.REFUND, 40_000, 0),
        (ResolutionOutcome.SPLIT, 10_000, 25_500),
    ],
)
async def test_a_dispute_is_resolved(
    scenario: PaymentScenario, outcome: ResolutionOutcome, refund: int, payout: int
) -> None:
    """A dispute blocks the payout, and its resolution splits the money as decided."""
    booking = await scenario.completed()
    booking = await scenario.dispute(booking)
    scenario.pass_time(3 * DAY)
    await scenario.drain()
    assert await scenario.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}

    await scenario.resolve(booking, outcome, 10_000 if outcome is ResolutionOutcome.SPLIT else 0)
    await scenario.drain()
    scenario.pass_time(DAY)
    booking = await scenario.finish(booking)

    wanted = {Moved.PAYMENT: TOTAL_AMOUNT, Moved.REFUND: -refund, Moved.PAYOUT: -payout}
    assert await scenario.moved_by_kind(booking) == {
        kind: sum_ for kind, sum_ in wanted.items() if sum_
    }


async def test_a_chargeback_holds_the_payout(scenario: PaymentScenario) -> None:
    """An open chargeback freezes a due payout."""
    booking = await scenario.completed()
    booking = await scenario.charge_back(booking)
    scenario.pass_time(3 * DAY)
    await scenario.settle()

    assert (await scenario.booking(booking)).payout_status is PayoutStatus.FROZEN
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
    }
    await scenario.check()


async def test_a_chargeback_is_won(scenario: PaymentScenario) -> None:
    """A won chargeback returns the money, and the companion is paid out."""
    booking = await scenario.charge_back(await scenario.completed())
    await scenario.charge_back(booking, "won")
    scenario.pass_time(DAY)

    booking = await scenario.finish(booking)

    assert booking.status is BookingStatus.COMPLETED
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
        Moved.REINSTATEMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
    }


async def test_a_chargeback_is_lost(scenario: PaymentScenario) -> None:
    """A lost chargeback before the payout ends the booking without further movements."""
    booking = await scenario.charge_back(await scenario.completed())
    await scenario.charge_back(booking, "lost")
    scenario.pass_time(3 * DAY)

    booking = await scenario.finish(booking)

    assert (booking.status, booking.payment_status) == (
        BookingStatus.CANCELLED,
        PaymentStatus.CHARGED_BACK,
    )
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
    }


async def test_a_payout_is_reversed_and_made_again(scenario: PaymentScenario) -> None:
    """A chargeback after the payout reverses it, and a won one pays it out again."""
    booking = await scenario.charge_back(await scenario.paid_out())
    assert (await scenario.moved_by_kind(booking))[Moved.REVERSAL] == PAYOUT_AMOUNT

    await scenario.charge_back(booking, "won")
    scenario.pass_time(DAY)
    booking = await scenario.finish(booking)

    assert booking.payout_status is PayoutStatus.PAID
    moved = await scenario.moved_by_kind(booking)
    assert (moved[Moved.PAYOUT], moved[Moved.REVERSAL]) == (-2 * PAYOUT_AMOUNT, PAYOUT_AMOUNT)


async def test_a_payout_is_reversed_by_a_lost_chargeback(scenario: PaymentScenario) -> None:
    """After a payout and a lost chargeback the movements add up to zero without a debt."""
    booking = await scenario.charge_back(await scenario.paid_out())

    booking = await scenario.finish(await scenario.charge_back(booking, "lost"))

    assert sum((await scenario.moved_by_kind(booking)).values()) == 0
    assert booking.owed_by_staff == 0


async def test_a_debt_is_withheld_from_the_next_payout(scenario: PaymentScenario) -> None:
    """An amount that could not be reversed is withheld from the companion's next payout."""
    first = await scenario.paid_out()
    await scenario.fault(OperationKind.REVERSE_PAYOUT, "refuse")
    await scenario.charge_back(first)
    first = await scenario.charge_back(first, "lost")
    assert first.owed_by_staff == PAYOUT_AMOUNT

    second = await scenario.finish(await scenario.paid_out(event_date=LATER_DATE, duration_hours=8))

    assert (await scenario.moved_by_kind(second))[Moved.PAYOUT] == -(
        second.payout_amount - PAYOUT_AMOUNT
    )
    first = await scenario.finish(first)
    assert (first.owed_by_staff, first.netted, second.netted) == (0, -PAYOUT_AMOUNT, PAYOUT_AMOUNT)


# Payees -------------------------------------------------------------------------------------


async def test_a_payee_becomes_ready(scenario: PaymentScenario) -> None:
    """A payout refused for an unready payee is made once the payee is ready."""
    await scenario.set_ready(False)
    booking = await scenario.paid_out()
    assert booking.payout_status is PayoutStatus.FAILED
    assert await scenario.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}

    scenario.pass_time(30 * SECOND)
    await scenario.set_ready(True)
    await scenario.drain()

    booking = await scenario.finish(booking)
    assert booking.payout_status is PayoutStatus.PAID
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.PAYOUT: -PAYOUT_AMOUNT,
    }


async def test_a_payout_on_hold_waits(scenario: PaymentScenario) -> None:
    """A payout on hold is made only after its release."""
    booking = await scenario.completed()
    await payouts.hold_payout(scenario.ports, booking.code)
    scenario.pass_time(3 * DAY)
    await scenario.drain()
    assert await scenario.moved_by_kind(booking) == {Moved.PAYMENT: TOTAL_AMOUNT}

    await payouts.release_payout(scenario.ports, booking.code)
    booking = await scenario.finish(booking)

    assert (await scenario.moved_by_kind(booking))[Moved.PAYOUT] == -PAYOUT_AMOUNT


# Refunds ------------------------------------------------------------------------------------


async def test_a_refund_settles_later(scenario: PaymentScenario) -> None:
    """A pending refund is owed until it settles."""
    booking = await scenario.paid()
    await scenario.fault(OperationKind.REFUND, "pending_then_settled")
    await scenario.cancel(booking)
    await scenario.drain()
    assert (await scenario.owed_by_account(booking)) == {Account.REFUND_PAYABLE: TOTAL_AMOUNT}

    booking = await scenario.finish(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.REFUND: -TOTAL_AMOUNT,
    }


async def test_a_failed_refund_is_retried(scenario: PaymentScenario) -> None:
    """A failed refund is owed until an operator retries it."""
    booking = await scenario.paid()
    await scenario.fault(OperationKind.REFUND, "pending_then_failed")
    await scenario.cancel(booking)
    await scenario.drain()
    await scenario.settle()
    assert (await scenario.owed_by_account(booking)) == {Account.REFUND_PAYABLE: TOTAL_AMOUNT}
    assert len(await refunds.list_failed_refunds(scenario.ports)) == 1

    await refunds.retry_refunds(scenario.ports, booking.code)
    booking = await scenario.finish(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert sum((await scenario.moved_by_kind(booking)).values()) == 0


async def _refused_refund(scenario: PaymentScenario) -> Booking:
    """A booking cancelled by the companion whose refund was refused for an open chargeback."""
    booking = await scenario.paid()
    await scenario.bench.outside_world.charge_back(booking.id, "open")
    await scenario.lose_events()
    await scenario.cancel(booking, scenario.staff)
    await operations.run_booking_operations(scenario.ports, booking.id)
    assert (await scenario.operations(booking))[-1].status is OperationStatus.REFUSED
    return booking


async def test_a_refund_waits_for_the_verdict(scenario: PaymentScenario) -> None:
    """A refund refused for an open chargeback is made after the chargeback is won."""
    booking = await _refused_refund(scenario)

    await scenario.charge_back(booking, "won")
    booking = await scenario.finish(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert sum((await scenario.moved_by_kind(booking)).values()) == 0


async def test_a_lost_chargeback_replaces_the_refund(scenario: PaymentScenario) -> None:
    """A lost chargeback replaces the owed refund."""
    booking = await _refused_refund(scenario)

    await scenario.charge_back(booking, "lost")
    booking = await scenario.finish(booking)

    assert await scenario.moved_by_kind(booking) == {
        Moved.PAYMENT: TOTAL_AMOUNT,
        Moved.CHARGEBACK: -TOTAL_AMOUNT,
    }


# Unexpected movements -----------------------------------------------------------------------


async def test_a_wrong_amount_is_no_payment(scenario: PaymentScenario) -> None:
    """A payment of a wrong amount is posted to suspense, and the booking stays unpaid."""
    booking = await scenario.accepted()
    await scenario.pay_wrong_amount(booking, TOTAL_AMOUNT - 1)
    await scenario.settle()

    booking = await scenario.booking(booking)
    assert booking.status is BookingStatus.ACCEPTED
    assert await scenario.owed_by_account(booking) == {Account.SUSPENSE: TOTAL_AMOUNT - 1}
    await scenario.check()


async def test_money_moved_by_hand_is_booked(scenario: PaymentScenario) -> None:
    """A refund by hand is posted to suspense."""
    booking = await scenario.paid()
    await scenario.refund_by_hand(booking, 1_000)
    await scenario.settle()

    assert await scenario.owed_by_account(booking) == {
        Account.ESCROW: TOTAL_AMOUNT,
        Account.SUSPENSE: -1_000,
    }
    await scenario.check()
