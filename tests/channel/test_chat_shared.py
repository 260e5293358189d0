"""What a shared Chat makes of its wire: how much it says at once, how often, how long."""

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
from tests.channel.chat_links import RecordingListener, closing_chat, make_typing_broadcast
from tests.support.virtual_loop import VirtualTimeLoop


class NotedWire:
    """A wire that notes when it was given what, and can fail or never answer."""

    def __init__(self, *, failures: int = 0, answers: bool = True) -> None:
        self.noted: list[tuple[float, bool, list[Any]]] = []
        """Seconds, whether messages were stored, and the tells' data."""
        self.sizes: list[int] = []
        self.failures = failures
        self.answers = answers
        self.hung_up = False
        self.closed_at: float | None = None

    async def publish(self, payload: bytes) -> None:
        _, stored, tells = decode(payload)
        self.sizes.append(len(payload))
        self.noted.append((_now(), stored, [tell["data"] for tell in tells]))
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
            self.hung_up = True

    async def close(self) -> None:
        self.closed_at = _now()


def _now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def played(wire: NotedWire, work: Callable[[SharedChat], Awaitable[None]]) -> None:
    """Do something with a chat on a wire, in virtual time."""

    async def run() -> None:
        async with closing_chat(SharedChat(wire)) as chat:
            await work(chat)  # type: ignore[arg-type]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


def test_a_burst_is_told_in_few_words() -> None:
    """The first word goes out at once, and what follows it meanwhile in one payload."""
    wire = NotedWire()

    async def work(chat: SharedChat) -> None:
        chat.publish(make_typing_broadcast(1, number=0))
        await asyncio.sleep(0)
        for number in (1, 2):
            chat.publish_messages_stored()
            chat.publish(make_typing_broadcast(1, number=number))

    played(wire, work)
    assert wire.noted == [
        (0, False, [{"number": 0}]),
        (PUBLISH_INTERVAL_SECONDS, True, [{"number": 1}, {"number": 2}]),
    ]


def test_words_go_out_at_a_pace() -> None:
    """However often something is said, and at once again after silence."""
    wire = NotedWire()

    async def work(chat: SharedChat) -> None:
        for _ in range(10):
            chat.publish_messages_stored()
            await asyncio.sleep(PUBLISH_INTERVAL_SECONDS / 5)
        await asyncio.sleep(1)
        chat.publish_messages_stored()
        await asyncio.sleep(1)

    played(wire, work)
    assert [at for at, *_ in wire.noted] == [
        0,
        PUBLISH_INTERVAL_SECONDS,
        2 * PUBLISH_INTERVAL_SECONDS,
        1.01,
    ]


def test_much_is_told_in_many_payloads() -> None:
    """Each of them as full as the wire takes it."""
    wire = NotedWire()

    async def work(chat: SharedChat) -> None:
        for number in range(1_000):
            chat.publish(make_typing_broadcast(1, number=number))

    played(wire, work)
    numbers = [data["number"] for *_, tells in wire.noted for data in tells]
    assert numbers == list(range(1_000))
    assert all(7_800 < size < 8_000 for size in wire.sizes[:-1])


def test_a_flood_without_a_turn_of_the_loop_is_bounded() -> None:
    """The newest of what passes stays, up to a bound of bytes."""
    wire = NotedWire(answers=False)
    kept = 0

    async def work(chat: SharedChat) -> None:
        nonlocal kept
        for number in range(50_000):
            chat.publish(make_typing_broadcast(1, number=number))
        kept = sum(map(len, chat._backlog))

    played(wire, work)
    assert MAX_BACKLOG_BYTES - 100 < kept <= MAX_BACKLOG_BYTES


def test_what_was_told_makes_room() -> None:
    """However much is said in the course of time, nothing of it is dropped."""
    wire = NotedWire()
    amount = 2 * MAX_BACKLOG_BYTES // 4_000

    async def work(chat: SharedChat) -> None:
        for _ in range(amount):
            chat.publish(make_typing_broadcast(1, text="x" * 4_000))
            await asyncio.sleep(PUBLISH_INTERVAL_SECONDS)

    played(wire, work)
    assert sum(len(tells) for *_, tells in wire.noted) == amount


def test_what_was_stored_is_told_in_the_end() -> None:
    """Where the wire fails all is said again after a pause, the oldest first."""
    wire = NotedWire(failures=2)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()
        chat.publish(make_typing_broadcast(1, number=0))
        await asyncio.sleep(RETRY_DELAY_SECONDS / 2)
        chat.publish(make_typing_broadcast(1, number=1))
        await asyncio.sleep(5)

    played(wire, work)
    assert wire.noted == [
        (0, True, [{"number": 0}]),
        (RETRY_DELAY_SECONDS, True, [{"number": 0}, {"number": 1}]),
        (2 * RETRY_DELAY_SECONDS, True, [{"number": 0}, {"number": 1}]),
    ]


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_listens_no_more_has_hung_up(cancelled: bool) -> None:
    """Before anything else happens, and where it was cancelled too."""
    wire = NotedWire()

    async def work(chat: SharedChat) -> None:
        with anyio.CancelScope() as scope:
            async with chat.subscribe(RecordingListener()):
                await asyncio.sleep(0)
                if cancelled:
                    scope.cancel()
        assert wire.hung_up

    played(wire, work)


def test_the_end_waits_for_no_wire_that_fails() -> None:
    """What can't be told then is lost."""
    wire = NotedWire(failures=1_000)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()

    played(wire, work)
    assert (len(wire.noted), wire.closed_at) == (1, 0)


def test_the_end_does_not_wait_long() -> None:
    """A wire that never answers is given up."""
    wire = NotedWire(answers=False)

    async def work(chat: SharedChat) -> None:
        chat.publish_messages_stored()

    played(wire, work)
    assert (len(wire.noted), wire.closed_at) == (1, 2)
