"""The worker's loop: every lane goes on whatever another one does, and stops when told."""

from __future__ import annotations

from typing import cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import evolve

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, Endpoint
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Hint, Letter, Ports, Undeliverable
from staffbooking_core.usecases.notifications.notifications import GivenUp
from staffbooking_worker import main
from staffbooking_worker.jobs import LANES, Lane
from tests.support.builders import add_user
from tests.support.memory_deployment import memory_ports
from tests.support.notifications import add_notice, make_notice
from tests.support.webhook_deployment import Post, make_post
from tests.support.webhooks import tell

pytestmark = pytest.mark.anyio

PORTS = cast("Ports", None)


class Work:
    """A lane's work that does what it is told, one thing a call, and then stops the worker."""

    def __init__(self, stop: anyio.Event, *script: int | Exception) -> None:
        self.stop, self.script, self.calls = stop, list(script), 0

    async def __call__(self, _: Ports) -> int:
        self.calls += 1
        if not self.script:
            self.stop.set()
            return 0
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are waited out at once."""
    monkeypatch.setattr(main, "PAUSE", 0)


async def test_a_lane_runs_on_until_told_to_stop() -> None:
    """Work that is due is done without a wait between."""
    stop = anyio.Event()
    work = Work(stop, 1, 1, 3)

    with anyio.fail_after(5):
        await main.run_lanes(PORTS, stop, [Lane("busy", work, idle=60)])

    assert work.calls == 4


async def test_a_store_out_of_reach_does_not_end_a_lane() -> None:
    """A lane goes on after the store was out of reach."""
    stop = anyio.Event()
    work = Work(stop, Unavailable("gone"), 1)

    with anyio.fail_after(5):
        await main.run_lanes(PORTS, stop, [Lane("store", work, idle=60)])

    assert work.calls == 3


async def test_an_unexpected_fault_is_logged_and_does_not_end_a_lane(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bug in a lane leaves a trace in the log, and the lane goes on."""
    stop = anyio.Event()
    work = Work(stop, RuntimeError("a bug"), 1)

    with anyio.fail_after(5):
        await main.run_lanes(PORTS, stop, [Lane("buggy", work, idle=60)])

    assert work.calls == 3
    assert "a bug" in caplog.text


async def test_stopping_does_not_wait_for_an_idle_lane() -> None:
    """An idle lane that would sleep for an hour ends at once."""
    stop = anyio.Event()
    ends_it = Work(stop)

    async def nothing_due(_: Ports) -> int:
        return 0

    with anyio.fail_after(5):
        await main.run_lanes(
            PORTS, stop, [Lane("idle", nothing_due, idle=3600), Lane("ends", ends_it, idle=1)]
        )

    assert ends_it.calls == 1


async def test_what_is_in_flight_is_finished() -> None:
    """A call that runs when the worker is told to stop is not cut off."""
    stop, finished = anyio.Event(), []

    async def slow(_: Ports) -> int:
        stop.set()
        await anyio.lowlevel.checkpoint()
        finished.append(True)
        return 1

    with anyio.fail_after(5):
        await main.run_lanes(PORTS, stop, [Lane("slow", slow, idle=1)])

    assert finished == [True]


# Hints ----------------------------------------------------------------------------------


async def test_a_hint_ends_the_wait_of_its_lane() -> None:
    """An idle lane that would sleep for an hour works as soon as it is told to."""
    stop, ports = anyio.Event(), memory_ports()
    work = Work(stop, 0)
    lane = Lane("hinted", work, idle=3600, hint=Hint.EVENTS)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(main.run_lanes, ports, stop, [lane])
            while work.calls == 0:
                await checkpoint()
            await tell(ports.store)

    assert work.calls == 2


async def test_a_hint_while_a_lane_works_is_not_missed() -> None:
    """What was committed after the lane had looked is not left until the next poll."""
    stop, ports = anyio.Event(), memory_ports()
    calls = []

    async def look(_: Ports) -> int:
        calls.append(True)
        if len(calls) == 1:
            await tell(ports.store)
        else:
            stop.set()
        return 0

    with anyio.fail_after(5):
        await main.run_lanes(ports, stop, [Lane("hinted", look, idle=3600, hint=Hint.EVENTS)])

    assert len(calls) == 2


# The whole worker -----------------------------------------------------------------------


async def told(post: Post) -> tuple[Endpoint, str]:
    """An event that an endpoint gets, once a worker runs."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await post.endpoint(owner=boss)
    post.answer(endpoint, 200)
    return endpoint, (await tell(post.ports.store)).id


async def test_drain_does_all_that_is_due() -> None:
    """An event is published and delivered, and a second call finds nothing."""
    post = make_post()
    endpoint, event_id = await told(post)

    assert await main.drain(post.ports) == 2
    assert await main.drain(post.ports) == 0

    [sent] = post.sent
    assert (sent.url, sent.headers["X-Webhook-Id"]) == (endpoint.url, event_id)


async def test_drain_does_not_wait_for_retries() -> None:
    """A delivery that fails is left to be tried when it is due."""
    post = make_post()
    endpoint, _ = await told(post)
    post.answer(endpoint, 500)

    with anyio.fail_after(5):
        assert await main.drain(post.ports) == 2

    assert await post.statuses(endpoint) == [DeliveryStatus.PENDING]


class Refusing(RecordingNotifier):
    """It reaches nobody."""

    async def tell(self, letter: Letter) -> None:
        raise Undeliverable("no such user")


async def test_drain_goes_on_where_nobody_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    """What can't be told is logged and raised in the end: all else is done."""
    made = make_post()
    post = evolve(made, ports=evolve(made.ports, notifier=Refusing()))
    endpoint, _ = await told(post)
    for _ in range(20):  # More than one batch.
        await add_notice(post.ports.store, make_notice(endpoint.owner_id))

    with pytest.raises(GivenUp) as raised:
        await main.drain(post.ports)

    assert str(raised.value) == "20 notices were given up"
    assert len(post.sent) == 1
    assert caplog.text.count("Undeliverable: no such user") == 20
    assert "notice 1 (webhook_disabled) was given up" in caplog.text
    assert await main.drain(post.ports) == 0


async def test_no_mail_is_begun_once_the_worker_stops() -> None:
    """The one in flight is finished, those behind it are left to the next worker."""
    stop, letters = anyio.Event(), list[Letter]()

    class Stopping(RecordingNotifier):
        async def tell(self, letter: Letter) -> None:
            stop.set()
            letters.append(letter)

    ports = memory_ports(notifier=Stopping())
    user = await add_user(ports.store)
    for subject in ("one", "two"):
        await add_notice(ports.store, make_notice(user.id, subject=subject))

    with anyio.fail_after(5):
        await main.run_lanes(ports, stop, [lane for lane in LANES if lane.name == "notices"])

    assert [letter.subject for letter in letters] == ["one"]


async def test_the_worker_publishes_and_sends() -> None:
    """One call runs all that a deployment needs, until it is told to stop."""
    post, stop = make_post(), anyio.Event()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(main.work, post.ports, stop)
            endpoint, _ = await told(post)
            while await post.statuses(endpoint) != [DeliveryStatus.SUCCEEDED]:
                await checkpoint()
            stop.set()

    assert len(post.sent) == 1
