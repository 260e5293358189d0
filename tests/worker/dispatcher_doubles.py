"""Test doubles of the dispatcher: receivers that wait at gates, and a store that fails on demand.
Time is the loop's virtual time, which passes only while all tasks wait."""

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
from staffbooking_adapters.memory.webhooks.receivers import MemorySender, SentWebhook
from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.builders_webhooks import add_delivery
from staffbooking_core.domain.webhooks.deliveries import (
    DeliveryFailure,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_worker import webhook_dispatcher
from tests.support.virtual_loop import VirtualTimeLoop
from tests.support.webhook_deployment import WebhookScenario, make_webhook_scenario

NEVER_TIMEOUT_SECONDS = 3_600
"""Seconds of virtual time that count as never."""

SUCCEEDED = DeliveryStatus.SUCCEEDED


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class LoopClock(VirtualClock):
    """A clock that follows the loop's virtual time."""

    def wall(self) -> datetime:
        return self.now + timedelta(seconds=asyncio.get_running_loop().time())


class GatedReceivers(MemorySender):
    """Receivers that answer 200 immediately unless configured otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviours: dict[str, Callable[[], Awaitable[int | DeliveryFailure]]] = {}
        self.gate = anyio.Event()
        self.in_flight: Counter[str] = Counter()
        self.max_in_flight: Counter[str] = Counter()
        """The maximum number of concurrent requests, by URL."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        self.sent.append(SentWebhook(url, headers, body))
        self.in_flight[url] += 1
        self.max_in_flight[url] = max(self.max_in_flight[url], self.in_flight[url])
        try:
            return await self.behaviours.get(url, self.answer)()
        finally:
            self.in_flight[url] -= 1

    async def answer(self) -> int:
        await checkpoint()
        return 200

    async def fail(self) -> int:
        await checkpoint()
        return 500

    async def hang(self) -> int:
        """Block requests until the gate is opened."""
        await self.gate.wait()
        return 200

    async def time_out(self) -> DeliveryFailure:
        await anyio.sleep(10)
        return DeliveryFailure.TIMEOUT

    def urls(self) -> list[str]:
        """The requested URLs, in order."""
        return [each.url for each in self.sent]


class UnreliableStore:
    """A store that is unavailable on demand."""

    def __init__(self, real: Any) -> None:
        self.inner = real
        self.faults: list[str] = []
        """Failures of the next transactions: "before" or "after" their commit."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def run_transaction(self, work: Any) -> Any:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise StoreUnavailable("gone")
        result = await self.inner.run_transaction(work)
        if fault == "after":
            raise StoreUnavailable("gone")
        return result


@pytest.fixture
def sender() -> GatedReceivers:
    return GatedReceivers()


@pytest.fixture
def post(sender: GatedReceivers) -> WebhookScenario:
    return make_webhook_scenario(clock=LoopClock(NOW), webhook_sender=sender)


async def add_endpoint_with_deliveries(
    post: WebhookScenario, number: int = 1, **given: Any
) -> WebhookEndpoint:
    """Creates an endpoint with this many due deliveries."""
    endpoint = await post.add_endpoint(**given)
    for _ in range(number):
        await add_delivery(post.ports.store, endpoint)
    return endpoint


@asynccontextmanager
async def running_dispatcher(ports: Ports, workers: int = 1) -> AsyncIterator[anyio.Event]:
    """Runs the dispatcher in the background and stops it at the end."""
    stop = anyio.Event()
    with anyio.fail_after(NEVER_TIMEOUT_SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(webhook_dispatcher.run_dispatcher, ports, stop)
            yield stop
            stop.set()


async def yield_to_others() -> None:
    """Sleeps for the shortest time in which other tasks run."""
    await anyio.sleep(0.01)


async def wait_until(holds: Callable[[], bool]) -> None:
    """Lets other tasks run until a condition holds."""
    while not holds():
        await yield_to_others()


async def wait_until_attempted(
    post: WebhookScenario, endpoint: WebhookEndpoint, number: int
) -> None:
    """Waits until the newest delivery of an endpoint has this many attempts."""
    while (await post.newest_delivery(endpoint)).attempts < number:
        await yield_to_others()
