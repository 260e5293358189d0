"""Injected faults of the fake processor, and its events."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD
from staffbooking_adapters.fake.faults import (
    CALL_FAULT_KINDS,
    EVENT_FAULT_KINDS,
    REFUND_PROGRESSIONS,
)
from staffbooking_adapters.testing.builders import HOUR, NOW, SECOND
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import (
    BadEventSignature,
    OperationKind,
    OutcomeUnknown,
    ProcessorBusy,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.errors import InvalidField
from tests.money.fake_helpers import make_fake_bench
from tests.money.processors import due_event_ids, fake_processor_of

pytestmark = pytest.mark.anyio


# Faults ----------------------------------------------------------------------------------------


async def attempt(bench: ProcessorBench) -> str:
    """Open a checkout and return the outcome as one word."""
    try:
        await bench.open_checkout()
    except (ProcessorBusy, OutcomeUnknown, ProcessorRefused) as error:
        return error.reason if isinstance(error, ProcessorRefused) else type(error).__name__
    return "done"


async def test_faults_apply_in_order(bench: ProcessorBench) -> None:
    """Faults apply to their calls oldest first and are used up."""
    await fake_processor_of(bench).sandbox.add_fault("any", "rate_limit", 2)
    await fake_processor_of(bench).sandbox.add_fault("refund", "conflict", 1)
    await fake_processor_of(bench).sandbox.add_fault("open_checkout", "refuse", 1)
    assert [await attempt(bench) for _ in range(4)] == [
        "ProcessorBusy",
        "ProcessorBusy",
        "invalid",
        "done",
    ]


async def test_faults_are_cleared(bench: ProcessorBench) -> None:
    """Cleared faults no longer apply."""
    await fake_processor_of(bench).sandbox.add_fault("any", "timeout_before", 5)
    await fake_processor_of(bench).sandbox.clear_faults()
    assert await attempt(bench) == "done"


async def test_a_fault_of_events_does_not_affect_calls(fake: ProcessorBench) -> None:
    """A fault of events does not affect calls."""
    await fake_processor_of(fake).sandbox.add_fault("event", "drop", 1)
    assert await attempt(fake) == "done"


@pytest.mark.parametrize("code", list(RefusalCode))
async def test_a_refusal_has_the_requested_code(fake: ProcessorBench, code: RefusalCode) -> None:
    """The processor refuses with the code that was asked for."""
    await fake_processor_of(fake).sandbox.add_fault("open_checkout", f"refuse:{code}", 1)
    assert await attempt(fake) == code


async def test_a_slow_call_is_answered(fake: ProcessorBench) -> None:
    """An answer delayed by two seconds within the deadline is returned."""
    await fake_processor_of(fake).sandbox.add_fault("open_checkout", "slow", 1)
    await fake.payments.open_checkout(
        make_checkout_command(), make_operation_key(OperationKind.OPEN_CHECKOUT), 2.5
    )
    assert fake.clock.wall() == NOW + 2 * SECOND


async def test_a_slow_call_outlasts_a_short_deadline(fake: ProcessorBench) -> None:
    """A slow call past its deadline has an unknown outcome but is executed."""
    await fake_processor_of(fake).sandbox.add_fault("open_checkout", "slow", 1)
    with pytest.raises(OutcomeUnknown):
        await fake.payments.open_checkout(
            make_checkout_command(), make_operation_key(OperationKind.OPEN_CHECKOUT), 1.5
        )
    assert len((await fake.snapshot()).checkouts) == 1


@pytest.mark.parametrize("kind", REFUND_PROGRESSIONS)
async def test_a_refund_follows_the_injected_progression(bench: ProcessorBench, kind: str) -> None:
    """A refund starts in the injected status, ends by itself, and its end has an event."""
    payment = await bench.make_payment()
    await fake_processor_of(bench).sandbox.add_fault("refund", kind, 1)
    refund = await bench.refund(payment, 5_000)
    before = set(await due_event_ids(bench))
    await bench.clock.set_business(NOW + DELAYED_EFFECT_PERIOD)
    first, last = REFUND_PROGRESSIONS[kind]
    assert refund.status is first
    assert set(await due_event_ids(bench)) - before
    assert (await bench.snapshot()).refunds == (evolve(refund, status=last),)


@pytest.mark.parametrize(
    ("op", "kind", "times", "fields"),
    [
        ("snapshot", "conflict", 1, ["op"]),
        ("refund", "explode", 1, ["kind"]),
        ("refund", "refuse:because", 1, ["kind"]),
        ("refund", "drop", 1, ["kind"]),
        ("refund", "slow:2", 1, ["kind"]),
        ("event", "slow", 1, ["kind"]),
        ("event", "refuse:invalid", 1, ["kind"]),
        ("pay_out", "settled_then_failed", 1, ["kind"]),
        ("refund", "refuse", 0, ["times"]),
        ("refund", "refuse", 2**70, ["times"]),
        ("", "", -1, ["op", "times"]),
    ],
)
async def test_an_unknown_fault_is_named(
    fake: ProcessorBench, op: str, kind: str, times: int, fields: list[str]
) -> None:
    """A refusal names all wrong fields together."""
    with pytest.raises(InvalidField) as invalid:
        await fake_processor_of(fake).sandbox.add_fault(op, kind, times)
    assert [fault.field for fault in invalid.value.field_errors] == fields


@pytest.mark.parametrize("op", [*OperationKind, "any"])
@pytest.mark.parametrize("kind", CALL_FAULT_KINDS)
async def test_every_published_fault_is_accepted(fake: ProcessorBench, op: str, kind: str) -> None:
    """Every published op accepts every kind of call fault."""
    await fake_processor_of(fake).sandbox.add_fault(op, kind, 1)


# Chance ----------------------------------------------------------------------------------------


async def test_faults_apply_at_random() -> None:
    """Each call draws a random fault by its op; requested faults apply first."""
    asked, kinds = list[str](), ["rate_limit", "", "refuse:disputed"]

    def chance(op: str) -> str:
        asked.append(op)
        return kinds.pop(0)

    bench = make_fake_bench(injector=chance)
    await fake_processor_of(bench).sandbox.add_fault("any", "timeout_before", 1)
    assert [await attempt(bench) for _ in range(4)] == [
        "OutcomeUnknown",
        "ProcessorBusy",
        "done",
        "disputed",
    ]
    assert asked == ["open_checkout"] * 3


async def test_event_faults_apply_at_random() -> None:
    """Each event delivery draws a random fault."""
    bench = make_fake_bench(injector=lambda op: "drop" if op == "event" else "")
    await bench.open_checkout()
    assert await due_event_ids(bench) == []


async def test_a_random_fault_must_fit_the_op() -> None:
    """A random fault whose kind does not fit the op raises an error."""
    bench = make_fake_bench(injector=lambda _: "drop")
    with pytest.raises(InvalidField):
        await bench.open_checkout()


# Events ----------------------------------------------------------------------------------------


async def test_each_change_has_an_event(bench: ProcessorBench) -> None:
    """Opening, paying and refunding each send an event with its own id, in order."""
    await bench.refund(await bench.make_payment(), 1)
    assert await due_event_ids(bench) == ["fev_12_000001", "fev_12_000002", "fev_12_000003"]


async def test_an_unchanged_intent_has_no_event(fake: ProcessorBench) -> None:
    """A repeat and a refusal send no event, since they change nothing."""
    payment, key = await fake.make_payment(), make_operation_key(OperationKind.REFUND)
    await fake.refund(payment, 20_000, key)
    first_count = len(await due_event_ids(fake))
    await fake.refund(payment, 20_000, key)
    with pytest.raises(ProcessorRefused):
        await fake.refund(payment, 1)
    assert (first_count, await due_event_ids(fake)) == (3, [])


async def test_an_event_is_delivered_twice(bench: ProcessorBench) -> None:
    """An event is redelivered once after ten seconds, since the first receiver may have
    crashed."""
    await bench.open_checkout()
    first = await due_event_ids(bench)
    bench.clock.advance(9 * SECOND)
    assert await due_event_ids(bench) == []
    bench.clock.advance(SECOND)
    assert await due_event_ids(bench) == first
    bench.clock.advance(HOUR)
    assert await due_event_ids(bench) == []


async def test_events_are_taken_in_batches(fake: ProcessorBench) -> None:
    """At most the requested number of events is taken, oldest first."""
    await fake.refund(await fake.make_payment(), 1)
    assert await due_event_ids(fake, 2) == ["fev_12_000001", "fev_12_000002"]
    assert await due_event_ids(fake, 2) == ["fev_12_000003"]


async def test_an_expiry_has_an_event(bench: ProcessorBench) -> None:
    """An expired page sends an event with the time of expiry."""
    await bench.open_checkout()
    await due_event_ids(bench)
    await bench.clock.set_business(NOW + 12 * HOUR)
    assert "fev_12_000002" in await due_event_ids(bench)


@pytest.mark.parametrize(
    ("kind", "first", "later"),
    [
        ("drop", ["2", "3"], ["2", "3"]),
        ("delay", ["2", "3"], ["1", "2", "3"]),
        ("duplicate", ["1", "1", "2", "3"], ["1", "2", "3"]),
        ("reorder", ["2", "3", "1"], ["1", "2", "3"]),
        ("bad_signature", ["1", "2", "3"], ["2", "3"]),
    ],
)
async def test_faults_of_events(
    bench: ProcessorBench, kind: str, first: list[str], later: list[str]
) -> None:
    """Each kind of fault affects the first of three events as named."""
    await bench.refund(await bench.make_payment(), 1)
    await fake_processor_of(bench).sandbox.add_fault("event", kind, 1)
    assert [event[-1] for event in await due_event_ids(bench)] == first
    bench.clock.advance(DELAYED_EFFECT_PERIOD)
    assert sorted(event[-1] for event in await due_event_ids(bench)) == later


async def test_a_badly_signed_event_is_refused(fake: ProcessorBench) -> None:
    """The service can tell the forged event from the others."""
    await fake.make_payment()
    await fake_processor_of(fake).sandbox.add_fault("event", "bad_signature", 1)
    forged, genuine = await fake_processor_of(fake).sandbox.take_due_events(2)
    with pytest.raises(BadEventSignature):
        fake.payments.parse_webhook(*forged, fake.clock.wall())
    assert fake.payments.parse_webhook(*genuine, fake.clock.wall())


async def test_events_are_signed_with_real_time(fake: ProcessorBench) -> None:
    """Event signatures use real time, however far business time is ahead."""
    await fake.clock.set_business(NOW + 72 * HOUR)
    command = evolve(make_checkout_command(), expires_at=NOW + 73 * HOUR)
    await fake.payments.open_checkout(
        command, make_operation_key(OperationKind.OPEN_CHECKOUT), CALL_TIMEOUT_SECONDS
    )
    [(headers, body)] = await fake_processor_of(fake).sandbox.take_due_events(1)
    assert fake.payments.parse_webhook(headers, body, fake.clock.wall())


def test_every_fault_of_an_event_is_known() -> None:
    """The published event fault kinds are the ones tested above."""
    assert set(EVENT_FAULT_KINDS) == {"drop", "delay", "duplicate", "reorder", "bad_signature"}
