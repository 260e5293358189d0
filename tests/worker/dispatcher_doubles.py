"""Scenery for tests of the dispatcher: receivers at gates, a store that fails when it is told so.
Time is the loop's, and passes only while nothing else can happen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.webhooks.receivers import MemorySender, Sent
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, Endpoint, Failure
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_worker import webhook_dispatcher
from tests.support.builders import NOW
from tests.support.virtual_loop import VirtualLoop
from tests.support.webhook_deployment import Post, make_post
from tests.support.webhooks import add_delivery

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
                group.start_soon(webhook_dispatcher.serve, ports, stop)
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
