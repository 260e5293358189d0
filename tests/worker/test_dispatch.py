"""The loops that send: side by side, fair, and none in the way of another. Time is the loop's, and
passes only while nothing else can happen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import evolve

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.receivers import MemorySender, Sent
from staffbooking_core.domain.webhooks import DeliveryStatus, Endpoint, Failure
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import deliveries
from staffbooking_worker import dispatch
from tests.support.builders import NOW, POLICY, SECOND
from tests.support.loop import VirtualLoop
from tests.support.post import WAITS, Post, make_post
from tests.support.webhooks import add_delivery, add_endpoint

pytestmark = pytest.mark.anyio

FOREVER = 3_600
"""Seconds of the loop's time: what takes so long never comes."""

SUCCEEDED = DeliveryStatus.SUCCEEDED


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


class LoopClock(VirtualClock):
    """Goes with the loop."""

    def wall(self) -> datetime:
        return self.now + timedelta(seconds=asyncio.get_running_loop().time())


class Gates(MemorySender):
    """Receivers that answer 200 at once, unless they are told what else to do."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: dict[str, Callable[[], Awaitable[int | Failure]]] = {}
        self.gate = anyio.Event()
        self.in_flight: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """The most that were in flight at a time, by address."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> int | Failure:
        self.sent.append(Sent(url, headers, body))
        self.in_flight[url] += 1
        self.most[url] = max(self.most[url], self.in_flight[url])
        try:
            return await self.acts.get(url, self.answer)()
        finally:
            self.in_flight[url] -= 1

    async def answer(self) -> int:
        await checkpoint()
        return 200

    async def fail(self) -> int:
        await checkpoint()
        return 500

    async def hang(self) -> int:
        """Until the gate is opened."""
        await self.gate.wait()
        return 200

    async def time_out(self) -> Failure:
        await anyio.sleep(10)
        return Failure.TIMEOUT

    def urls(self) -> list[str]:
        """Where requests went, in their order."""
        return [each.url for each in self.sent]


class FaultyStore:
    """A store that is out of reach when it is told so."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.faults: list[str] = []
        """What goes wrong with the next units of work: "before" or "after" their commit."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def write(self, work: Any) -> Any:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise Unavailable("gone")
        result = await self.real.write(work)
        if fault == "after":
            raise Unavailable("gone")
        return result


@pytest.fixture
def sender() -> Gates:
    return Gates()


@pytest.fixture
def post(sender: Gates) -> Post:
    return make_post(clock=LoopClock(NOW), sender=sender)


async def with_deliveries(post: Post, number: int = 1, **given: Any) -> Endpoint:
    """An endpoint to which so many are due."""
    endpoint = await post.endpoint(**given)
    for _ in range(number):
        await add_delivery(post.ports.store, endpoint)
    return endpoint


@asynccontextmanager
async def serving(ports: Ports, workers: int = 1) -> AsyncIterator[anyio.Event]:
    """The dispatcher runs in the background, and is told to stop at the end."""
    stop = anyio.Event()
    with anyio.fail_after(FOREVER):
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(dispatch.serve, ports, stop)
            yield stop
            stop.set()


async def a_tick() -> None:
    """The shortest time in which others get on."""
    await anyio.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until something holds."""
    while not holds():
        await a_tick()


async def until_logged(post: Post, endpoint: Endpoint, number: int) -> None:
    """Until the newest delivery to an endpoint has had so many attempts."""
    while (await post.newest(endpoint)).attempts < number:
        await a_tick()


# Side by side -----------------------------------------------------------------------------


async def test_all_that_is_due_is_sent(post: Post, sender: Gates) -> None:
    """At many endpoints, each delivery once."""
    made = [await with_deliveries(post, 40) for _ in range(3)]
    with anyio.fail_after(FOREVER):
        assert await dispatch.drain(post.ports) == 120
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in made}
    for endpoint in made:
        assert set(await post.statuses(endpoint)) == {SUCCEEDED}


async def test_four_are_in_flight_at_most(post: Post, sender: Gates) -> None:
    """At each endpoint, however many are due; and no fewer."""
    made = [await with_deliveries(post, 20) for _ in range(2)]
    async with serving(post.ports):
        for endpoint in made:
            sender.acts[endpoint.url] = sender.hang
        await until(lambda: len(sender.sent) == 8)
        await anyio.sleep(dispatch.TURN_SECONDS)
        assert len(sender.sent) == 8
        sender.gate.set()
        await until(lambda: len(sender.sent) == 40)
    assert set(sender.most.values()) == {4}


async def test_two_workers_share_the_endpoints(post: Post, sender: Gates) -> None:
    """Even then each delivery is sent once, and four are in flight at most."""
    made = [await with_deliveries(post, 40) for _ in range(5)]
    async with serving(post.ports, workers=2):
        await until(lambda: len(sender.sent) == 200)
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in made}
    assert max(sender.most.values()) == 4


async def test_a_hanging_endpoint_holds_up_no_other(post: Post, sender: Gates) -> None:
    """The others' deliveries are made while it hangs."""
    hanging, sound = await with_deliveries(post, 20), await with_deliveries(post, 20)
    sender.acts[hanging.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: sender.urls().count(sound.url) == 20)
        sender.gate.set()


async def test_many_troubled_endpoints_hold_up_no_other(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many more than there are slots hang, once they have failed before."""
    monkeypatch.setattr(dispatch, "SLOTS", 3)
    for _ in range(10):
        endpoint = await with_deliveries(post, troubled=True)
        sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 3)
        sound = await with_deliveries(post, 20)
        await until(lambda: sender.urls().count(sound.url) == 20)
        sender.gate.set()


async def test_endpoints_that_begin_to_hang_make_room(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take all slots once, until their first attempts have failed, and never again."""
    monkeypatch.setattr(dispatch, "SLOTS", 3)
    hanging = [await with_deliveries(post) for _ in range(3)]
    for endpoint in hanging:
        sender.acts[endpoint.url] = sender.time_out
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 3)
        for endpoint in hanging:
            await until_logged(post, endpoint, 1)
            sender.acts[endpoint.url] = sender.hang
        await until(lambda: sum(sender.in_flight.values()) == 3)
        sound = await with_deliveries(post, 5)
        await until(lambda: sender.urls().count(sound.url) == 5)
        sender.gate.set()


@pytest.mark.parametrize(
    ("seconds", "most"), [(0.001, deliveries.TURN), (1.0, 16)], ids=["quick", "slow"]
)
async def test_one_with_much_to_do_starves_no_other(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch, seconds: float, most: int
) -> None:
    """Even with one slot for all, others have their turns between; of a slow one sooner."""
    monkeypatch.setattr(dispatch, "SLOTS", 1)
    busy = await with_deliveries(post, 200)
    others = [await with_deliveries(post) for _ in range(3)]

    async def take_time() -> int:
        await anyio.sleep(seconds)
        return 200

    sender.acts[busy.url] = take_time
    async with serving(post.ports):
        await until(lambda: len({*sender.urls()}) == 4)
    first = sender.urls().index(others[0].url)
    assert first <= most
    assert {*sender.urls()[first : first + 3]} == {other.url for other in others}


async def test_retries_come_when_they_are_due(post: Post, sender: Gates) -> None:
    """Never before, and at once then, although nothing wakes the dispatcher."""
    endpoint = await with_deliveries(post)
    sender.acts[endpoint.url] = sender.fail
    async with serving(post.ports):
        await until_logged(post, endpoint, 4)
    [(delivery, attempts)] = await post.logged(endpoint)
    assert delivery.status is DeliveryStatus.FAILED
    waited = [later.at - earlier.at for earlier, later in pairwise(attempts)]
    late = [wait - least for wait, least in zip(waited, WAITS, strict=True)]
    assert min(late) >= 0 * SECOND
    assert max(late) < 0.1 * SECOND


async def test_a_hint_ends_the_wait(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes due is sent without a look by the clock."""
    monkeypatch.setattr(dispatch, "POLL", FOREVER)
    async with serving(post.ports):
        await anyio.sleep(1)
        await with_deliveries(post)
        await until(lambda: len(sender.sent) == 1)


async def test_without_a_hint_it_is_found_too(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints may be lost: polling is the truth."""
    monkeypatch.setattr(type(post.ports.hints), "give", lambda _, hint: None)
    async with serving(post.ports):
        await anyio.sleep(1)
        await with_deliveries(post)
        await until(lambda: len(sender.sent) == 1)


# Stopping, and what is not ours any more --------------------------------------------------


async def test_what_is_in_flight_is_finished(post: Post, sender: Gates) -> None:
    """After the word to stop nothing more is sent; what was is logged, and the endpoint is
    free for the next worker."""
    endpoint = await with_deliveries(post, 20)
    sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports) as stop:
        await until(lambda: len(sender.sent) == 4)
        stop.set()
        await anyio.sleep(1)
        sender.gate.set()
    assert len(sender.sent) == 4
    assert (await post.statuses(endpoint)).count(SUCCEEDED) == 4
    assert len((await post.claim()).parcels) == 16


async def test_a_pause_ends_the_turn(post: Post, sender: Gates) -> None:
    """Of an endpoint that its owner pauses only what is in flight goes on."""
    endpoint = await with_deliveries(post, 20)
    sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 4)
        await post.pause(endpoint)
        sender.gate.set()
        await anyio.sleep(1)
    assert len(sender.sent) == 4
    assert Counter(await post.statuses(endpoint)) == {SUCCEEDED: 4, DeliveryStatus.HELD: 16}


async def test_claims_are_kept_while_a_turn_lasts(sender: Gates) -> None:
    """No other worker takes an endpoint over whose attempt takes longer than the lease."""
    policy = evolve(POLICY, lease=3 * SECOND)
    post = make_post(clock=LoopClock(NOW), sender=sender, policy=policy)
    endpoint = await with_deliveries(post)
    sender.acts[endpoint.url] = sender.time_out
    async with serving(post.ports, workers=2):
        await until_logged(post, endpoint, 1)
    [(_, attempts)] = await post.logged(endpoint)
    assert (len(attempts), len(sender.sent)) == (1, 1)


async def test_drain_leaves_what_is_not_due(post: Post, sender: Gates) -> None:
    """A retry that has to wait is not waited for."""
    endpoint = await with_deliveries(post, 3)
    sender.acts[endpoint.url] = sender.fail
    with anyio.fail_after(FOREVER):
        assert await dispatch.drain(post.ports) == 3
        assert await dispatch.drain(post.ports) == 0
    assert set(await post.statuses(endpoint)) == {DeliveryStatus.PENDING}


# Faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults", [["before", "before"], ["after"], ["before", "after", "after"]], ids=",".join
)
async def test_what_was_sent_is_not_sent_again(
    post: Post, sender: Gates, faults: list[str]
) -> None:
    """While the store is away outcomes wait, whether or not it has saved them already."""
    store = FaultyStore(post.ports.store)
    endpoint = await with_deliveries(post)

    async def answer() -> int:
        store.faults += faults
        return 200

    sender.acts[endpoint.url] = answer
    async with serving(evolve(post.ports, store=store)):
        await until(lambda: len(sender.sent) == 1 and not store.faults)
        await until_logged(post, endpoint, 1)
        await anyio.sleep(60)
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (delivery.status, len(attempts), len(sender.sent)) == (SUCCEEDED, 1, 1)


async def test_a_store_that_is_away_is_waited_for(post: Post, sender: Gates) -> None:
    """Claims that could not be made are made later."""
    store = FaultyStore(post.ports.store)
    store.faults += ["before"] * 3
    await with_deliveries(post)
    async with serving(evolve(post.ports, store=store)):
        await until(lambda: len(sender.sent) == 1)


async def test_a_fault_in_one_turn_leaves_the_others(
    post: Post, sender: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the others are sent, and its own delivery again when its claim is over."""
    broken, sound = await with_deliveries(post), await with_deliveries(post, 20)
    faults = ["a bug"]

    async def fault() -> int:
        if faults:
            raise RuntimeError(faults.pop())
        return 200

    sender.acts[broken.url] = fault
    async with serving(post.ports):
        await until(lambda: sender.urls().count(sound.url) == 20)
        await until_logged(post, broken, 1)
    assert "a bug" in caplog.text
    assert await post.statuses(broken) == [SUCCEEDED]


@pytest.mark.parametrize("step", ["claim", "settle", "renew"])
async def test_an_unexpected_fault_ends_nothing(
    post: Post,
    sender: Gates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """A bug in any step is logged, and the dispatcher goes on."""
    real, faults = getattr(deliveries, step), ["a bug"]

    async def faulty(*args: Any, **named: Any) -> Any:
        if faults:
            raise RuntimeError(faults.pop())
        return await real(*args, **named)

    monkeypatch.setattr(deliveries, step, faulty)
    endpoint = await with_deliveries(post)
    async with serving(post.ports):
        await until_logged(post, endpoint, 1)
        await until(lambda: not faults)
        later = await with_deliveries(post)
        await until_logged(post, later, 1)
    assert "a bug" in caplog.text


async def test_without_its_key_one_endpoint_waits(
    post: Post, sender: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in the log, nothing is sent to it, and all others are."""
    sealed = await add_endpoint(post.ports.store)
    await add_delivery(post.ports.store, sealed)
    sound = await with_deliveries(post, 20)
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 20)
    assert {*sender.urls()} == {sound.url}
    assert f"webhook {sealed.id}: a sealed secret can't be opened" in caplog.text
