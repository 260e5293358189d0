"""What happens to the money of whole bookings, on each processor in the same words.

Each ends with the ledger right and equal to the processor's book (`Play.end`).
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_core.domain.bookings.booking import Booking, PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import Status, Trigger
from staffbooking_core.domain.payments.ledger import Account, MovementKind as Moved
from staffbooking_core.domain.payments.processor import OpKind, OpStatus
from staffbooking_core.usecases.payments import operations, payouts, refunds
from tests.money.payment_scenarios import LATER, PAYOUT, TOTAL, Play
from tests.support.builders import DAY, HOUR, SECOND

pytestmark = pytest.mark.anyio

# The usual way ------------------------------------------------------------------------------


async def test_a_booking_is_paid_and_paid_out(play: Play) -> None:
    """The client's money comes in once, and price less fee goes out once."""
    booking = await play.end(await play.paid_out())

    assert (booking.status, booking.payout_status) == (Status.COMPLETED, PayoutStatus.PAID)
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.PAYOUT: -PAYOUT}


async def test_nobody_confirms(play: Play) -> None:
    """72 hours after its end a booking completes by itself, a day later it is paid out."""
    booking = await play.paid()
    await play.jump_to(booking.ends_at + 72 * HOUR + DAY)

    booking = await play.end(booking)

    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.PAYOUT: -PAYOUT}


async def test_another_card_pays(play: Play) -> None:
    """After a decline the same page takes the money once."""
    booking = await play.accepted()
    await play.play(booking, "decline")
    await play.drain()
    await play.play(booking)

    await play.rest()

    assert (await play.booking(booking)).status is Status.PAID
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL}
    await play.check()


async def test_cancelled_before_it_was_paid(play: Play) -> None:
    """The page is closed: nobody can pay any more, and no money moves."""
    booking = await play.accepted()
    page = await play.page(booking)
    await play.cancel(booking)
    await play.drain()
    await play.bench.world.pay(page)

    booking = await play.end(booking)

    assert (booking.status, booking.payment_status) == (Status.CANCELLED, PaymentStatus.VOID)
    assert await play.moved(booking) == {}


async def test_paid_while_it_was_being_closed(play: Play) -> None:
    """A payment that comes after the cancellation goes back whole by itself."""
    booking = await play.accepted()
    page = await play.page(booking)
    await play.cancel(booking)
    await play.bench.world.pay(page)

    booking = await play.end(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.REFUND: -TOTAL}


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
    play: Play, before: timedelta, insured: bool, refund: int, payout: int
) -> None:
    """Refund and payout share the price by the table of cancellations."""
    booking = await play.paid(cancellation_insurance=insured)
    await play.jump_to(booking.starts_at - before)
    await play.cancel(booking)
    await play.drain()
    play.pass_time(DAY)

    booking = await play.end(booking)

    wanted = {Moved.PAYMENT: booking.total_amount, Moved.REFUND: -refund, Moved.PAYOUT: -payout}
    assert await play.moved(booking) == {kind: sum_ for kind, sum_ in wanted.items() if sum_}


async def test_the_companion_cancels(play: Play) -> None:
    """Everything goes back, however late it is."""
    booking = await play.paid()
    await play.jump_to(booking.starts_at - HOUR)
    await play.cancel(booking, play.staff)

    booking = await play.end(booking)

    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.REFUND: -TOTAL}


# Disputes and chargebacks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "refund", "payout"),
    [(Trigger.RELEASE, 0, 34_000), (Trigger.REFUND, 40_000, 0), (Trigger.SPLIT, 10_000, 25_500)],
)
async def test_a_dispute_is_resolved(
    play: Play, trigger: Trigger, refund: int, payout: int
) -> None:
    """While it lasts nothing is paid out; then the money goes as the operator says."""
    booking = await play.completed()
    booking = await play.dispute(booking)
    play.pass_time(3 * DAY)
    await play.drain()
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL}

    await play.resolve(booking, trigger, 10_000 if trigger is Trigger.SPLIT else 0)
    await play.drain()
    play.pass_time(DAY)
    booking = await play.end(booking)

    wanted = {Moved.PAYMENT: TOTAL, Moved.REFUND: -refund, Moved.PAYOUT: -payout}
    assert await play.moved(booking) == {kind: sum_ for kind, sum_ in wanted.items() if sum_}


async def test_a_chargeback_holds_the_payout(play: Play) -> None:
    """While the bank decides nothing is paid out, though it was due."""
    booking = await play.completed()
    booking = await play.charge_back(booking)
    play.pass_time(3 * DAY)
    await play.rest()

    assert (await play.booking(booking)).payout_status is PayoutStatus.FROZEN
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.CHARGEBACK: -TOTAL}
    await play.check()


async def test_a_chargeback_is_won(play: Play) -> None:
    """The money comes back, and the companion gets what is theirs."""
    booking = await play.charge_back(await play.completed())
    await play.charge_back(booking, "won")
    play.pass_time(DAY)

    booking = await play.end(booking)

    assert booking.status is Status.COMPLETED
    assert await play.moved(booking) == {
        Moved.PAYMENT: TOTAL,
        Moved.CHARGEBACK: -TOTAL,
        Moved.REINSTATEMENT: TOTAL,
        Moved.PAYOUT: -PAYOUT,
    }


async def test_a_chargeback_is_lost(play: Play) -> None:
    """The bank has given the client everything: the booking is over, nobody gets more."""
    booking = await play.charge_back(await play.completed())
    await play.charge_back(booking, "lost")
    play.pass_time(3 * DAY)

    booking = await play.end(booking)

    assert (booking.status, booking.payment_status) == (
        Status.CANCELLED,
        PaymentStatus.CHARGED_BACK,
    )
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.CHARGEBACK: -TOTAL}


async def test_a_payout_is_taken_back(play: Play) -> None:
    """A chargeback after the payout reverses it, and if that was for nothing it is sent anew."""
    booking = await play.charge_back(await play.paid_out())
    assert (await play.moved(booking))[Moved.REVERSAL] == PAYOUT

    await play.charge_back(booking, "won")
    play.pass_time(DAY)
    booking = await play.end(booking)

    assert booking.payout_status is PayoutStatus.PAID
    moved = await play.moved(booking)
    assert (moved[Moved.PAYOUT], moved[Moved.REVERSAL]) == (-2 * PAYOUT, PAYOUT)


async def test_a_payout_is_taken_back_for_good(play: Play) -> None:
    """After a payout and a lost chargeback the companion has nothing of it, nor have we."""
    booking = await play.charge_back(await play.paid_out())

    booking = await play.end(await play.charge_back(booking, "lost"))

    assert sum((await play.moved(booking)).values()) == 0
    assert booking.owed_by_staff == 0


async def test_a_debt_is_kept_from_the_next_payout(play: Play) -> None:
    """What could not be taken back is kept of the companion's next payout, to the unit."""
    first = await play.paid_out()
    await play.fault(OpKind.REVERSE_PAYOUT, "refuse")
    await play.charge_back(first)
    first = await play.charge_back(first, "lost")
    assert first.owed_by_staff == PAYOUT

    second = await play.end(await play.paid_out(event_date=LATER, duration_hours=8))

    assert (await play.moved(second))[Moved.PAYOUT] == -(second.payout_amount - PAYOUT)
    first = await play.end(first)
    assert (first.owed_by_staff, first.netted, second.netted) == (0, -PAYOUT, PAYOUT)


# Payees -------------------------------------------------------------------------------------


async def test_a_payee_becomes_ready(play: Play) -> None:
    """A payout that the payee was not ready for goes out once the payee is."""
    await play.set_ready(False)
    booking = await play.paid_out()
    assert booking.payout_status is PayoutStatus.FAILED
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL}

    play.pass_time(30 * SECOND)
    await play.set_ready(True)
    await play.drain()

    booking = await play.end(booking)
    assert booking.payout_status is PayoutStatus.PAID
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.PAYOUT: -PAYOUT}


async def test_a_payout_on_hold_waits(play: Play) -> None:
    """A payout that an operator holds is made only when it is let go."""
    booking = await play.completed()
    await payouts.hold(play.ports, booking.code)
    play.pass_time(3 * DAY)
    await play.drain()
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL}

    await payouts.release(play.ports, booking.code)
    booking = await play.end(booking)

    assert (await play.moved(booking))[Moved.PAYOUT] == -PAYOUT


# Refunds ------------------------------------------------------------------------------------


async def test_a_refund_settles_later(play: Play) -> None:
    """Until the processor says that it settled, a refund is owed."""
    booking = await play.paid()
    await play.fault(OpKind.REFUND, "pending_then_settled")
    await play.cancel(booking)
    await play.drain()
    assert (await play.owed(booking)) == {Account.REFUND_PAYABLE: TOTAL}

    booking = await play.end(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.REFUND: -TOTAL}


async def test_a_refund_fails_and_is_made_anew(play: Play) -> None:
    """A refund that failed is owed again, until an operator has it made once more."""
    booking = await play.paid()
    await play.fault(OpKind.REFUND, "pending_then_failed")
    await play.cancel(booking)
    await play.drain()
    await play.rest()
    assert (await play.owed(booking)) == {Account.REFUND_PAYABLE: TOTAL}
    assert len(await refunds.failed(play.ports)) == 1

    await refunds.retry(play.ports, booking.code)
    booking = await play.end(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert sum((await play.moved(booking)).values()) == 0


async def _refused_refund(play: Play) -> Booking:
    """Cancelled by the companion, when the bank had taken the money back already."""
    booking = await play.paid()
    await play.bench.world.charge_back(booking.id, "open")
    await play.lose_events()
    await play.cancel(booking, play.staff)
    await operations.run_of_booking(play.ports, booking.id)
    assert (await play.operations(booking))[-1].status is OpStatus.REFUSED
    return booking


async def test_a_refund_waits_for_the_bank(play: Play) -> None:
    """A refund that was refused because the bank decides is made once the bank has."""
    booking = await _refused_refund(play)

    await play.charge_back(booking, "won")
    booking = await play.end(booking)

    assert booking.payment_status is PaymentStatus.REFUNDED
    assert sum((await play.moved(booking)).values()) == 0


async def test_the_bank_gives_what_was_owed(play: Play) -> None:
    """Where the bank keeps the money, the client has it, and no refund is owed any more."""
    booking = await _refused_refund(play)

    await play.charge_back(booking, "lost")
    booking = await play.end(booking)

    assert await play.moved(booking) == {Moved.PAYMENT: TOTAL, Moved.CHARGEBACK: -TOTAL}


# By others ----------------------------------------------------------------------------------


async def test_a_wrong_amount_is_no_payment(play: Play) -> None:
    """Money of a wrong amount waits in suspense, and the booking stays unpaid."""
    booking = await play.accepted()
    await play.pay_wrong(booking, TOTAL - 1)
    await play.rest()

    booking = await play.booking(booking)
    assert booking.status is Status.ACCEPTED
    assert await play.owed(booking) == {Account.SUSPENSE: TOTAL - 1}
    await play.check()


async def test_money_moved_by_hand_is_booked(play: Play) -> None:
    """A refund that somebody made on the processor's own pages is known, and in suspense."""
    booking = await play.paid()
    await play.refund_by_hand(booking, 1_000)
    await play.rest()

    assert await play.owed(booking) == {Account.ESCROW: TOTAL, Account.SUSPENSE: -1_000}
    await play.check()
