"""Debts of staff members: amounts owed for one booking are netted against the next payout."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    SECOND,
    make_booking_write,
    make_posting,
    next_revision,
)
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import IntentRefs, OperationKind
from staffbooking_core.domain.reconciliation import debts
from staffbooking_core.errors import Conflict
from staffbooking_core.usecases import booking_writes
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import earnings, ledger_check, operations, payouts
from tests.support.memory_deployment import with_another_companion, with_another_customer

pytestmark = pytest.mark.anyio

PAYOUT, FEE = 34_000, 6_000
HALF = 17_000


async def in_days(scene, days):
    return (await scene.now()).date() + days * DAY


async def owing(scene, booking=None):
    """Pay a booking out, then lose a chargeback whose payout cannot be reversed."""
    booking = booking or await scene.paid_out()
    await scene.fault("reverse_payout", "refuse:insufficient_funds", 1000)
    await scene.charge_back(booking, "lost")
    await scene.drain()
    found = await scene.booking(booking)
    assert found.owed_by_staff == found.paid_out > 0
    return found


async def pay_out(scene, **given):
    """Book the same companion again, until that payout was due and sent."""
    booking = await scene.completed(**{"event_date": await in_days(scene, 4), **given})
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    return await scene.booking(booking)


async def sent(scene, booking):
    """The amounts of the payouts at the processor."""
    snapshot = await scene.ports.payments.snapshot(IntentRefs(booking.id), 5.0)
    return [payout.amount for payout in snapshot.payouts]


async def reversals(scene, booking):
    ordered = await scene.operations(booking)
    return [
        (str(one.status), one.command.amount)
        for one in ordered
        if one.kind is OperationKind.REVERSE_PAYOUT
    ]


async def settled(scene, *bookings):
    """All bookings in their final state, after the processor reversed what remains claimed."""
    await scene.clear_faults()
    await scene.settle_down()
    assert await scene.faults() == []
    return [await scene.booking(booking) for booking in bookings]


# Amounts --------------------------------------------------------------------------------


async def test_a_debt_is_kept_from_the_next_payout(scene):
    """A payout equal to the debt is kept in full, and nothing is owed afterwards."""
    debtor = await owing(scene)
    payer = await pay_out(scene)
    assert await sent(scene, payer) == []
    assert (payer.netted, payer.payout_status) == (PAYOUT, PayoutStatus.PAID)
    debtor, payer = await settled(scene, debtor, payer)
    assert (debtor.netted, debtor.owed_by_staff) == (-PAYOUT, 0)
    assert await reversals(scene, debtor) == [("void", PAYOUT)]
    assert await scene.processor_balance() == FEE + 0


async def test_a_payout_that_was_withheld_in_full_is_owed_after_a_lost_chargeback(scene):
    """The page of earnings shows the debt of a booking whose payout settled another debt."""
    await owing(scene)
    payer = await pay_out(scene)
    await scene.charge_back(payer, "lost")
    await scene.drain()
    payer = await scene.booking(payer)
    assert (payer.payout_status, payer.owed_by_staff) == (PayoutStatus.REVERSED, PAYOUT)
    shown = await earnings.get_earnings(scene.ports, scene.staff)
    assert shown.owed == PAYOUT
    assert payer.id in {each.booking.id for each in shown.earnings}


async def test_a_payout_reversed_by_hand_is_not_withheld_again(scene):
    """The debt of a payout that an operator has reversed at the processor is not withheld."""
    booking = await scene.paid_out()
    await scene.ports.payments.dashboard.reverse_payout(booking.id, PAYOUT)
    await scene.drain()
    await scene.charge_back(booking, "lost")
    await scene.settle_down()
    payer = await pay_out(scene)
    assert (payer.netted, await sent(scene, payer)) == (0, [PAYOUT])
    assert await scene.faults() == []


async def test_a_debt_in_another_currency_is_not_withheld(scene):
    """A debt in another currency than the payout's is not withheld."""
    debtor = await owing(scene)
    foreign = evolve(debtor, currency="jpy")
    payer = await scene.completed(event_date=await in_days(scene, 4))
    debt = debts.Debt(foreign, tuple(await scene.operations(debtor)))
    assert debts.net_debts(payer, [debt], await scene.now()) == []


async def test_a_payout_that_is_larger_is_sent_in_part(scene):
    """Of a payout larger than the debt, the staff member gets the rest."""
    debtor = await owing(scene)
    payer = await pay_out(scene, duration_hours=6)
    assert (payer.netted, await sent(scene, payer)) == (PAYOUT, [HALF])
    debtor, payer = await settled(scene, debtor, payer)
    assert (payer.paid_out, payer.payout_left, payer.payout_status) == (HALF, 0, PayoutStatus.PAID)
    assert await scene.processor_balance() == 9_000


async def test_a_debt_that_is_larger_is_kept_in_part(scene):
    """The rest of a larger debt is claimed again, and reversed once the processor can."""
    debtor = await owing(scene)
    payer = await pay_out(scene, duration_hours=2)
    found = await scene.booking(debtor)
    assert (payer.netted, found.owed_by_staff) == (HALF, HALF)
    debtor, payer = await settled(scene, debtor, payer)
    assert (debtor.paid_out, debtor.netted, debtor.owed_by_staff) == (HALF, -HALF, 0)
    assert await reversals(scene, debtor) == [("void", PAYOUT), ("done", HALF)]
    assert await scene.processor_balance() == 3_000


async def test_a_debt_is_kept_from_as_many_payouts_as_it_takes(scene):
    """The second payout settles the rest of the debt."""
    debtor = await owing(scene)
    first = await pay_out(scene, duration_hours=2)
    scene.pass_time(HOUR)
    second = await pay_out(scene, duration_hours=3)
    assert (first.netted, second.netted) == (HALF, HALF)
    assert await sent(scene, second) == [25_500 - HALF]
    assert (await scene.booking(debtor)).owed_by_staff == 0
    await settled(scene, debtor)


async def test_several_debts_are_kept_in_the_order_of_their_bookings(scene):
    """The first debt is settled in full before the next one."""
    first, second = await scene.paid_out(), await pay_out(scene)
    await owing(scene, second)
    await owing(scene, first)
    payer = await pay_out(scene, duration_hours=6)
    assert (payer.netted, await sent(scene, payer)) == (51_000, [])
    owed = [(await scene.booking(one)).owed_by_staff for one in (first, second)]
    assert owed == [0, HALF]
    await settled(scene, first, second, payer)


async def test_a_debtor_that_was_booked_later_is_kept_for_as_well(scene):
    """Debts are netted whichever of the two bookings has the lower id."""
    payer = await scene.paid(event_date=await in_days(scene, 20))
    debtor = await owing(scene)
    await scene.jump_to(payer.ends_at + 5 * DAY)
    await scene.drain()
    assert payer.id < debtor.id
    assert (await scene.booking(payer)).netted == PAYOUT
    assert (await scene.booking(debtor)).owed_by_staff == 0
    await settled(scene, payer, debtor)


# Conditions -----------------------------------------------------------------------------


async def test_nobody_pays_the_debts_of_others(scene):
    """The payout of another companion is sent in full."""
    await owing(scene)
    other = await with_another_companion(await with_another_customer(scene))
    payer = await pay_out(other)
    assert (payer.netted, await sent(scene, payer)) == (0, [PAYOUT])


async def test_nothing_is_kept_before_the_verdict(scene):
    """Nothing is netted while the chargeback is open."""
    booking = await scene.paid_out()
    await scene.fault("reverse_payout", "refuse:insufficient_funds", 1000)
    await scene.charge_back(booking, "open")
    await scene.drain()
    payer = await pay_out(scene)
    assert (payer.netted, await sent(scene, payer)) == (0, [PAYOUT])


@pytest.mark.parametrize("kind", ["timeout_before", "timeout_after"])
async def test_nothing_is_kept_while_a_reversal_is_on_its_way(scene, kind):
    """Nothing is netted while the outcome of a reversal is unknown."""
    debtor = await scene.paid_out()
    payer = await scene.completed(event_date=await in_days(scene, 4))
    await scene.drain()
    await scene.fault("reverse_payout", kind)
    await scene.charge_back(debtor, "lost")
    await operations.run_due_operation(scene.ports)
    assert await reversals(scene, debtor) == [("unknown", PAYOUT)]
    await scene.jump_to(payer.ends_at + DAY)
    await timers.fire_due_timers(scene.ports)
    assert (await scene.booking(payer)).netted == 0
    debtor, payer = await settled(scene, debtor, payer)
    assert (debtor.owed_by_staff, debtor.paid_out, payer.paid_out) == (0, 0, PAYOUT)


async def test_an_operator_is_told_once_that_a_reversal_waits(scene):
    """Operators get one alert, however often the reversal is retried."""
    debtor = await owing(scene)
    for _ in range(30):
        scene.pass_time(HOUR)
        await scene.drain()
    told = [text for number, text in scene.ports.notifier.alerts if "reverse_payout" in text]
    assert len(told) == 1
    assert (await scene.booking(debtor)).owed_by_staff == PAYOUT


async def test_nothing_is_kept_before_the_payout_is_due(scene):
    """Nothing is netted at completion, when the customer may still dispute."""
    debtor = await owing(scene)
    payer = await scene.paid(event_date=await in_days(scene, 4))
    await scene.jump_to(payer.ends_at + 4 * DAY - SECOND)
    await scene.drain()
    found = await scene.booking(payer)
    assert (found.payout_status, found.netted) == (PayoutStatus.SCHEDULED, 0)
    assert (await scene.booking(debtor)).owed_by_staff == PAYOUT


async def test_nothing_is_kept_of_a_payout_that_was_sent(scene):
    """Nothing is netted when the late-payout alarm fires, since the payout may have been sent."""
    debtor = await scene.paid_out()
    await scene.fault("pay_out", "timeout_before", 1000)
    payer = await pay_out(scene)
    await owe(scene, debtor)
    await scene.jump_to(payer.ends_at + 42 * HOUR)
    await scene.drain()
    assert "is not made yet" in scene.ports.notifier.alerts[-1][1]
    assert (await scene.booking(payer)).netted == 0


async def owe(scene, booking):
    """Make a booking owe an amount."""
    posting = make_posting(booking.id, amount=PAYOUT)
    accounts = (Account.STAFF_RECEIVABLE, Account.STAFF_PAYABLE)
    legs = tuple(
        evolve(leg, account=account) for leg, account in zip(posting.legs, accounts, strict=True)
    )
    change = make_booking_write(
        next_revision(await scene.booking(booking), owed_by_staff=PAYOUT),
        postings=(evolve(posting, legs=legs),),
    )
    await scene.ports.store.run_transaction(lambda tx: tx.bookings.save_booking(change))


async def test_a_held_payout_keeps_nothing(scene):
    """A payout on hold is netted only once it is released."""
    debtor = await owing(scene)
    payer = await scene.completed(event_date=await in_days(scene, 4))
    await payouts.hold_payout(scene.ports, payer.code)
    await scene.jump_to(payer.ends_at + 9 * DAY)
    await scene.drain()
    assert (await scene.booking(debtor)).owed_by_staff == PAYOUT
    await payouts.release_payout(scene.ports, payer.code)
    await scene.drain()
    assert (await scene.booking(payer)).netted == PAYOUT
    await settled(scene, debtor, payer)


# Crashes and concurrency ----------------------------------------------------------------


async def ready_to_pay(scene):
    """A debt, and a payout of the same companion that is due now."""
    debtor = await owing(scene)
    payer = await scene.completed(event_date=await in_days(scene, 4))
    await scene.drain()
    await scene.jump_to(payer.ends_at + DAY)
    return debtor, payer


async def test_a_crash_within_keeps_all_of_it_or_nothing(scene, monkeypatch):
    """A crash during netting changes neither booking, and the next worker nets both."""
    debtor, payer = await ready_to_pay(scene)
    before = [await scene.booking(one) for one in (debtor, payer)]

    async def apply(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(timers, "advance_booking", apply)
    with pytest.raises(KeyboardInterrupt):
        await timers.fire_due_timers(scene.ports)
    assert [await scene.booking(one) for one in (debtor, payer)] == before
    monkeypatch.undo()
    scene.pass_time(scene.ports.policy.lease_duration)
    await scene.drain()
    assert (await scene.booking(payer)).netted == PAYOUT
    await settled(scene, debtor, payer)


async def test_a_unit_that_is_repeated_keeps_it_once(scene, monkeypatch):
    """A repeated transaction nets the debt once."""
    debtor, payer = await ready_to_pay(scene)
    tries = []

    async def apply(*given):
        tries.append(given)
        if len(tries) == 1:
            raise Conflict("booking")
        return await booking_writes.advance_booking(*given)

    monkeypatch.setattr(timers, "advance_booking", apply)
    await scene.drain()
    assert len(tries) == 2
    assert (await scene.booking(payer)).netted == PAYOUT
    assert (await scene.booking(debtor)).netted == -PAYOUT
    await settled(scene, debtor, payer)


async def test_a_reversal_sent_in_the_same_moment_is_paid_back(scene, monkeypatch):
    """A debt that is both netted and reversed concurrently is paid back once."""
    debtor, payer = await ready_to_pay(scene)
    monkeypatch.setattr(debts.Debt, "can_be_netted", True)
    await scene.clear_faults()
    await scene.fault("event", "drop", 1000)
    await scene.fault("reverse_payout", "timeout_after")
    scene.pass_time(HOUR)
    await operations.run_due_operation(scene.ports)
    assert (await reversals(scene, debtor))[-1] == ("unknown", PAYOUT)
    await timers.fire_due_timers(scene.ports)
    assert (await scene.booking(payer)).netted == PAYOUT
    await scene.settle_down()
    await scene.jump_to(await scene.now() + 2 * DAY)
    debtor, payer = await settled(scene, debtor, payer)
    assert (debtor.received_by_staff, debtor.owed_by_staff) == (0, 0)
    assert debtor.paid_out == PAYOUT
    assert payer.received_by_staff == PAYOUT


# Checks ---------------------------------------------------------------------------------


async def test_the_check_finds_what_was_kept_and_not_made_good(scene):
    """The ledger check finds netting whose two sides do not cancel out."""
    debtor = await owing(scene)
    payer = await pay_out(scene)
    assert await scene.faults() == []
    found = await scene.booking(payer)
    back = make_posting(found.id, amount=5)
    legs = tuple(
        evolve(leg, account=account)
        for leg, account in zip(
            back.legs, (Account.STAFF_NETTING, Account.PLATFORM_FEES), strict=True
        )
    )
    change = make_booking_write(
        next_revision(found, netted=found.netted - 5, platform_fee=found.platform_fee + 5),
        postings=(evolve(back, legs=legs),),
    )
    await scene.ports.store.run_transaction(lambda tx: tx.bookings.save_booking(change))
    assert "debts netted between bookings sum to -5, not to zero" in await scene.faults()
    assert (await scene.booking(debtor)).owed_by_staff == 0


async def test_the_pages_of_both_bookings_show_it(scene):
    """The ledgers of both bookings show the netted amount."""
    debtor = await owing(scene)
    payer = await pay_out(scene)
    keys = []
    for booking in (payer, debtor):
        page = await ledger_check.get_booking_ledger(scene.ports, booking.code)
        keys.append(page.postings[-1].key.split(":")[0])
    assert keys == ["kept", "made_good"]
