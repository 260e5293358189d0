"""What is Redis's alone: its restarts and silences, its secrets, and who shares it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import anyio
import pytest
from redis.asyncio import Redis

from staffbooking_adapters import listening as again
from staffbooking_adapters.chat import redis, shared
from staffbooking_adapters.chat.redis import RedisPubSubTransport, channel_name
from staffbooking_adapters.chat.shared import SharedChat
from tests.channel.chat_links import (
    WAIT_TIMEOUT_SECONDS,
    RecordingListener,
    closing_chat,
    listen_to,
    make_typing_broadcast,
)
from tests.support.redis import RedisServer, run_redis_server

pytestmark = pytest.mark.anyio

LAST = make_typing_broadcast(99, last=True)
BASE = "https://book.example"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One that a test may stop."""
    with run_redis_server() as server:
        yield server


def chat_at(server: RedisServer, channel: str = "one") -> SharedChat:
    return SharedChat(RedisPubSubTransport(server.url, channel))


async def test_a_restart_heals(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word of the time without a server is lost, but that messages were stored is told, and
    then all goes on as before."""
    monkeypatch.setattr(again, "RETRY_DELAYS_SECONDS", (0,))
    monkeypatch.setattr(shared, "RETRY_DELAY_SECONDS", 0)
    async with (
        closing_chat(chat_at(server)) as mine,
        closing_chat(chat_at(server)) as other,
        listen_to(mine) as here,
        listen_to(other) as there,
    ):
        mine.publish(make_typing_broadcast(1))
        await there.wait_until_last(make_typing_broadcast(1))
        server.stop()
        mine.publish(make_typing_broadcast(2))
        assert here.broadcasts == [make_typing_broadcast(1), make_typing_broadcast(2)]
        before = here.stored_count, there.stored_count
        server.start()
        await here.wait_until(lambda: here.stored_count > before[0])
        await there.wait_until(lambda: there.stored_count > before[1])
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        other.publish(LAST)
        await here.wait_until(lambda: here.broadcasts[-2:] == [LAST, LAST])


class CountedWire(RedisPubSubTransport):
    """A wire that counts how often it began to listen."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "one")
        self.began = 0
        self._news = asyncio.Event()

    async def subscribe(
        self, on_payload: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        self.began += 1
        self._news.set()
        await super().subscribe(on_payload, on_subscribed)

    async def until_began(self, times: int) -> None:
        with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
            while self.began < times:
                self._news.clear()
                await self._news.wait()


async def test_a_server_that_fell_silent_is_given_up(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is dead though nobody said so is found out by its pulse, and another
    is made."""
    monkeypatch.setattr(redis, "PING_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(redis, "REPLY_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(again, "RETRY_DELAYS_SECONDS", (0,))
    wire = CountedWire(server.url)
    async with closing_chat(SharedChat(wire)) as mine, listen_to(mine) as here:
        server.suspend()
        before = here.stored_count
        await wire.until_began(wire.began + 1)
        server.resume()
        await here.wait_until(lambda: here.stored_count > before)


async def pulses(operator: Redis) -> int:
    counted = await operator.info("commandstats")
    return int(counted.get("cmdstat_ping", {"calls": 0})["calls"])


async def test_a_pulse_disturbs_nobody(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that answers is kept, however long nothing is said."""
    monkeypatch.setattr(redis, "PING_INTERVAL_SECONDS", 0.001)
    wire = CountedWire(server.url)
    async with closing_chat(SharedChat(wire)) as mine, listen_to(mine) as here:
        async with server.client() as operator:
            with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
                while await pulses(operator) < 5:
                    pass
        async with closing_chat(chat_at(server)) as other:
            other.publish(LAST)
            await here.wait_until_last(LAST)
        assert (wire.began, here.stored_count) == (1, 1)


async def test_deployments_that_share_a_redis_do_not_hear_each_other(
    redis_server: RedisServer,
) -> None:
    """Each has a channel of its own."""
    async with (
        closing_chat(chat_at(redis_server, "one")) as mine,
        closing_chat(chat_at(redis_server, "two")) as foreign,
        closing_chat(chat_at(redis_server, "one")) as other,
        listen_to(other) as there,
    ):
        foreign.publish(make_typing_broadcast(1))
        await foreign.close()
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [LAST]


async def test_a_secret_is_told_to_nobody(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A password that Redis does not take stands in no log; that nothing is heard does, once."""
    monkeypatch.setattr(again, "RETRY_DELAYS_SECONDS", (0,))
    async with server.client() as operator:
        await operator.config_set("requirepass", "right")
    wire = CountedWire(server.url.replace("unix://", "unix://:hunter2@"))
    async with (
        closing_chat(SharedChat(wire)) as mine,
        mine.subscribe(listener := RecordingListener()),
    ):
        await wire.until_began(5)
        assert listener.stored_count == 0
    assert [record.getMessage() for record in caplog.records] == [
        "Subscription to other processes failed: AuthenticationError"
    ]
    assert "hunter2" not in repr(wire) + repr(vars(mine))


PLACES = [
    ("postgresql+asyncpg://app:pw@db/booking", BASE),
    ("postgresql+asyncpg://app:pw@db/other", BASE),
    ("postgresql+asyncpg://app:pw@db2/booking", BASE),
    ("postgresql+asyncpg://app:pw@db/booking", "https://staging.example"),
    ("postgresql+asyncpg://app@/booking?host=/run/one", BASE),
    ("postgresql+asyncpg://app@/booking?host=/run/two", BASE),
    ("sqlite+aiosqlite:///booking.db", BASE),
    ("sqlite+aiosqlite:////srv/booking.db", BASE),
]


async def test_a_channel_tells_deployments_apart() -> None:
    """By their database and by their address."""
    assert len({channel_name(*place) for place in PLACES}) == len(PLACES)


async def test_a_channel_knows_no_secret() -> None:
    """Neither a user nor a password is any part of it, and an address can't be read from it."""
    one = channel_name("postgresql+asyncpg://app:pw@db/booking", BASE)
    assert one == channel_name("postgresql+asyncpg://other:secret@db/booking", BASE)
    assert one == channel_name("postgresql+asyncpg://db/booking?password=secret", BASE)
    assert "booking" not in one.removeprefix("staffbooking:")


async def test_a_file_is_the_same_from_everywhere(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path counts from where the process runs."""
    monkeypatch.chdir(tmp_path)
    relative = channel_name("sqlite+aiosqlite:///booking.db", BASE)
    assert relative == channel_name(f"sqlite+aiosqlite:///{tmp_path}/booking.db", BASE)
