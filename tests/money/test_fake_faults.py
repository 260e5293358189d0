"""How the fake processor misbehaves when asked to, and how it tells of changes."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.fake.charge import LATER
from staffbooking_adapters.fake.faults import CALL_KINDS, COURSES, EVENT_KINDS
from staffbooking_core.domain.payments.processor import (
    BadSignature,
    Busy,
    OpKind,
    RefusalCode,
    Refused,
    Unknown,
)
from staffbooking_core.errors import InvalidField
from tests.money.fake_helpers import fake_with
from tests.money.processors import (
    WITHIN,
    Bench,
    fake_of,
    ids_due,
    make_checkout,
    make_key,
)
from tests.support.builders import HOUR, NOW, SECOND

pytestmark = pytest.mark.anyio


# Faults ----------------------------------------------------------------------------------------


async def attempt(bench: Bench) -> str:
    """What comes of opening a checkout, in one word."""
    try:
        await bench.opened()
    except (Busy, Unknown, Refused) as error:
        return error.reason if isinstance(error, Refused) else type(error).__name__
    return "done"


async def test_faults_strike_in_their_order(bench: Bench) -> None:
    """Each fault strikes its calls, the older first, and is used up by them."""
    await fake_of(bench).add_fault("any", "rate_limit", 2)
    await fake_of(bench).add_fault("refund", "conflict", 1)
    await fake_of(bench).add_fault("open_checkout", "refuse", 1)
    assert [await attempt(bench) for _ in range(4)] == ["Busy", "Busy", "invalid", "done"]


async def test_faults_are_cleared(bench: Bench) -> None:
    """Cleared faults strike no more."""
    await fake_of(bench).add_fault("any", "timeout_before", 5)
    await fake_of(bench).clear_faults()
    assert await attempt(bench) == "done"


async def test_a_fault_of_events_spares_calls(fake: Bench) -> None:
    """Events have faults of their own."""
    await fake_of(fake).add_fault("event", "drop", 1)
    assert await attempt(fake) == "done"


@pytest.mark.parametrize("code", list(RefusalCode))
async def test_a_refusal_of_choice(fake: Bench, code: RefusalCode) -> None:
    """The processor refuses with the code that was asked for."""
    await fake_of(fake).add_fault("open_checkout", f"refuse:{code}", 1)
    assert await attempt(fake) == code


async def test_a_slow_call_is_answered(fake: Bench) -> None:
    """Two seconds late, within the deadline, the answer still comes."""
    await fake_of(fake).add_fault("open_checkout", "slow", 1)
    await fake.payments.open_checkout(make_checkout(), make_key(OpKind.OPEN_CHECKOUT), 2.5)
    assert fake.clock.wall() == NOW + 2 * SECOND


async def test_a_slow_call_outlasts_a_short_deadline(fake: Bench) -> None:
    """With less time than that the outcome is unknown, though it was executed."""
    await fake_of(fake).add_fault("open_checkout", "slow", 1)
    with pytest.raises(Unknown):
        await fake.payments.open_checkout(make_checkout(), make_key(OpKind.OPEN_CHECKOUT), 1.5)
    assert len((await fake.snapshot()).checkouts) == 1


@pytest.mark.parametrize("kind", COURSES)
async def test_a_refund_may_take_another_course(bench: Bench, kind: str) -> None:
    """It stands as told at first, ends by itself, and an event tells of its end."""
    payment = await bench.paid()
    await fake_of(bench).add_fault("refund", kind, 1)
    refund = await bench.refunded(payment, 5_000)
    before = set(await ids_due(bench))
    await bench.clock.set_business(NOW + LATER)
    first, last = COURSES[kind]
    assert refund.status is first
    assert set(await ids_due(bench)) - before
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
    fake: Bench, op: str, kind: str, times: int, fields: list[str]
) -> None:
    """Every wrong field is told at once."""
    with pytest.raises(InvalidField) as invalid:
        await fake_of(fake).add_fault(op, kind, times)
    assert [fault.field for fault in invalid.value.faults] == fields


@pytest.mark.parametrize("op", [*OpKind, "any"])
@pytest.mark.parametrize("kind", CALL_KINDS)
async def test_every_published_fault_is_taken(fake: Bench, op: str, kind: str) -> None:
    """Each op goes with each kind of a call's fault."""
    await fake_of(fake).add_fault(op, kind, 1)


# Chance ----------------------------------------------------------------------------------------


async def test_a_fault_may_strike_by_chance() -> None:
    """Each call asks for one, by its op; those that were asked for come first."""
    asked, kinds = list[str](), ["rate_limit", "", "refuse:disputed"]

    def chance(op: str) -> str:
        asked.append(op)
        return kinds.pop(0)

    bench = fake_with(chance=chance)
    await fake_of(bench).add_fault("any", "timeout_before", 1)
    assert [await attempt(bench) for _ in range(4)] == ["Unknown", "Busy", "done", "disputed"]
    assert asked == ["open_checkout"] * 3


async def test_events_are_struck_by_chance() -> None:
    """Each that is to be brought asks as well."""
    bench = fake_with(chance=lambda op: "drop" if op == "event" else "")
    await bench.opened()
    assert await ids_due(bench) == []


async def test_chance_keeps_to_the_faults_that_there_are() -> None:
    """A kind that does not fit the op is a mistake of whoever asks for it."""
    bench = fake_with(chance=lambda _: "drop")
    with pytest.raises(InvalidField):
        await bench.opened()


# Events ----------------------------------------------------------------------------------------


async def test_each_change_has_an_event(bench: Bench) -> None:
    """Opening, paying and refunding are told of, in their order, each by an id of its own."""
    await bench.refunded(await bench.paid(), 1)
    assert await ids_due(bench) == ["fev_12_000001", "fev_12_000002", "fev_12_000003"]


async def test_nothing_new_has_no_event(fake: Bench) -> None:
    """A repeat and a refusal change nothing, so they are not told of."""
    payment, key = await fake.paid(), make_key(OpKind.REFUND)
    await fake.refunded(payment, 20_000, key)
    told = len(await ids_due(fake))
    await fake.refunded(payment, 20_000, key)
    with pytest.raises(Refused):
        await fake.refunded(payment, 1)
    assert (told, await ids_due(fake)) == (3, [])


async def test_an_event_comes_twice(bench: Bench) -> None:
    """Half a minute later an event is brought again, and then never more: who took it the
    first time may have crashed."""
    await bench.opened()
    first = await ids_due(bench)
    bench.clock.advance(29 * SECOND)
    assert await ids_due(bench) == []
    bench.clock.advance(SECOND)
    assert await ids_due(bench) == first
    bench.clock.advance(HOUR)
    assert await ids_due(bench) == []


async def test_events_come_in_portions(fake: Bench) -> None:
    """No more are taken than were asked for, the oldest first."""
    await fake.refunded(await fake.paid(), 1)
    assert await ids_due(fake, 2) == ["fev_12_000001", "fev_12_000002"]
    assert await ids_due(fake, 2) == ["fev_12_000003"]


async def test_a_lapse_is_told_of(bench: Bench) -> None:
    """A page that lapses is a change: the event comes with its time."""
    await bench.opened()
    await ids_due(bench)
    await bench.clock.set_business(NOW + 12 * HOUR)
    assert "fev_12_000002" in await ids_due(bench)


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
    bench: Bench, kind: str, first: list[str], later: list[str]
) -> None:
    """Each kind does to the first of three events what its name says."""
    await bench.refunded(await bench.paid(), 1)
    await fake_of(bench).add_fault("event", kind, 1)
    assert [event[-1] for event in await ids_due(bench)] == first
    bench.clock.advance(LATER)
    assert sorted(event[-1] for event in await ids_due(bench)) == later


async def test_a_badly_signed_event_is_refused(fake: Bench) -> None:
    """The service can tell the forged event from the others."""
    await fake.paid()
    await fake_of(fake).add_fault("event", "bad_signature", 1)
    forged, genuine = await fake_of(fake).due_events(2)
    with pytest.raises(BadSignature):
        fake.payments.parse_webhook(*forged, fake.clock.wall())
    assert fake.payments.parse_webhook(*genuine, fake.clock.wall())


async def test_events_are_signed_by_the_wall(fake: Bench) -> None:
    """However far business time is ahead, the signature is of now."""
    await fake.clock.set_business(NOW + 72 * HOUR)
    command = evolve(make_checkout(), expires_at=NOW + 73 * HOUR)
    await fake.payments.open_checkout(command, make_key(OpKind.OPEN_CHECKOUT), WITHIN)
    [(headers, body)] = await fake_of(fake).due_events(1)
    assert fake.payments.parse_webhook(headers, body, fake.clock.wall())


def test_every_fault_of_an_event_is_known() -> None:
    """The list of kinds is the list of those that are tested above."""
    assert set(EVENT_KINDS) == {"drop", "delay", "duplicate", "reorder", "bad_signature"}
