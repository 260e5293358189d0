"""The payloads of a shared chat: their size, pace, retries and end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from staffbooking_adapters.chat.shared import (
    MAX_BACKLOG_BYTES,
    PUBLISH_INTERVAL_SECONDS,
    RETRY_DELAY_SECONDS,
    SharedChat,
)
from staffbooking_adapters.codec import decode
from staffbooking_adapters.testing.pubsub import RecordingSubscriber
from tests.channel.chat_links import closing_chat, make_typing_broadcast
from tests.support.virtual_loop import VirtualTimeLoop


class RecordingTransport:
    """A transport that records its payloads, and can fail or never answer."""

    def __init__(self, *, failures: int = 0, answers: bool = True) -> None:
        self.published: list[tuple[float, bool, list[Any]]] = []
        """Time in seconds, whether messages were stored, and the data of the broadcasts."""
        self.sizes: list[int] = []
        self.failures = failures
        self.answers = answers
        self.has_unsubscribed = False
        self.closed_at: float | None = None

    async def publish(self, payload: bytes) -> None:
        _, stored, broadcasts = decode(payload)
        self.sizes.append(len(payload))
        self.published.append((_now(), stored, [broadcast["data"] for broadcast in broadcasts]))
        if not self.answers:
            await asyncio.Event().wait()
        if self.failures:
            self.failures -= 1
            raise OSError

    async def subscribe(self, *_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            self.has_unsubscribed = True

    async def close(self) -> None:
        self.closed_at = _now()


def _now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def run_with_chat(wire: RecordingTransport, work: Callable[[SharedChat], Awaitable[None]]) -> None:
    """Run work with a chat on a transport, in virtual time."""

    async def run() -> None:
        async with closing_chat(SharedChat(wire)) as chat:
            await work(chat)  # type: ignore[arg-type]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


def test_a_burst_is_sent_in_two_payloads() -> None:
    """The first broadcast is sent at once, and those within the interval in one payload."""
    wire = RecordingTransport()

    async def work(chat: SharedChat) -> None:
        chat.publish(make_typing_broadcast(1, number=0))
        await asyncio.sleep(0)
        for number in (1, 2):
            chat.publish_messages_stored()
            chat.publish(make_typing_broadcast(1, number=number))

    run_with_chat(wire, work)
    assert wire.published == [
        (0, False, [{"number": 0}]),
        (PUBLISH_INTERVAL_SECONDS, True, [{"number": 1}, {"number": 2}]),
    ]


def test_payloads_keep_an_interval() -> None:
    """Payloads are at least `PUBLISH_INTERVAL_SECONDS` apart, and sent at once after a pause."""
    wire = RecordingTransport()

    async def work(chat: SharedChat) -> None:
        for _ in range(10):
            chat.publish_messages_stored()
            await asyncio.sleep(PUBLISH_INTERVAL_SECONDS / 5)
        await asyncio.sleep(1)
        chat.publish_messages_stored()
        await asyncio.sleep(1)

    run_with_chat(wire, work)
    assert [at for at, *_ in wire.published] == [
        0,
        PUBLISH_INTERVAL_SECONDS,
        2 * PUBLISH_INTERVAL_SECONDS,
        1.01,
    ]


def test_many_broadcasts_fill_payloads() -> None:
    """1,000 broadcasts are sent in order, in payloads of 7,800 to 8,000 bytes except the last."""
    wire = RecordingTransport()

    async def work(chat: SharedChat) -> None:
        for number in range(1_000):
            chat.publish(make_typing_broadcast(1, number=number))

    run_with_chat(wire, work)
    numbers = [data["number"] for *_, broadcasts in wire.published for data in broadcasts]
    assert numbers == list(range(1_000))
    assert all(7_800 < size < 8_000 for size in wire.sizes[:-1])


def test_the_backlog_is_bounded() -> None:
    """The backlog is filled up to `MAX_BACKLOG_BYTES` while the event loop does not run."""
    wire = RecordingTransport(answers=False)
    backlog_bytes = 0

    async def work(chat: SharedChat) -> None:
        nonlocal backlog_bytes
        for number in range(50_000):
            chat.publish(make_typing_broadcast(1, number=number))
        backlog_bytes = sum(map(len, chat._backlog))

    run_with_chat(wire, work)
    assert MAX_BACKLOG_BYTES - 100 < backlog_bytes <= MAX_BACKLOG_BYTES


def test_sent_broadcasts_leave_the_backlog() -> None:
    """Broadcasts of twice `MAX_BACKLOG_BYTES` are all sent if each is sent before the next."""
    wire = RecordingTransport()
    amount = 2 * MAX_BACKLOG_BYTES // 4_000

    async def work(chat: SharedChat) -> None:
        for _ in range(amount):
            chat.publish(make_typing_broadcast(1, text="x" * 4_000))
            await asyncio.sleep(PUBLISH_INTERVAL_SECONDS)

    run_with_chat(wire, work)
    assert sum(len(broadcasts) for *_, broadcasts in wire.published) == amount


def test_a_failed_payload_is_retried() -> None:
    """A failed payload is sent again every `RETRY_DELAY_SECONDS`, oldest first, together with later
    broadcasts."""
    wire = RecordingTransport(failures=2)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()
        chat.publish(make_typing_broadcast(1, number=0))
        await asyncio.sleep(RETRY_DELAY_SECONDS / 2)
        chat.publish(make_typing_broadcast(1, number=1))
        await asyncio.sleep(5)

    run_with_chat(wire, work)
    assert wire.published == [
        (0, True, [{"number": 0}]),
        (RETRY_DELAY_SECONDS, True, [{"number": 0}, {"number": 1}]),
        (2 * RETRY_DELAY_SECONDS, True, [{"number": 0}, {"number": 1}]),
    ]


@pytest.mark.parametrize("cancelled", [False, True])
def test_leaving_waits_for_the_unsubscription(cancelled: bool) -> None:
    """Leaving a subscription waits until the transport has unsubscribed, also when cancelled."""
    wire = RecordingTransport()

    async def work(chat: SharedChat) -> None:
        with anyio.CancelScope() as scope:
            async with chat.subscribe(RecordingSubscriber()):
                await asyncio.sleep(0)
                if cancelled:
                    scope.cancel()
        assert wire.has_unsubscribed

    run_with_chat(wire, work)


def test_closing_does_not_retry() -> None:
    """Closing does not retry a failed payload."""
    wire = RecordingTransport(failures=1_000)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()

    run_with_chat(wire, work)
    assert (len(wire.published), wire.closed_at) == (1, 0)


def test_closing_times_out() -> None:
    """Closing waits at most two seconds for a transport that never answers."""
    wire = RecordingTransport(answers=False)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()

    run_with_chat(wire, work)
    assert (len(wire.published), wire.closed_at) == (1, 2)
