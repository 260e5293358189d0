"""The long reads of Stripe's adapter: events since a cursor, and the statement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from staffbooking_adapters.stripe import event_list, statement
from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
)
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.domain.reconciliation.statement import Movement
from tests.money.processors import make_stripe_processor, stub_of

pytestmark = pytest.mark.anyio


async def _list_events(bench: ProcessorBench, cursor: str | None) -> tuple[set[int | None], str]:
    events, following = await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)
    return {event.intent_id for event in events}, following


async def _lines(processor: Any) -> list[Movement]:
    return [movement async for movement in processor.statement()]


# Events -------------------------------------------------------------------------------------


async def test_events_are_listed_in_order(stripe: ProcessorBench) -> None:
    """Events are listed oldest first, though Stripe lists them newest first."""
    for intent_id in (21, 22, 23):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(2 * HOUR)
    events, _ = await stripe.payments.list_events(None, CALL_TIMEOUT_SECONDS)
    assert list(dict.fromkeys(event.intent_id for event in events)) == [21, 22, 23]


async def test_the_first_call_lists_a_day(stripe: ProcessorBench) -> None:
    """Without a cursor the events of the last day are listed."""
    await stripe.make_payment(intent_id=21)
    stripe.clock.advance(DAY + SECOND)
    await stripe.make_payment(intent_id=22)
    assert (await _list_events(stripe, None))[0] == {22}


async def test_the_last_minutes_are_listed_again(stripe: ProcessorBench) -> None:
    """Events of the ten minutes before the cursor are listed again."""
    await stripe.make_payment(intent_id=21)
    stripe.clock.advance(SECOND)
    await stripe.make_payment(intent_id=22)
    stripe.clock.advance(10 * MINUTE)
    await stripe.make_payment(intent_id=23)
    _, cursor = await _list_events(stripe, None)
    assert await _list_events(stripe, cursor) == ({22, 23}, cursor)


async def test_a_long_outage_is_caught_up(stripe: ProcessorBench) -> None:
    """One call lists the events of three weeks with fewer than 30 requests."""
    await stripe.make_payment(intent_id=21)
    _, cursor = await _list_events(stripe, None)
    stripe.clock.advance(timedelta(days=10))
    await stripe.make_payment(intent_id=22)
    stripe.clock.advance(timedelta(days=11))
    await stripe.make_payment(intent_id=23)
    before = len(stub_of(stripe).received_calls)
    listed, _ = await _list_events(stripe, cursor)
    assert listed == {21, 22, 23}
    assert len(stub_of(stripe).received_calls) - before < 30


async def test_a_busy_period_is_read_in_several_calls(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events than fit into one call are listed by several calls without a gap."""
    monkeypatch.setattr(event_list, "PAGE_SIZE", 3)
    monkeypatch.setattr(event_list, "MAX_EVENTS_PER_CALL", 4)
    cursor = (await _list_events(stripe, None))[1]
    for intent_id in range(21, 27):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(30 * MINUTE)
    listed: set[int | None] = set()
    calls = 0
    while 26 not in listed:
        some, cursor = await _list_events(stripe, cursor)
        listed |= some
        calls += 1
    assert listed == {*range(21, 27)}
    assert calls > 2


async def test_a_call_is_limited_in_its_requests(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call stops after its number of requests, and further calls list the rest."""
    monkeypatch.setattr(event_list, "MAX_REQUESTS_PER_CALL", 4)
    cursor, received = None, stub_of(stripe).received_calls
    for intent_id in range(21, 24):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(5 * HOUR)
    listed: set[int | None] = set()
    requests, before = [], len(received)
    while 23 not in listed:
        some, cursor = await _list_events(stripe, cursor)
        listed |= some
        requests.append(len(received) - before)
        before = len(received)
    assert listed == {21, 22, 23}
    assert len(requests) > 2
    assert max(requests) == 4


async def test_a_call_of_many_requests_advances_the_cursor(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose requests end with the overlap goes on until it is past the cursor."""
    monkeypatch.setattr(event_list, "MAX_REQUESTS_PER_CALL", 1)
    await stripe.make_payment(intent_id=21)
    _, cursor = await _list_events(stripe, None)
    stripe.clock.advance(HOUR)
    await stripe.make_payment(intent_id=22)
    assert int((await _list_events(stripe, cursor))[1]) > int(cursor)


async def test_the_pages_of_a_crowded_period_count_as_requests(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The further pages of a window count as requests."""
    monkeypatch.setattr(event_list, "MAX_REQUESTS_PER_CALL", 4)
    monkeypatch.setattr(event_list, "PAGE_SIZE", 1)
    for intent_id in (21, 22):
        await stripe.make_payment(intent_id=intent_id)
    stripe.clock.advance(HOUR)
    await stripe.make_payment(intent_id=23)
    assert 23 not in (await _list_events(stripe, "1"))[0]


async def test_a_window_is_halved_where_it_overflows(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window with more events than a page is read again at half its length."""
    monkeypatch.setattr(event_list, "PAGE_SIZE", 5)
    await stripe.make_payment(intent_id=20)
    stripe.clock.advance(2 * HOUR)
    for intent_id in range(21, 27):
        await stripe.make_payment(intent_id=intent_id)
        stripe.clock.advance(10 * MINUTE)
    await _list_events(stripe, "1")
    calls = [each.params for each in stub_of(stripe).received_calls if "created" in each.params]
    starts = [int(each["created"]["gte"]) for each in calls]
    lengths = [
        int(each["created"]["lt"]) - start for each, start in zip(calls, starts, strict=True)
    ]
    repeated = [n for n in range(1, len(starts)) if starts[n] == starts[n - 1]]
    assert repeated
    assert all(lengths[n] == lengths[n - 1] // 2 for n in repeated)


async def test_a_crowded_overlap_does_not_block_later_events(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated events before the cursor do not keep the cursor from advancing."""
    monkeypatch.setattr(event_list, "MAX_EVENTS_PER_CALL", 2)
    for intent_id in range(21, 25):
        await stripe.make_payment(intent_id=intent_id)
    cursor = (await _list_events(stripe, None))[1]
    stripe.clock.advance(HOUR)
    await stripe.make_payment(intent_id=30)
    listed, further = await _list_events(stripe, cursor)
    assert further != cursor
    assert 30 in listed | (await _list_events(stripe, further))[0]


async def test_a_crowded_period_is_read_completely(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events in one period than a page holds are all listed."""
    monkeypatch.setattr(event_list, "PAGE_SIZE", 5)
    await stripe.make_payment(intent_id=20)
    cursor = (await _list_events(stripe, None))[1]
    stripe.clock.advance(3 * HOUR)
    for intent_id in range(21, 27):
        await stripe.make_payment(intent_id=intent_id)
    assert (await _list_events(stripe, cursor))[0] == {*range(20, 27)}


async def test_another_deployments_events_are_not_listed(stripe: ProcessorBench) -> None:
    """Events of another deployment are not listed, and the cursor advances past them."""
    await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    events, cursor = await other.list_events(None, CALL_TIMEOUT_SECONDS)
    await other.close()
    assert not events
    assert int(cursor) == stripe.clock.wall().timestamp()


# The statement ------------------------------------------------------------------------------


async def test_other_deployments_movements_are_other(stripe: ProcessorBench) -> None:
    """Movements of another deployment are lines of kind `OTHER` that add up to the balance."""
    await stripe.make_payment()
    other = make_stripe_processor(stub_of(stripe), environment="other")
    lines = await _lines(other)
    await other.close()
    assert {(each.intent_id, each.kind) for each in lines} == {(None, MovementKind.OTHER)}
    assert sum(each.amount for each in lines) == await stripe.outside_world.balance()


async def test_lines_without_an_intent_come_first(stripe: ProcessorBench) -> None:
    """Lines without an intent are listed before lines with one."""
    await stripe.make_payment()
    payment = await stripe.make_payment(intent_id=5)
    charge = stub_of(stripe).objects("charge")[0]
    charge["metadata"], charge["transfer_group"] = {}, None
    lines = await _lines(stripe.payments)
    assert [each.intent_id for each in lines] == [None, None, 5, 5]
    assert lines[2].ref == payment.ref


async def test_a_late_failure_is_two_lines(stripe: ProcessorBench) -> None:
    """A refund that fails has two lines with its reference that add up to zero."""
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
    """Each line has the time of its balance transaction."""
    at = stripe.clock.wall()
    await stripe.make_payment()
    assert {each.at for each in await _lines(stripe.payments)} == {at}


async def test_a_long_statement_is_complete(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement of several pages and batches has each line once."""
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
    """A page that fails four times raises `OutcomeUnknown` before the first line."""
    monkeypatch.setattr(statement, "RETRY_DELAYS_SECONDS", (0, 0, 0))
    await stripe.make_payment()
    stub_of(stripe).inject_fault("read", fault, times=4)
    with pytest.raises(OutcomeUnknown):
        await anext(stripe.payments.statement())


@pytest.mark.parametrize("fault", ["reset_before", "error_500", "rate_limit"])
async def test_a_failed_page_is_read_again(
    stripe: ProcessorBench, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A page that fails once is read again."""
    monkeypatch.setattr(statement, "RETRY_DELAYS_SECONDS", (0, 0, 0))
    await stripe.make_payment()
    stub_of(stripe).inject_fault("read", fault)
    assert len(await _lines(stripe.payments)) == 2


async def test_an_empty_account_has_no_lines(stripe: ProcessorBench) -> None:
    """The statement of an account without movements is empty."""
    assert await _lines(stripe.payments) == []
    assert stripe.checkouts[INTENT_ID] == ()
