"""Running operations: whatever the processor does, each order has exactly one effect."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND, make_lease
from staffbooking_core.domain.bookings.booking import TransitionInput
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    IntentRefs,
    OperationKind,
    OutcomeUnknown,
    ProcessorMisconfigured,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.usecases.booking_writes import advance_booking
from staffbooking_core.usecases.payments import operations
from tests.support.memory_deployment import make_booking_scenario

pytestmark = pytest.mark.anyio

KINDS = [
    "timeout_before",
    "timeout_after",
    "error_500",
    "error_500_after",
    "rate_limit",
    "conflict",
    "slow",
]
OPS = ["open_checkout", "close_checkout", "refund", "pay_out", "reverse_payout"]


async def reach(scene, op):
    """Play until just before the given operation is first sent; the booking, and the expected final
    cash."""
    match op:
        case "open_checkout":
            return await scene.accepted(), 0
        case "close_checkout":
            booking = await scene.accepted()
            await scene.drain()
            return await scene.cancel(booking), 0
        case "refund":
            return await scene.cancel(await scene.paid(), scene.staff), 0
        case "pay_out":
            booking = await scene.completed()
            await scene.jump_to(booking.ends_at + DAY)
            return booking, 6_000
        case _:
            booking = await scene.paid_out()
            await scene.ports.sandbox.chargeback(booking.id, "lost")
            return booking, 0


async def states(scene, booking, op):
    """The objects at the processor that operations of the kind have created."""
    snapshot = await scene.ports.payments.snapshot(IntentRefs(booking.id), 5.0)
    return {
        "open_checkout": snapshot.checkouts,
        "close_checkout": snapshot.checkouts,
        "refund": snapshot.refunds,
        "pay_out": snapshot.payouts,
        "reverse_payout": snapshot.reversals,
    }[op]


@pytest.mark.parametrize("times", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS)
async def test_every_fault_ends_in_exactly_one_effect(scene, op, kind, times):
    """However often a fault strikes, there is one refund, payout or reversal, and the ledger is
    right."""
    booking, cash = await reach(scene, op)
    await scene.fault(op, kind, times)
    await scene.settle_down()
    (state,) = await states(scene, booking, op)
    assert all(one.is_finished for one in await scene.operations(booking))
    if op == "close_checkout":
        assert state.status == "expired"
    assert await scene.processor_balance() == cash
    assert await scene.faults() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_faults_at_every_call_of_a_whole_life(kind):
    """Every call from request to payout may meet the fault twice."""
    scene = await make_booking_scenario()
    booking = await scene.accepted()
    await scene.fault("open_checkout", kind, 2)
    await scene.settle_down()
    await scene.simulate_checkout(booking)
    await scene.settle_down()
    await scene.jump_to(booking.ends_at + 3 * DAY)
    await scene.fault("pay_out", kind, 2)
    await scene.settle_down()
    await scene.jump_to(await scene.now() + 3 * DAY)
    await scene.settle_down()
    assert (await scene.booking(booking)).payout_status == "paid"
    assert await scene.processor_balance() == 6_000
    assert await scene.faults() == []


@pytest.mark.parametrize(
    "op, status",
    [
        ("open_checkout", "refused"),
        ("refund", "refused"),
        ("pay_out", "refused"),
    ],
)
async def test_a_refusal_is_final_and_told(scene, op, status):
    """After a refusal the money is still owed, and an operator is alerted."""
    booking, _ = await reach(scene, op)
    await scene.fault(op, "refuse")
    await scene.drain()
    last = (await scene.operations(booking))[-1]
    assert (last.kind, last.status) == (op, status)
    assert len(scene.ports.notifier.alerts) == 1
    assert await scene.faults() == []


async def test_a_refused_page_is_ordered_anew(scene):
    """The customer's next visit after a refused page gets another one."""
    booking = await scene.accepted()
    await scene.fault("open_checkout", "refuse")
    await scene.drain()
    assert (await scene.checkout(booking)).startswith("http")


async def test_a_refusal_that_may_pass_is_tried_again_under_a_new_key(scene):
    """A temporary refusal is retried under a new key, since the old key replays it."""
    booking, cash = await reach(scene, "pay_out")
    await scene.fault("pay_out", "refuse:insufficient_funds", 3)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status == "failed"
    await scene.settle_down()
    last = (await scene.operations(booking))[-1]
    assert (last.status, last.generation) == (OperationStatus.DONE, 4)
    assert (await scene.booking(booking)).payout_status == "paid"
    assert await scene.processor_balance() == cash
    assert len(scene.ports.notifier.alerts) == 1


async def test_a_jump_of_the_clock_does_not_make_keys_old(scene):
    """The age of keys is measured in wall time, so that a jump of business time repeats nothing."""
    booking, _ = await reach(scene, "refund")
    await scene.fault("refund", "timeout_after")
    await scene.drain()
    await scene.jump_to(await scene.now() + 30 * DAY)
    await scene.settle_down()
    assert len(await states(scene, booking, "refund")) == 1
    assert await scene.faults() == []


async def test_an_old_key_is_looked_up_and_not_sent(scene):
    """A key that is a day old is looked up, and an existing object is adopted."""
    booking, _ = await reach(scene, "refund")
    await scene.fault("event", "drop", 10)
    await scene.fault("refund", "timeout_after")
    await scene.drain()
    before = (await scene.operations(booking))[-1]
    scene.pass_time(21 * HOUR)
    await scene.drain()
    after = (await scene.operations(booking))[-1]
    assert (before.status, after.status) == (OperationStatus.UNKNOWN, OperationStatus.DONE)
    assert (after.attempts, after.generation) == (before.attempts, 1)


async def test_what_was_never_made_is_sent_anew_after_a_rest(scene):
    """An object that the lookup does not find is sent under a new key ten minutes after the last
    attempt."""
    booking, _ = await reach(scene, "refund")
    await scene.fault("refund", "timeout_before", 3)
    for _ in range(3):
        await scene.drain()
        scene.pass_time(30 * SECOND)
    await scene.drain()
    last = (await scene.operations(booking))[-1]
    assert (last.status, last.attempts, last.generation) == (OperationStatus.UNKNOWN, 3, 1)
    assert last.next_at == last.last_sent_at + 10 * MINUTE
    scene.pass_time(10 * MINUTE)
    await scene.drain()
    last = (await scene.operations(booking))[-1]
    assert (last.status, last.generation) == (OperationStatus.DONE, 2)


async def test_wrong_settings_are_told_once_and_stop_nothing(scene):
    """Wrong settings raise one alert, and the operation continues once they are fixed."""
    booking, _ = await reach(scene, "refund")

    async def refund(*_):
        raise ProcessorMisconfigured("no such key")

    wrong = with_call(scene, refund=refund)
    for _ in range(3):
        await operations.run_due_operation(wrong.ports)
        scene.pass_time(MINUTE)
    told = [text for _, text in scene.ports.notifier.alerts]
    assert told == ["the processor refuses us: no such key"]
    await scene.settle_down()
    assert len(await states(scene, booking, "refund")) == 1
    assert await scene.faults() == []


async def test_a_lane_runs_its_own_kinds(scene):
    """A worker that runs payouts leaves refunds to others."""
    booking, _ = await reach(scene, "refund")
    assert await operations.run_due_operation(scene.ports, frozenset({OperationKind.PAY_OUT})) == 0
    assert await operations.run_due_operation(scene.ports, frozenset({OperationKind.REFUND})) == 1
    assert len(await states(scene, booking, "refund")) == 1


# What changes while an operation waits ---------------------------------------------------


async def test_a_payout_is_not_sent_while_disputed(scene):
    """A refused payout becomes void by a chargeback, and nothing is paid."""
    booking, _ = await reach(scene, "pay_out")
    await scene.fault("pay_out", "refuse:payee_not_ready")
    await scene.drain()
    await scene.charge_back(booking)
    assert (await scene.booking(booking)).payout_status == "frozen"
    await scene.settle_down()
    assert await states(scene, booking, "pay_out") == ()
    assert (await scene.operations(booking))[-1].status is OperationStatus.VOID
    assert await scene.faults() == []


async def test_a_refusal_that_comes_after_the_freeze_does_not_thaw_it(scene):
    """A payout frozen by a chargeback during the call stays frozen after a refusal."""
    booking, _ = await reach(scene, "pay_out")
    real = scene.ports.payments.pay_out

    async def pay_out(command, key, within):
        await scene.charge_back(booking)
        await scene.fault("pay_out", "refuse:payee_not_ready")
        return await real(command, key, within)

    scene = with_call(scene, pay_out=pay_out)
    await scene.drain()
    assert (await scene.booking(booking)).payout_status == "frozen"
    await scene.settle_down()
    assert await states(scene, booking, "pay_out") == ()


def with_call(scene, **calls):
    """The scene with some calls of its processor replaced."""

    class Changed:
        def __getattr__(self, name):
            return calls.get(name) or getattr(scene.ports.payments, name)

    return evolve(scene, ports=evolve(scene.ports, payments=Changed()))


@pytest.mark.parametrize("kind, reversals", [("timeout_before", 0), ("timeout_after", 1)])
async def test_a_payout_of_unknown_outcome_is_not_sent_again_while_disputed(scene, kind, reversals):
    """An unknown payout is looked up: a made one is claimed back, another is not made."""
    booking, _ = await reach(scene, "pay_out")
    await scene.fault("pay_out", kind)
    await scene.drain()
    await scene.charge_back(booking)
    await scene.settle_down()
    assert len(await states(scene, booking, "pay_out")) == reversals
    assert len(await states(scene, booking, "reverse_payout")) == reversals
    found = await scene.booking(booking)
    assert (found.status, found.paid_out, found.owed_by_staff) == (BookingStatus.DISPUTED, 0, 0)
    assert await scene.faults() == []


async def test_an_older_payout_is_not_sent_in_place_of_the_new_one(scene):
    """A payout whose amount a partial chargeback reduced is void."""
    booking, _ = await reach(scene, "pay_out")
    await scene.fault("pay_out", "refuse:payee_not_ready", 1)
    await scene.drain()
    scene.pass_time(HOUR)
    await lose_a_quarter(scene, booking)
    await scene.settle_down()
    (payout,) = await states(scene, booking, "pay_out")
    assert payout.amount == (await scene.booking(booking)).payout_amount == 25_500
    (book,) = await scene.faults()
    assert book.startswith("the processor holds")  # The test did not simulate the chargeback there.


async def lose_a_quarter(scene, booking):
    """Apply the facts of a lost chargeback of a quarter of the payment."""
    for trigger, status in (
        (Trigger.CHARGEBACK, ChargebackStatus.OPEN),
        (Trigger.CHARGEBACK_LOST, ChargebackStatus.LOST),
    ):
        fact = Chargeback("cb", 10_000, status, "fpay_1_1")
        what = TransitionInput(trigger, Party.PROCESSOR, await scene.now(), chargeback=fact)

        async def unit(tx, what=what):
            held = await tx.bookings.lock_booking(booking.id)
            await advance_booking(tx, scene.ports, held, what)

        await scene.ports.store.run_transaction(unit)


async def test_a_page_that_is_not_wanted_any_more_is_not_opened(scene):
    """No page is opened for a booking that was cancelled before the operation ran."""
    booking = await scene.accepted()
    await scene.cancel(booking)
    await scene.drain()
    assert await states(scene, booking, "open_checkout") == ()
    assert {one.status for one in await scene.operations(booking)} == {OperationStatus.VOID}


async def test_a_page_of_unknown_outcome_is_found_and_closed(scene):
    """A page that may be open is opened again under its key and closed."""
    booking = await scene.accepted()
    await scene.fault("open_checkout", "timeout_after")
    await scene.drain()
    await scene.cancel(booking)
    await scene.settle_down()
    (page,) = await states(scene, booking, "open_checkout")
    assert page.status == "expired"


# Leases -----------------------------------------------------------------------------------


async def test_one_operation_of_a_booking_runs_at_a_time(scene):
    """While an operation is claimed no other one of its booking can be."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.simulate_checkout(booking)
    await scene.cancel(booking)
    await scene.drain()
    assert [one.kind for one in await scene.operations(booking)] == [
        OperationKind.OPEN_CHECKOUT,
        OperationKind.CLOSE_CHECKOUT,
        OperationKind.REFUND,
    ]
    assert await scene.faults() == []


async def test_who_lost_the_lease_writes_nothing(scene):
    """A worker that lost its lease saves nothing; the new holder finishes the operation."""
    booking, _ = await reach(scene, "refund")
    real = scene.ports.payments.refund

    async def refund(command, key, within):
        state = await real(command, key, within)
        scene.pass_time(16 * SECOND)
        later = make_lease(scene.ports.clock.wall())

        async def claim(tx):
            return await tx.operations.claim_operations(scene.ports.clock.wall(), later, 1)

        assert len(await scene.ports.store.run_transaction(claim)) == 1
        return state

    await operations.run_due_operation(with_call(scene, refund=refund).ports)
    assert (await scene.operations(booking))[-1].status is OperationStatus.UNKNOWN
    scene.pass_time(HOUR)
    await scene.settle_down()
    assert (await scene.booking(booking)).payment_status == "refunded"
    assert len(await states(scene, booking, "refund")) == 1


async def test_nothing_is_sent_after_the_lease(scene, monkeypatch):
    """A worker that was suspended between the claim and the call sends nothing: the processor may
    have forgotten the key of an earlier attempt. The operation is done by the next."""
    booking, _ = await reach(scene, "refund")
    claim, sent = operations._claim_operation, []

    async def claim_and_be_suspended(*given, **named):
        claimed = await claim(*given, **named)
        scene.pass_time(25 * HOUR)
        return claimed

    async def refund(*given):
        sent.append(given)

    with monkeypatch.context() as patched:
        patched.setattr(operations, "_claim_operation", claim_and_be_suspended)
        assert await operations.run_due_operation(with_call(scene, refund=refund).ports) == 1
    assert sent == []
    await scene.settle_down()
    assert len(await states(scene, booking, "refund")) == 1


async def test_who_lost_the_lease_records_no_failure(scene):
    """A worker whose call failed after it lost its lease saves nothing and raises nothing."""
    booking, _ = await reach(scene, "refund")

    async def refund(command, key, within):
        scene.pass_time(16 * SECOND)
        later = make_lease(scene.ports.clock.wall())

        async def claim(tx):
            return await tx.operations.claim_operations(scene.ports.clock.wall(), later, 1)

        assert len(await scene.ports.store.run_transaction(claim)) == 1
        raise OutcomeUnknown

    await operations.run_due_operation(with_call(scene, refund=refund).ports)
    last = (await scene.operations(booking))[-1]
    assert (last.status, last.last_error) == (OperationStatus.UNKNOWN, None)


async def test_a_crash_between_call_and_record_is_recovered(scene):
    """After a crash behind the call, the next worker finds the refund by its key."""
    booking, _ = await reach(scene, "refund")
    real = scene.ports.payments.refund

    async def refund(command, key, within):
        await real(command, key, within)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await operations.run_due_operation(with_call(scene, refund=refund).ports)
    assert await operations.run_due_operation(scene.ports) == 0
    scene.pass_time(scene.ports.policy.lease_duration)
    await scene.settle_down()
    assert len(await states(scene, booking, "refund")) == 1
    assert await scene.faults() == []


async def test_a_conflict_at_the_record_leaves_the_operation_to_others(scene, monkeypatch):
    """A conflict while saving is not treated as a failure of the processor."""
    booking, _ = await reach(scene, "refund")

    async def lost(*_):
        raise Conflict("operation")

    monkeypatch.setattr(operations, "_record_snapshot", lost)
    await operations.run_due_operation(scene.ports)
    last = (await scene.operations(booking))[-1]
    assert (last.status, last.last_error) == (OperationStatus.UNKNOWN, None)
