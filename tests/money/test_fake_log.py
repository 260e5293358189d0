"""Retention of the fake processor's events and of its answers under idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from staffbooking_adapters.fake.answers import ANSWER_RETENTION
from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW, SECOND
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    ProcessorBench,
    make_operation_key,
    make_payee_command,
)
from staffbooking_core.domain.payments.operations import OPERATION_KEY_LIFETIME
from staffbooking_core.domain.payments.processor import (
    OperationKind,
    OutcomeUnknown,
    ProcessorEvent,
)
from tests.money.fake_helpers import run_concurrently
from tests.money.processors import due_event_ids, fake_processor_of

pytestmark = pytest.mark.anyio


async def list_events(
    bench: ProcessorBench, cursor: str | None = None
) -> tuple[Sequence[ProcessorEvent], str]:
    return await bench.payments.list_events(cursor, CALL_TIMEOUT_SECONDS)


async def event_ids(bench: ProcessorBench, cursor: str | None = None) -> list[str]:
    return [event.event_id for event in (await list_events(bench, cursor))[0]]


# Events ----------------------------------------------------------------------------------------


async def test_events_are_listed_in_order(bench: ProcessorBench) -> None:
    """All events are listed in order with their intents, delivered or not."""
    await bench.make_payment(intent_id=13)
    await bench.open_checkout(intent_id=9)
    events, _ = await list_events(bench)
    assert events == [
        ProcessorEvent("fev_13_000001", 13),
        ProcessorEvent("fev_13_000002", 13),
        ProcessorEvent("fev_9_000001", 9),
    ]


async def test_events_of_payees_are_listed(bench: ProcessorBench) -> None:
    """Events of payees refer to the account."""
    key = make_operation_key(OperationKind.OPEN_PAYEE)
    payee = await bench.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    await bench.outside_world.set_ready(payee.ref, False)
    assert (await list_events(bench))[0] == [ProcessorEvent("fev_p2_000001", payee_ref=payee.ref)]


async def test_a_cursor_skips_listed_events(bench: ProcessorBench) -> None:
    """A cursor skips the events already listed and stays the same at the end."""
    await bench.open_checkout()
    _, cursor = await list_events(bench)
    assert await list_events(bench, cursor) == ([], cursor)
    await bench.open_checkout(intent_id=13)
    assert await event_ids(bench, cursor) == ["fev_13_000001"]


async def test_an_empty_log_has_a_cursor(bench: ProcessorBench) -> None:
    """The cursor of an empty log precedes the first event."""
    events, cursor = await list_events(bench)
    await bench.open_checkout()
    assert events == []
    assert await event_ids(bench, cursor) == ["fev_12_000001"]


async def test_events_are_listed_in_pages(bench: ProcessorBench) -> None:
    """Events are listed in pages of 100 without gaps."""
    for intent_id in range(1, 122):
        await bench.open_checkout(intent_id=intent_id)
    first, cursor = await list_events(bench)
    rest, _ = await list_events(bench, cursor)
    assert (len(first), len(rest)) == (100, 21)
    assert [event.intent_id for event in (*first, *rest)] == list(range(1, 122))


@pytest.mark.parametrize("kind", ["drop", "bad_signature"])
async def test_a_lost_event_is_listed(bench: ProcessorBench, kind: str) -> None:
    """A lost event is still listed."""
    await bench.open_checkout()
    await fake_processor_of(bench).sandbox.add_fault("event", kind, 1)
    await bench.outside_world.events()
    bench.clock.advance(MINUTE)
    assert await due_event_ids(bench) == []
    assert await event_ids(bench) == ["fev_12_000001"]


async def test_an_expiry_is_listed(bench: ProcessorBench) -> None:
    """An expired page is listed even if no events were requested."""
    await bench.open_checkout()
    await bench.clock.set_business(NOW + 12 * HOUR)
    assert await event_ids(bench) == ["fev_12_000001", "fev_12_000002"]


async def test_events_are_listed_for_a_month(bench: ProcessorBench) -> None:
    """Events are listed for exactly 30 days of business time."""
    await bench.open_checkout()
    await bench.clock.set_business(NOW + 30 * DAY - SECOND)
    await bench.outside_world.events()
    assert "fev_12_000001" in await event_ids(bench)
    await bench.clock.set_business(NOW + 30 * DAY)
    await bench.outside_world.events()
    assert await event_ids(bench) == ["fev_12_000002"]


async def test_a_cursor_outlives_its_events(bench: ProcessorBench) -> None:
    """A cursor stays valid after all its events were deleted."""
    await bench.open_payee()
    await bench.open_checkout()
    _, cursor = await list_events(bench)
    for _ in range(2):  # The page expires; that event is deleted as well.
        await bench.clock.set_business(await bench.clock.business() + 31 * DAY)
        await bench.outside_world.events()
    assert await event_ids(bench) == []
    await bench.open_payee(ready=False)
    assert await event_ids(bench, cursor) == ["fev_p2_000001"]


async def test_a_cursor_misses_nothing(benches: tuple[ProcessorBench, ProcessorBench]) -> None:
    """A reader that follows the log of two concurrent writers sees each event once and in
    the order of the whole log."""
    found: list[str] = []
    cursor: str | None = None

    async def work(number: int) -> None:
        nonlocal cursor
        if number:
            await benches[number % 2].open_checkout(intent_id=number)
            return
        while len(found) < 24:
            events, cursor = await list_events(benches[0], cursor)
            found.extend(event.event_id for event in events)

    with anyio.fail_after(CALL_TIMEOUT_SECONDS):
        await run_concurrently(25, work)
    assert found == await event_ids(benches[1])


# Answers ---------------------------------------------------------------------------------------


async def test_an_answer_is_kept_for_a_day(bench: ProcessorBench) -> None:
    """A repeat one second before the end of the day gets the first answer."""
    payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
    first = await bench.refund(payment, 5_000, key)
    bench.clock.advance(DAY - SECOND)
    await bench.outside_world.events()
    assert await bench.refund(payment, 5_000, key) == first
    assert (await bench.snapshot()).refunds == (first,)


async def test_an_expired_key_moves_money_again(bench: ProcessorBench) -> None:
    """The same call makes a second refund after a day of real time, however far business time
    is ahead."""
    payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
    await bench.clock.set_business(NOW + 3 * DAY)
    first = await bench.refund(payment, 5_000, key)
    bench.clock.advance(DAY)
    second = await bench.refund(payment, 5_000, key)
    assert (await bench.snapshot()).refunds == (first, second)
    assert await bench.outside_world.balance() == 10_000


@pytest.mark.parametrize("kind", ["error_500", "error_500_after"])
async def test_a_stored_error_is_repeated(bench: ProcessorBench, kind: str) -> None:
    """A server error is repeated under its key."""
    payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
    await bench.outside_world.break_next(OperationKind.REFUND, kind)
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            await bench.refund(payment, 5_000, key)


async def test_a_stored_error_expires_as_well(bench: ProcessorBench) -> None:
    """A key with a stored error is usable again after a day."""
    payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
    await bench.outside_world.break_next(OperationKind.REFUND, "error_500")
    with pytest.raises(OutcomeUnknown):
        await bench.refund(payment, 5_000, key)
    bench.clock.advance(DAY)
    assert (await bench.refund(payment, 5_000, key)).amount == 5_000


async def test_the_sandbox_clock_expires_no_key(bench: ProcessorBench) -> None:
    """Keys expire by real time, as retries do; the sandbox clock does not affect them."""
    payment, key = await bench.make_payment(), make_operation_key(OperationKind.REFUND)
    first = await bench.refund(payment, 5_000, key)
    await bench.clock.set_business(NOW + 3 * DAY)
    await bench.outside_world.events()
    assert await bench.refund(payment, 5_000, key) == first


def test_the_core_looks_up_before_a_key_expires() -> None:
    """The core's retry period is shorter than the retention of keys."""
    assert OPERATION_KEY_LIFETIME < ANSWER_RETENTION
