"""The Redis transport: restarts, unresponsive servers, passwords, and channels of deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import anyio
import pytest
from redis.asyncio import Redis

from staffbooking_adapters import listening
from staffbooking_adapters.chat import redis, shared
from staffbooking_adapters.chat.redis import RedisPubSubTransport, channel_name
from staffbooking_adapters.chat.shared import SharedChat
from staffbooking_adapters.testing.pubsub import WAIT_TIMEOUT_SECONDS, RecordingSubscriber
from tests.channel.chat_links import closing_chat, listen_to, make_typing_broadcast
from tests.support.redis import RedisServer, run_redis_server

pytestmark = pytest.mark.anyio

LAST = make_typing_broadcast(99, last=True)
BASE = "https://book.example"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server that the test may stop."""
    with run_redis_server() as server:
        yield server


def chat_at(server: RedisServer, channel: str = "one") -> SharedChat:
    return SharedChat(RedisPubSubTransport(server.url, channel))


async def test_broadcasts_resume_after_a_restart(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broadcast during a restart is lost; afterwards both processes are notified of stored
    messages and get broadcasts."""
    monkeypatch.setattr(listening, "RETRY_DELAYS_SECONDS", (0,))
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


class CountingTransport(RedisPubSubTransport):
    """A transport that counts its subscriptions."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "one")
        self.subscription_count = 0
        self._changed = asyncio.Event()

    async def subscribe(
        self, on_payload: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        self.subscription_count += 1
        self._changed.set()
        await super().subscribe(on_payload, on_subscribed)

    async def wait_for_subscriptions(self, times: int) -> None:
        with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
            while self.subscription_count < times:
                self._changed.clear()
                await self._changed.wait()


async def test_an_unresponsive_server_is_reconnected(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers no ping is reconnected."""
    monkeypatch.setattr(redis, "PING_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(redis, "REPLY_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(listening, "RETRY_DELAYS_SECONDS", (0,))
    wire = CountingTransport(server.url)
    async with closing_chat(SharedChat(wire)) as mine, listen_to(mine) as here:
        server.suspend()
        before = here.stored_count
        await wire.wait_for_subscriptions(wire.subscription_count + 1)
        server.resume()
        await here.wait_until(lambda: here.stored_count > before)


@pytest.mark.parametrize("steps", range(40))
async def test_a_subscription_is_left_at_any_step(redis_server: RedisServer, steps: int) -> None:
    """Leaving a subscription ends it, whichever step of its connection that interrupts."""
    async with closing_chat(chat_at(redis_server)) as mine:
        with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
            async with mine.subscribe(RecordingSubscriber()):
                for _ in range(steps):
                    await asyncio.sleep(0)


async def count_pings(operator: Redis) -> int:
    counted = await operator.info("commandstats")
    return int(counted.get("cmdstat_ping", {"calls": 0})["calls"])


async def test_answered_pings_keep_the_connection(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered pings keep the connection of an idle subscription."""
    monkeypatch.setattr(redis, "PING_INTERVAL_SECONDS", 0.05)
    wire = CountingTransport(server.url)
    async with closing_chat(SharedChat(wire)) as mine, listen_to(mine) as here:
        async with server.client() as operator:
            with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
                while await count_pings(operator) < 5:
                    pass
        async with closing_chat(chat_at(server)) as other:
            other.publish(LAST)
            await here.wait_until_last(LAST)
        assert (wire.subscription_count, here.stored_count) == (1, 1)


async def test_channels_are_separate(
    redis_server: RedisServer,
) -> None:
    """Deployments with different channels on one server do not get each other's broadcasts."""
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


async def test_a_rejected_password_is_not_shown(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A rejected password is logged once as an AuthenticationError, and appears in neither log nor
    `repr`."""
    monkeypatch.setattr(listening, "RETRY_DELAYS_SECONDS", (0,))
    async with server.client() as operator:
        await operator.config_set("requirepass", "right")
    wire = CountingTransport(server.url.replace("unix://", "unix://:hunter2@"))
    async with (
        closing_chat(SharedChat(wire)) as mine,
        mine.subscribe(listener := RecordingSubscriber()),
    ):
        await wire.wait_for_subscriptions(5)
        assert listener.stored_count == 0
    assert [record.getMessage() for record in caplog.records] == [
        "Subscription to other processes failed: AuthenticationError"
    ]
    assert "hunter2" not in repr(wire) + repr(vars(mine))


DEPLOYMENTS = [
    ("postgresql+asyncpg://app:pw@db/booking", BASE),
    ("postgresql+asyncpg://app:pw@db/other", BASE),
    ("postgresql+asyncpg://app:pw@db2/booking", BASE),
    ("postgresql+asyncpg://app:pw@db/booking", "https://staging.example"),
    ("postgresql+asyncpg://app@/booking?host=/run/one", BASE),
    ("postgresql+asyncpg://app@/booking?host=/run/two", BASE),
    ("sqlite+aiosqlite:///booking.db", BASE),
    ("sqlite+aiosqlite:////srv/booking.db", BASE),
]


async def test_a_server_that_answers_has_no_problem(redis_server: RedisServer) -> None:
    """The check of a server that answers finds nothing."""
    assert await RedisPubSubTransport(redis_server.url, "one").find_problem() is None


async def test_a_server_out_of_reach_is_a_problem() -> None:
    """The check of a server that takes no connection says so."""
    problem = await RedisPubSubTransport("redis://127.0.0.1:1", "one").find_problem()
    assert problem is not None
    assert problem.startswith("cannot connect: ")


async def test_a_server_without_an_answer_is_a_problem(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of a server that does not answer ends at its time limit."""
    monkeypatch.setattr(redis, "CHECK_TIMEOUT_SECONDS", 0.05)
    server.suspend()
    problem = await RedisPubSubTransport(server.url, "one").find_problem()
    server.resume()
    assert problem == "cannot connect: no response"


async def test_channel_names_differ_by_deployment() -> None:
    """Deployments with different databases or base URLs have different channel names."""
    assert len({channel_name(*deployment) for deployment in DEPLOYMENTS}) == len(DEPLOYMENTS)


async def test_a_channel_name_contains_no_secret() -> None:
    """A channel name depends on neither user nor password, and does not show the database."""
    one = channel_name("postgresql+asyncpg://app:pw@db/booking", BASE)
    assert one == channel_name("postgresql+asyncpg://other:secret@db/booking", BASE)
    assert one == channel_name("postgresql+asyncpg://db/booking?password=secret", BASE)
    assert "booking" not in one.removeprefix("staffbooking:")


async def test_relative_and_absolute_paths_have_one_channel(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path of a database has the channel name of its absolute path."""
    monkeypatch.chdir(tmp_path)
    relative = channel_name("sqlite+aiosqlite:///booking.db", BASE)
    assert relative == channel_name(f"sqlite+aiosqlite:///{tmp_path}/booking.db", BASE)
