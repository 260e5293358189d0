"""The ledger against the processor's statement, both ways: nothing differs but what is wrong."""

from __future__ import annotations

from itertools import count

import pytest
from attrs import evolve

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.payments.ledger import Account, Leg, MovementKind
from staffbooking_core.domain.payments.processor import ProcessorMisconfigured, Unknown
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import (
    operations,
    reconciliation as payments_reconciliation,
    statement as payments_statement,
)
from staffbooking_core.usecases.payments.statement import (
    ReconciliationProgress,
    StatementDifference,
)
from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    make_booking_write,
    make_posting,
    next_version,
)
from tests.support.memory_deployment import make_booking_scenario, memory_ports

pytestmark = pytest.mark.anyio

K = MovementKind
FEE = 1_160
NO_ANSWER = Unknown("no answer in time")


class Tampered:
    """The processor, whose statement is another one; a call may be out of reach."""

    def __init__(self, inner, change, down, error):
        self.inner, self.change, self.down, self.error = inner, change, down, error

    def __getattr__(self, name):
        async def fail(*_):
            raise self.error

        return fail if name in self.down else getattr(self.inner, name)

    async def statement(self):
        if "statement" in self.down:
            raise self.error
        for line in self.change([line async for line in self.inner.statement()]):
            yield line


def tampered(scene, change=lambda lines: lines, down=(), error=NO_ANSWER):
    """The same scene, whose processor says something else."""
    wrong = Tampered(scene.ports.payments, change, down, error)
    return evolve(scene, ports=evolve(scene.ports, payments=wrong))


async def reconcile(scene, apply=False):
    """What differs, and how far it came."""
    found = [one async for one in payments_statement.reconcile_statement(scene.ports, apply=apply)]
    differences = [one for one in found if isinstance(one, StatementDifference)]
    (*_, done) = [one for one in found if isinstance(one, ReconciliationProgress)]
    return differences, done


async def texts(scene, apply=False):
    differences, _ = await reconcile(scene, apply)
    return [one.text for one in differences]


@pytest.fixture
async def scene():
    """With a processor that keeps a fee, as real ones do."""
    ports, refs = memory_ports(), count(1)
    processor = FakeProcessor(
        MemoryFakeDocumentStore(),
        ports.clock,
        base_url=ports.policy.base_url,
        secret=b"events",
        make_ref=lambda: f"page{next(refs)}",
        fee_ppm=29_000,
    )
    return await make_booking_scenario(
        ports=evolve(ports, payments=processor, sandbox=processor.sandbox)
    )


async def lose(scene):
    """All events that are due are lost for good."""
    await scene.fault("event", "drop", 1000)
    await payments_reconciliation.deliver_sandbox_events(scene.ports)
    await scene.clear_faults()


async def on_day(scene, days):
    return (await scene.now()).date() + days * DAY


# Equal ----------------------------------------------------------------------------------


async def test_nothing_is_equal_to_nothing(scene):
    """Without bookings there is nothing to compare."""
    assert await reconcile(scene) == ([], ReconciliationProgress())


async def test_a_request_is_not_compared(scene):
    """Before it is accepted it has no intent."""
    await scene.request()
    assert await reconcile(scene) == ([], ReconciliationProgress())


@pytest.mark.parametrize("make", ["accepted", "paid", "completed", "paid_out"])
async def test_a_booking_is_equal_wherever_it_is(scene, make):
    """All that its money did is in both, fees too."""
    await getattr(scene, make)()
    await scene.drain()
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))


async def test_a_mixed_run_is_equal(scene):
    """Of every kind of movement there is at least one."""
    await play_everything(scene)
    lines = [line async for line in scene.ports.payments.statement()]
    assert {line.kind for line in lines} == set(K) - {K.OTHER}
    differences, done = await reconcile(scene)
    assert (differences, done.in_flight) == ([], 0)
    assert done.checked == 7
    assert await scene.faults() == []


async def play_everything(scene):
    """Refunds that settle, fail and are made by hand, reversals of both kinds, netting, a late
    payment, verdicts both ways."""
    dashboard = scene.ports.payments.dashboard
    unpaid = await scene.accepted(event_date=await on_day(scene, 3))
    await scene.jump_to(unpaid.starts_at - HOUR)
    await scene.play(unpaid)
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
    await scene.resolve(disputed, Trigger.SPLIT, 10_000)
    await scene.settle_down()
    await scene.jump_to(await scene.now() + 3 * DAY)
    await scene.settle_down()
    assert (await scene.booking(lost)).netted < 0


# The processor's side -------------------------------------------------------------------


async def test_a_line_that_the_ledger_lacks_is_named(scene):
    """With the booking that it is of."""
    booking = await scene.paid()
    extra = Movement(booking.id, K.REFUND, "re_9", -5, NOW)
    differences, _ = await reconcile(tampered(scene, lambda lines: [*lines, extra]))
    text = "the processor has refund re_9 of -5, the ledger does not"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("kind", [K.PAYMENT, K.FEE, K.PAYOUT])
async def test_a_line_that_the_processor_lacks_is_named(scene, kind):
    """By what is in the ledger."""
    booking = await scene.paid_out()

    def without(lines):
        return [line for line in lines if line.kind is not kind]

    (line,) = [line async for line in scene.ports.payments.statement() if line.kind is kind]
    differences, _ = await reconcile(tampered(scene, without))
    text = f"the ledger has {kind} {line.ref} of {line.amount}, the processor does not"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("kind", [K.PAYMENT, K.FEE, K.PAYOUT])
async def test_a_line_of_another_amount_is_named(scene, kind):
    """To the unit, with both amounts."""
    booking = await scene.paid_out()

    def one_more(lines):
        return [
            evolve(line, amount=line.amount + 1) if line.kind is kind else line for line in lines
        ]

    (line,) = [line async for line in scene.ports.payments.statement() if line.kind is kind]
    differences, _ = await reconcile(tampered(scene, one_more))
    text = f"{kind} {line.ref} is {line.amount + 1} at the processor, {line.amount} in the ledger"
    assert differences == [StatementDifference(booking.code, text)]


@pytest.mark.parametrize("unknown", [1, 3, 9])
async def test_a_line_of_an_unknown_booking_is_named(scene, unknown):
    """Below, between and above those that are known: the first and third were never accepted,
    so nothing can have been paid for them."""
    requests = [await scene.request(start_time=f"{hour:02d}:00") for hour in (4, 8, 12, 16)]
    assert [booking.id for booking in requests] == [1, 2, 3, 4]
    for booking in requests[1::2]:
        await scene.accept(booking)
        await scene.play(booking)
    await scene.drain()
    extra = Movement(unknown, K.PAYMENT, "pay_9", 5, NOW)

    def with_it(lines):
        return sorted([*lines, extra], key=lambda line: line.intent_id)

    differences, done = await reconcile(tampered(scene, with_it))
    text = f"payment pay_9 of 5 is of intent {unknown}, unknown here"
    assert (differences, done.checked) == ([StatementDifference(None, text)], 2)


@pytest.mark.parametrize("kind", [K.PAYMENT, K.REFUND, K.FEE])
async def test_a_line_of_no_booking_is_named(scene, kind):
    """Somebody moved money that belongs to nobody here."""
    await scene.paid()
    extra = Movement(None, kind, "x_9", 5, NOW)
    differences, done = await reconcile(tampered(scene, lambda lines: [extra, *lines]))
    assert differences == [StatementDifference(None, f"{kind} x_9 of 5 is of no booking")]
    assert done.checked == 1


async def test_the_platforms_own_movements_are_no_difference(scene):
    """Withdrawals to its bank, deposits, adjustments."""
    await scene.paid()
    own = Movement(None, K.OTHER, "po_1", -5, NOW)
    assert await texts(tampered(scene, lambda lines: [own, *lines])) == []


# The ledger's side ----------------------------------------------------------------------


async def slip(scene, booking, key, amount=7):
    """A posting too many."""
    legs = (Leg(Account.PROCESSOR_BALANCE, amount), Leg(Account.SUSPENSE, -amount))
    posting = make_posting(booking.id, key=key, legs=legs)
    change = make_booking_write(next_version(await scene.booking(booking)), postings=(posting,))
    await scene.ports.store.run_transaction(lambda tx: tx.bookings.save_booking(change))


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
    """Whatever it stands for."""
    booking = await scene.paid()
    await slip(scene, booking, key)
    differences, _ = await reconcile(scene)
    text = f"the ledger has {name} of 7, the processor does not"
    assert differences == [StatementDifference(booking.code, text)]


async def test_only_what_is_wrong_is_told(scene):
    """Of many bookings one."""
    wrong = await scene.paid()
    await scene.paid(event_date=await on_day(scene, 5))
    await slip(scene, wrong, "pay:pay_9")
    differences, done = await reconcile(scene)
    assert [one.booking_code for one in differences] == [wrong.code]
    assert done.checked == 2


# What an event would have healed --------------------------------------------------------


async def unheard(scene):
    """Paid, and the event of it is lost."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.play(booking)
    await lose(scene)
    return booking


async def test_what_was_not_heard_of_is_a_difference(scene):
    """The processor has the payment and its fee."""
    booking = await unheard(scene)
    assert await texts(scene) == [
        f"the processor has fee ffee_{booking.id}_1 of -{FEE}, the ledger does not",
        f"the processor has payment fpay_{booking.id}_1 of 40000, the ledger does not",
    ]
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED


async def test_applying_takes_it_over(scene):
    """As if the event had come; then nothing differs, also the next time."""
    booking = await unheard(scene)
    assert await reconcile(scene, apply=True) == ([], ReconciliationProgress(checked=1, applied=1))
    assert (await scene.booking(booking)).status is BookingStatus.PAID
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))
    assert await scene.faults() == []


async def test_applying_changes_nothing_where_nothing_differs(scene):
    """Nobody is looked at for nothing."""
    booking = await scene.paid()
    before = await scene.booking(booking)
    assert await reconcile(scene, apply=True) == ([], ReconciliationProgress(checked=1))
    assert await scene.booking(booking) == before


async def test_what_applying_does_not_heal_is_still_told(scene):
    """A posting of money that never moved."""
    booking = await scene.paid()
    await slip(scene, booking, "pay:pay_9")
    differences, done = await reconcile(scene, apply=True)
    assert [one.booking_code for one in differences] == [booking.code]
    assert done.applied == 1


@pytest.mark.parametrize("apply", [False, True])
async def test_what_was_done_by_hand_is_told_until_it_is_booked(scene, apply):
    """It waits in suspense then, for an operator."""
    booking = await scene.paid()
    await scene.ports.payments.dashboard.refund(booking.id, 500)
    await lose(scene)
    assert len(await texts(scene, apply)) == (0 if apply else 1)
    await scene.ports.clock.sleep(300)
    await scene.drain()
    assert await texts(scene) == []
    assert await scene.faults() == []


# Under way ------------------------------------------------------------------------------


async def test_what_is_under_way_is_no_difference(scene):
    """A refund was made, and its answer got lost: that is found out by itself."""
    booking = await scene.paid()
    await scene.cancel(booking, scene.staff)
    await scene.fault("refund", "timeout_after")
    await operations.run_due_operation(scene.ports)
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1, in_flight=1))
    await scene.settle_down()
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1))


async def test_an_event_that_waits_is_under_way(scene):
    """It is in the inbox, and nobody has looked yet."""
    booking = await scene.accepted()
    await scene.drain()
    await scene.play(booking)
    for headers, body in await scene.ports.sandbox.take_due_events(10):
        await payments_reconciliation.receive_webhook(scene.ports, headers, body)
    assert await reconcile(scene) == ([], ReconciliationProgress(checked=1, in_flight=1))


async def test_what_only_waits_to_be_sent_hides_nothing(scene):
    """An order that was never sent can't explain a difference."""
    booking = await scene.paid()
    await scene.cancel(booking, scene.staff)
    await slip(scene, booking, "pay:pay_9")
    assert len(await texts(scene)) == 1


async def test_real_money_may_take_a_while_to_be_told(scene):
    """A line of a moment ago is no difference yet; should it stay untold, it is one."""
    booking = await unheard(scene)
    real = evolve(scene, ports=evolve(scene.ports, sandbox=None))
    assert await reconcile(real) == ([], ReconciliationProgress(checked=1, in_flight=1))
    scene.pass_time(scene.ports.policy.processor_sync_deadline - SECOND)
    assert await texts(real) == []
    scene.pass_time(SECOND)
    assert len(await texts(real)) == 2
    assert (await scene.booking(booking)).status is BookingStatus.ACCEPTED


async def test_what_moves_while_it_runs_is_under_way(scene):
    """Nobody stops working for it: what the statement has of it may be newer than the rest."""
    booking = await scene.paid()

    def late(lines):
        at = scene.ports.clock.wall() + MINUTE
        return [*lines, Movement(booking.id, K.REFUND, "re_9", -5, at)]

    real = evolve(scene, ports=evolve(scene.ports, sandbox=None))
    assert await reconcile(tampered(real, late)) == (
        [],
        ReconciliationProgress(checked=1, in_flight=1),
    )


# Out of reach, and at length ------------------------------------------------------------


async def test_without_a_statement_it_is_said(scene):
    """Not that all is well."""
    await scene.paid()
    with pytest.raises(ProcessorUnavailable):
        await reconcile(tampered(scene, down=["statement"]))


async def test_wrong_settings_are_said(scene):
    """They are not mended by trying again later."""
    with pytest.raises(RuleBroken) as caught:
        await reconcile(
            tampered(scene, down=["statement"], error=ProcessorMisconfigured("no such key"))
        )
    assert (caught.value.code, caught.value.message) == ("processor_misconfigured", "no such key")


async def test_a_processor_lost_on_the_way_is_said(scene):
    """The statement was there, the booking that differs can't be looked at."""
    await unheard(scene)
    with pytest.raises(ProcessorUnavailable):
        await reconcile(tampered(scene, down=["snapshot"]), apply=True)


async def test_it_tells_how_far_it_is(scene, monkeypatch):
    """After each batch, and at the end."""
    monkeypatch.setattr(payments_statement, "STATEMENT_BATCH_SIZE", 2)
    for hour in (8, 12, 16):
        await scene.accepted(start_time=f"{hour:02d}:00")
    await scene.drain()
    scene.pass_time(MINUTE)
    found = [one async for one in payments_statement.reconcile_statement(scene.ports)]
    assert found == [ReconciliationProgress(checked=2), ReconciliationProgress(checked=3)]
