"""What the adapter of Stripe asks for at length: events of a long time, and the statement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from staffbooking_adapters.stripe import changes, statement
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import Unknown
from staffbooking_core.domain.reconciliation.statement import Movement
from tests.money.processors import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
    make_stripe_processor,
    stub_of,
)
from tests.support.builders import DAY, HOUR, MINUTE, SECOND

pytestmark = pytest.mark.anyio


async def _told(bench: ProcessorBench, cursor: str | None) -> tuple[set[int | None], str]:
    nudges, following = await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)
    return {nudge.intent_id for nudge in nudges}, following


async def _lines(processor: Any) -> list[Movement]:
    return [movement async for movement in processor.statement()]


# Events -------------------------------------------------------------------------------------


async def test_events_are_told_in_their_order(stripe: ProcessorBench) -> None:
    """Stripe lists the newest first; what happened first is told first."""
    for intent_id in (21, 22, 23):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(2 * HOUR)
    nudges, _ = await stripe.payments.list_events(None, CALL_TIMEOUT_SECONDS)
    assert list(dict.fromkeys(nudge.intent_id for nudge in nudges)) == [21, 22, 23]


async def test_the_first_look_goes_a_day_back(stripe: ProcessorBench) -> None:
    """Without a cursor what is older than a day is left to the other ways."""
    await stripe.make_payment(intent_id=21)
    stripe.clock.advance(DAY + SECOND)
    await stripe.make_payment(intent_id=22)
    assert (await _told(stripe, None))[0] == {22}


async def test_the_last_minutes_are_told_again(stripe: ProcessorBench) -> None:
    """Events do not appear in order: ten minutes before the cursor are read again."""
    await stripe.make_payment(intent_id=21)
    stripe.clock.advance(SECOND)
    await stripe.make_payment(intent_id=22)
    stripe.clock.advance(10 * MINUTE)
    await stripe.make_payment(intent_id=23)
    _, cursor = await _told(stripe, None)
    assert await _told(stripe, cursor) == ({22, 23}, cursor)


async def test_a_long_outage_is_made_good(stripe: ProcessorBench) -> None:
    """After three weeks without us one call reads it all: long silences are skipped quickly."""
    await stripe.make_payment(intent_id=21)
    _, cursor = await _told(stripe, None)
    stripe.clock.advance(timedelta(days=10))
    await stripe.make_payment(intent_id=22)
    stripe.clock.advance(timedelta(days=11))
    await stripe.make_payment(intent_id=23)
    before = len(stub_of(stripe).received_calls)
    told, _ = await _told(stripe, cursor)
    assert told == {21, 22, 23}
    assert len(stub_of(stripe).received_calls) - before < 30


async def test_a_busy_time_is_read_in_pieces(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there is too much for one call each goes on where the last one ended."""
    monkeypatch.setattr(changes, "PAGE_SIZE", 3)
    monkeypatch.setattr(changes, "MAX_EVENTS_PER_CALL", 4)
    cursor = (await _told(stripe, None))[1]
    for intent_id in range(21, 27):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(30 * MINUTE)
    told: set[int | None] = set()
    calls = 0
    while 26 not in told:
        some, cursor = await _told(stripe, cursor)
        told |= some
        calls += 1
    assert told == {*range(21, 27)}
    assert calls > 2


async def test_a_crowded_overlap_stops_no_later_news(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told before and is read again does not count as enough."""
    monkeypatch.setattr(changes, "MAX_EVENTS_PER_CALL", 2)
    for intent_id in range(21, 25):
        await stripe.make_payment(intent_id=intent_id)
    cursor = (await _told(stripe, None))[1]
    stripe.clock.advance(HOUR)
    await stripe.make_payment(intent_id=30)
    told, further = await _told(stripe, cursor)
    assert further != cursor
    assert 30 in told | (await _told(stripe, further))[0]


async def test_a_crowded_while_is_read_to_its_end(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a page of events in a few minutes: none is overlooked."""
    monkeypatch.setattr(changes, "PAGE_SIZE", 5)
    await stripe.make_payment(intent_id=20)
    stripe.clock.advance(3 * HOUR)
    for intent_id in range(21, 27):
        await stripe.make_payment(intent_id=intent_id)
    assert (await _told(stripe, None))[0] == {*range(20, 27)}


async def test_another_deployments_events_are_not_told(stripe: ProcessorBench) -> None:
    """On one account each hears of its own."""
    await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    nudges, cursor = await other.list_events(None, CALL_TIMEOUT_SECONDS)
    await other.close()
    assert not nudges
    assert int(cursor) == stripe.clock.wall().timestamp()


# The statement ------------------------------------------------------------------------------


async def test_what_is_of_no_booking_is_other(stripe: ProcessorBench) -> None:
    """Another deployment's movements come first, as what they are to us: something else."""
    await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    lines = await _lines(other)
    await other.close()
    assert {(each.intent_id, each.kind) for each in lines} == {(None, MovementKind.OTHER)}
    assert sum(each.amount for each in lines) == await stripe.outside_world.balance()


async def test_others_come_first(stripe: ProcessorBench) -> None:
    """What belongs to no booking stands before the first one."""
    await stripe.make_payment()
    payment = await stripe.make_payment(intent_id=5)
    charge = stub_of(stripe).objects("charge")[0]
    charge["metadata"], charge["transfer_group"] = {}, None
    lines = await _lines(stripe.payments)
    assert [each.intent_id for each in lines] == [None, None, 5, 5]
    assert lines[2].ref == payment.ref


async def test_a_late_failure_is_two_lines(stripe: ProcessorBench) -> None:
    """A refund that comes back is there and back again, under its own reference."""
    payment = await stripe.make_payment()
    stub_of(stripe).inject_fault("refund", "pending_then_failed")
    refund = await stripe.refund(payment, 5_000)
    stripe.clock.advance(2 * MINUTE)
    lines = [each for each in await _lines(stripe.payments) if each.ref == refund.ref]
    assert [(each.kind, each.amount) for each in lines] == [
        (MovementKind.REFUND, -5_000),
        (MovementKind.REFUND_FAILED, 5_000),
    ]


async def test_a_line_has_its_time(stripe: ProcessorBench) -> None:
    """Each movement is dated as Stripe dates it."""
    at = stripe.clock.wall()
    await stripe.make_payment()
    assert {each.at for each in await _lines(stripe.payments)} == {at}


async def test_a_long_statement_is_complete(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over many pages in and many batches out no line is lost or told twice."""
    monkeypatch.setattr(statement, "BATCH_SIZE", 7)
    payment = await stripe.make_payment()
    for _ in range(120):
        await stripe.outside_world.refund_by_hand(payment, 1)
    lines = await _lines(stripe.payments)
    assert len({(each.kind, each.ref) for each in lines}) == len(lines) == 122


@pytest.mark.parametrize("fault", ["reset_before", "error_500", "html"])
async def test_a_broken_statement_is_no_statement(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """If a page does not come nothing is told, rather than a part that looks like all."""
    monkeypatch.setattr(statement, "RETRY_DELAYS_SECONDS", (0, 0, 0))
    await stripe.make_payment()
    stub_of(stripe).inject_fault("look", fault, times=4)
    with pytest.raises(Unknown):
        await anext(stripe.payments.statement())


@pytest.mark.parametrize("fault", ["reset_before", "error_500", "rate_limit"])
async def test_a_page_that_breaks_is_asked_for_again(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """It is only read: thousands of pages shall not end with one that was busy."""
    monkeypatch.setattr(statement, "RETRY_DELAYS_SECONDS", (0, 0, 0))
    await stripe.make_payment()
    stub_of(stripe).inject_fault("look", fault)
    assert len(await _lines(stripe.payments)) == 2


async def test_an_empty_account_has_no_lines(stripe: ProcessorBench) -> None:
    """Where no money ever moved the statement is empty."""
    assert await _lines(stripe.payments) == []
    assert stripe.checkouts[INTENT_ID] == ()
