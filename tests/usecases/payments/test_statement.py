"""Two-way comparison of the ledger with the processor's statement."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import ProcessorMisconfigured
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import statement as payments_statement
from staffbooking_core.usecases.payments.statement import (
    ReconciliationProgress,
    StatementDifference,
)
from tests.support.statement import (
    add_surplus_posting,
    difference_texts,
    make_scenario_with_fees,
    reconcile,
    with_altered_statement,
)

pytestmark = pytest.mark.anyio

K = MovementKind


@pytest.fixture
async def scene():
    """A scene whose processor keeps a fee."""
    return await make_scenario_with_fees()


async def on_day(scene, days):
    return (await scene.now()).date() + days * DAY


# Equal ----------------------------------------------------------------------------------


async def test_nothing_is_equal_to_nothing(scene):
    """Without bookings there are no differences."""
    assert await reconcile(scene) == ([], ReconciliationProgress())


async def test_a_request_is_not_compared(scene):
    """A booking without an intent is not compared."""
    await scene.request()
    assert await reconcile(scene) == ([], ReconciliationProgress())


@pytest.mark.parametrize("make", ["accepted", "paid", "completed", "paid_out"])
async def test_a_booking_is_equal_wherever_it_is(scene, make):
    """A booking in any status has the same movements in both, fees included."""
    await getattr(scene, make)()
    await scene.drain()
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))


async def test_a_mixed_run_is_equal(scene):
    """A run with every kind of movement has no differences."""
    await play_everything(scene)
    lines = [line async for line in scene.ports.payments.statement()]
    assert {line.kind for line in lines} == set(K) - {K.OTHER}
    differences, done = await reconcile(scene)
    assert (differences, done.in_flight) == ([], 0)
    assert done.checked == 7
    assert await scene.faults() == []


async def play_everything(scene):
    """Play refunds, failures, manual refunds, reversals, netting, a late payment and verdicts."""
    dashboard = scene.ports.payments.dashboard
    unpaid = await scene.accepted(event_date=await on_day(scene, 3))
    await scene.jump_to(unpaid.starts_at - HOUR)
    await scene.simulate_checkout(unpaid)
    await scene.jump_to(unpaid.starts_at)
    await timers.fire_due_timers(scene.ports)
    await scene.drain()
    await scene.fault("refund", "settled_then_failed")
    await scene.cancel(await scene.paid(event_date=await on_day(scene, 4)), scene.staff)
    won = await scene.paid_out(event_date=await on_day(scene, 4))
    await scene.charge_back(won)
    await scene.settle_down()
    await scene.charge_back(won, "won")
    by_hand = await scene.paid_out(event_date=await on_day(scene, 4))
    await dashboard.refund(by_hand.id, 500)
    await dashboard.reverse_payout(by_hand.id, 700)
    lost = await scene.paid_out(event_date=await on_day(scene, 4))
    await scene.fault("reverse_payout", "refuse:insufficient_funds", 1)
    await scene.charge_back(lost, "lost")
    await scene.drain()
    await scene.paid_out(event_date=await on_day(scene, 4), duration_hours=2)
    disputed = await scene.paid(event_date=await on_day(scene, 4))
    await scene.jump_to(disputed.starts_at)
    await scene.dispute(disputed)
    await scene.resolve(disputed, ResolutionOutcome.SPLIT, 10_000)
    await scene.settle_down()
    await scene.jump_to(await scene.now() + 3 * DAY)
    await scene.settle_down()
    assert (await scene.booking(lost)).netted < 0


# The processor's side -------------------------------------------------------------------


async def test_a_line_that_the_ledger_lacks_is_named(scene):
    """A statement line without a posting is reported with its booking."""
    booking = await scene.paid()
    extra = Movement(booking.id, K.REFUND, "re_9", -5, NOW)
    differences, _ = await reconcile(with_altered_statement(scene, lambda lines: [*lines, extra]))
    text = "the processor has refund re_9 of -5, the ledger does not"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("kind", [K.PAYMENT, K.FEE, K.PAYOUT])
async def test_a_line_that_the_processor_lacks_is_named(scene, kind):
    """A posting without a statement line is reported."""
    booking = await scene.paid_out()

    def without(lines):
        return [line for line in lines if line.kind is not kind]

    (line,) = [line async for line in scene.ports.payments.statement() if line.kind is kind]
    differences, _ = await reconcile(with_altered_statement(scene, without))
    text = f"the ledger has {kind} {line.ref} of {line.amount}, the processor does not"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("kind", [K.PAYMENT, K.FEE, K.PAYOUT])
async def test_a_line_of_another_amount_is_named(scene, kind):
    """A difference of one minor unit is reported with both amounts."""
    booking = await scene.paid_out()

    def one_more(lines):
        return [
            evolve(line, amount=line.amount + 1) if line.kind is kind else line for line in lines
        ]

    (line,) = [line async for line in scene.ports.payments.statement() if line.kind is kind]
    differences, _ = await reconcile(with_altered_statement(scene, one_more))
    text = f"{kind} {line.ref} is {line.amount + 1} at the processor, {line.amount} in the ledger"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("unknown", [1, 3, 9])
async def test_a_line_of_an_unknown_booking_is_named(scene, unknown):
    """Lines of unknown intents are reported wherever they sort among known ones."""
    requests = [await scene.request(start_time=f"{hour:02d}:00") for hour in (4, 8, 12, 16)]
    assert [booking.id for booking in requests] == [1, 2, 3, 4]
    for booking in requests[1::2]:
        await scene.accept(booking)
        await scene.simulate_checkout(booking)
    await scene.drain()
    extra = Movement(unknown, K.PAYMENT, "pay_9", 5, NOW)

    def with_it(lines):
        return sorted([*lines, extra], key=lambda line: line.intent_id)

    differences, done = await reconcile(with_altered_statement(scene, with_it))
    text = f"payment pay_9 of 5 belongs to unknown intent {unknown}"
    assert (differences, done.checked) == ([StatementDifference(None, text)], 2)


@pytest.mark.parametrize("kind", [K.PAYMENT, K.REFUND, K.FEE])
async def test_a_line_of_no_booking_is_named(scene, kind):
    """A payment, refund or payout without an intent is reported."""
    await scene.paid()
    extra = Movement(None, kind, "x_9", 5, NOW)
    differences, done = await reconcile(
        with_altered_statement(scene, lambda lines: [extra, *lines])
    )
    assert differences == [StatementDifference(None, f"{kind} x_9 of 5 belongs to no booking")]
    assert done.checked == 1


async def test_the_platforms_own_movements_are_no_difference(scene):
    """Withdrawals, deposits and adjustments of the platform are not reported."""
    await scene.paid()
    own = Movement(None, K.OTHER, "po_1", -5, NOW)
    assert await difference_texts(with_altered_statement(scene, lambda lines: [own, *lines])) == []


# The ledger's side ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, name",
    [
        ("pay:pay_9", "payment pay_9"),
        ("refund:999:ok", "refund operation 999"),
        ("refund:999:failed", "refund operation 999"),
        ("payout:999", "payout operation 999"),
        ("reversal:999", "reversal operation 999"),
        ("cb:cb_9:out", "chargeback cb_9"),
        ("cb:cb_9:in", "chargeback cb_9"),
        ("fee:fee_9", "fee fee_9"),
        ("manual:refund:re_9", "refund re_9"),
        ("slip:9", "other slip:9"),
    ],
)
async def test_a_posting_that_the_processor_lacks_is_named(scene, key, name):
    """A posting of any kind without a statement line is reported."""
    booking = await scene.paid()
    await add_surplus_posting(scene, booking, key)
    differences, _ = await reconcile(scene)
    text = f"the ledger has {name} of 7, the processor does not"
    assert differences == [StatementDifference(booking.code, text)]


async def test_only_what_is_wrong_is_told(scene):
    """Only the booking that differs is reported."""
    wrong = await scene.paid()
    await scene.paid(event_date=await on_day(scene, 5))
    await add_surplus_posting(scene, wrong, "pay:pay_9")
    differences, done = await reconcile(scene)
    assert [one.booking_code for one in differences] == [wrong.code]
    assert done.checked == 2


# Errors and progress --------------------------------------------------------------------


async def test_without_a_statement_it_is_said(scene):
    """An unavailable statement raises ProcessorUnavailable."""
    await scene.paid()
    with pytest.raises(ProcessorUnavailable):
        await reconcile(with_altered_statement(scene, down=["statement"]))


async def test_wrong_settings_are_said(scene):
    """Wrong settings raise `processor_misconfigured`."""
    with pytest.raises(RuleBroken) as caught:
        await reconcile(
            with_altered_statement(
                scene, down=["statement"], error=ProcessorMisconfigured("no such key")
            )
        )
    assert (caught.value.code, caught.value.message) == ("processor_misconfigured", "no such key")


async def test_it_tells_how_far_it_is(scene, monkeypatch):
    """Progress is yielded after each batch and at the end."""
    monkeypatch.setattr(payments_statement, "STATEMENT_BATCH_SIZE", 2)
    for hour in (8, 12, 16):
        await scene.accepted(start_time=f"{hour:02d}:00")
    await scene.drain()
    scene.pass_time(MINUTE)
    found = [one async for one in payments_statement.reconcile_statement(scene.ports)]
    assert found == [ReconciliationProgress(checked=2), ReconciliationProgress(checked=3)]
