"""The contract of `PubSub`, the chat between processes (CONTRACT 6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from staffbooking_core.ports import PubSub
from staffbooking_core.representations.channel import Broadcast, ServerEvent

__all__ = ["PubSubContract", "RecordingSubscriber"]

WAIT_TIMEOUT_SECONDS = 10.0
"""Seconds before a wait fails; a passing test never takes this long."""
_PROBE_INTERVAL_SECONDS = 0.01
_MAX_ID = 2**63 - 1


class RecordingSubscriber:
    """A double of `Subscriber`: records the broadcasts it receives, oldest first."""

    def __init__(self) -> None:
        self.stored_count = 0
        """Number of notifications that messages were stored."""
        self.broadcasts: list[Broadcast] = []
        self._changed = asyncio.Event()

    def on_messages_stored(self) -> None:
        self.stored_count += 1
        self._changed.set()

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self.broadcasts.append(broadcast)
        self._changed.set()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds that a broadcast brings about."""
        with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_until_stored(self, count: int) -> None:
        """Wait until so many notifications have come that messages were stored."""
        await self.wait_until(lambda: self.stored_count >= count)

    async def wait_until_count(self, count: int) -> None:
        """Wait until so many broadcasts have come."""
        await self.wait_until(lambda: len(self.broadcasts) >= count)

    async def wait_until_last(self, last: Broadcast) -> None:
        """Wait for the final broadcast."""
        await self.wait_until(lambda: last in self.broadcasts[-1:])


class _ProbedSubscriber(RecordingSubscriber):
    """Notes from which processes probes came, and records none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: set[int] = set()

    def on_broadcast(self, broadcast: Broadcast) -> None:
        if "probe" in broadcast.data:
            self.heard.add(broadcast.data["probe"])
        else:
            super().on_broadcast(broadcast)


def _typing(*to: int, **data: Any) -> Broadcast:
    return Broadcast(to, ServerEvent.TYPING, data)


_LAST = _typing(99, last=True)


class PubSubContract:
    """What every chat between processes promises. A subclass names its chat: `open_processes`.

    class TestMyChat(PubSubContract):
        @asynccontextmanager
        async def open_processes(self, request):
            async with MyChat("redis://...") as one, MyChat("redis://...") as other:
                yield [one, other]
    """

    pytestmark = pytest.mark.anyio

    def open_processes(
        self, request: pytest.FixtureRequest
    ) -> AbstractAsyncContextManager[Sequence[PubSub]]:
        """The chats of two processes of one deployment; of one, where a chat serves only one. It
        can ask the request for fixtures."""
        pytest.fail(f"{type(self).__name__} does not override PubSubContract.open_processes")

    @pytest.fixture
    async def processes(self, request: pytest.FixtureRequest) -> AsyncIterator[Sequence[PubSub]]:
        async with self.open_processes(request) as opened:
            yield opened

    # Within one process -------------------------------------------------------------------------

    async def test_subscribers_of_the_same_process_are_told_at_once(
        self, processes: Sequence[PubSub]
    ) -> None:
        """Publishing tells each subscriber of the same process once, before it returns."""
        chat, one, other = processes[0], RecordingSubscriber(), RecordingSubscriber()
        async with chat.subscribe(one), chat.subscribe(other):
            before = one.stored_count, other.stored_count
            chat.publish(_typing(1, 2, is_typing=True))
            chat.publish_messages_stored()
            for subscriber in (one, other):
                assert subscriber.broadcasts == [_typing(1, 2, is_typing=True)]
            assert (one.stored_count, other.stored_count) == (before[0] + 1, before[1] + 1)

    async def test_a_former_subscriber_is_not_told(self, processes: Sequence[PubSub]) -> None:
        """A subscriber whose context has ended is told nothing more; others are."""
        chat, one, other = processes[0], RecordingSubscriber(), RecordingSubscriber()
        async with chat.subscribe(one):
            async with chat.subscribe(other):
                before = other.stored_count
            chat.publish(_LAST)
            chat.publish_messages_stored()
            assert one.broadcasts == [_LAST]
            assert (other.broadcasts, other.stored_count) == ([], before)

    async def test_publishing_without_a_subscriber(self, processes: Sequence[PubSub]) -> None:
        """Publishing without a subscriber raises nothing."""
        processes[0].publish_messages_stored()
        processes[0].publish(_LAST)

    # Between processes --------------------------------------------------------------------------

    async def test_a_broadcast_reaches_each_process_once_and_unchanged(
        self, processes: Sequence[PubSub]
    ) -> None:
        """A broadcast reaches every process, the publishing one included, once and unchanged:
        any text, whole numbers of 64 bits, nested values."""
        sent = _typing(
            1,
            _MAX_ID,
            name="Zoë \0 😀 \"'\\",
            deep={"a": [1, -_MAX_ID, 2.5, None, True]},
            at="2027-03-04T12:00:00Z",
        )
        async with _subscribe_to_all(processes) as subscribers:
            processes[0].publish(sent)
            processes[0].publish(_LAST)
            for subscriber in subscribers:
                await subscriber.wait_until_last(_LAST)
                assert subscriber.broadcasts == [sent, _LAST]

    async def test_each_process_publishes(self, processes: Sequence[PubSub]) -> None:
        """A broadcast of any process reaches every process."""
        async with _subscribe_to_all(processes) as subscribers:
            sent = [_typing(7, process=number) for number, _ in enumerate(processes)]
            for process, broadcast in zip(processes, sent, strict=True):
                process.publish(broadcast)
            for subscriber in subscribers:
                await subscriber.wait_until_count(len(sent))
                assert sorted(each.data["process"] for each in subscriber.broadcasts) == [
                    *range(len(sent))
                ]

    async def test_each_process_is_told_of_stored_messages(
        self, processes: Sequence[PubSub]
    ) -> None:
        """Every process is told that messages were stored."""
        async with _subscribe_to_all(processes) as subscribers:
            before = [subscriber.stored_count for subscriber in subscribers]
            processes[0].publish_messages_stored()
            for subscriber, count in zip(subscribers, before, strict=True):
                await subscriber.wait_until_stored(count + 1)

    async def test_broadcasts_keep_their_order(self, processes: Sequence[PubSub]) -> None:
        """500 broadcasts of one process, published in bursts, reach the others in their order."""
        async with _subscribe_to_all(processes) as subscribers:
            sent = [_typing(7, number=number) for number in range(500)]
            for number, broadcast in enumerate(sent):
                processes[0].publish(broadcast)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            await subscribers[-1].wait_until_last(sent[-1])
            assert subscribers[-1].broadcasts == sent

    async def test_a_broadcast_to_many_names_each_once(self, processes: Sequence[PubSub]) -> None:
        """A broadcast to 5,000 users arrives, whole or in parts that name each user once."""
        people = tuple(range(_MAX_ID - 5_000, _MAX_ID))
        async with _subscribe_to_all(processes) as subscribers:
            processes[0].publish(_typing(*people, name="Ångström"))
            processes[0].publish(_LAST)
            await subscribers[-1].wait_until_last(_LAST)
            *received, _ = subscribers[-1].broadcasts
        assert [user_id for broadcast in received for user_id in broadcast.to] == list(people)
        assert {broadcast.data["name"] for broadcast in received} == {"Ångström"}


@asynccontextmanager
async def _subscribe_to_all(
    processes: Sequence[PubSub],
) -> AsyncIterator[Sequence[RecordingSubscriber]]:
    """A subscriber in each process, as soon as each of them hears every process."""
    subscribers = [_ProbedSubscriber() for _ in processes]
    numbers = set(range(len(processes)))
    async with AsyncExitStack() as stack:
        for process, subscriber in zip(processes, subscribers, strict=True):
            await stack.enter_async_context(process.subscribe(subscriber))
        with anyio.move_on_after(WAIT_TIMEOUT_SECONDS):
            while any(subscriber.heard < numbers for subscriber in subscribers):
                for number, process in enumerate(processes):
                    process.publish(_typing(0, probe=number))
                await anyio.sleep(_PROBE_INTERVAL_SECONDS)
        for number, subscriber in enumerate(subscribers):
            if missing := numbers - subscriber.heard:
                pytest.fail(f"process {number} does not receive what {missing} publish")
        yield subscribers
