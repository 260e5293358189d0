"""What is Redis's alone: its restarts and silences, its secrets, and who shares it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import anyio
import pytest
from redis.asyncio import Redis

from staffbooking_adapters import listening as again
from staffbooking_adapters.chat import redis, shared
from staffbooking_adapters.chat.redis import RedisWire, channel_of
from staffbooking_adapters.chat.shared import SharedChat
from tests.channel.chat_links import PATIENCE, Listener, listening, running, typing
from tests.support.redis import RedisServer, running_redis

pytestmark = pytest.mark.anyio

LAST = typing(99, last=True)
BASE = "https://book.example"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One that a test may stop."""
    with running_redis() as server:
        yield server


def chat_at(server: RedisServer, channel: str = "one") -> SharedChat:
    return SharedChat(RedisWire(server.url, channel))


async def test_a_restart_heals(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word of the time without a server is lost, but that messages were stored is told, and
    then all goes on as before."""
    monkeypatch.setattr(again, "PAUSES", (0,))
    monkeypatch.setattr(shared, "PAUSE", 0)
    async with (
        running(chat_at(server)) as mine,
        running(chat_at(server)) as other,
        listening(mine) as here,
        listening(other) as there,
    ):
        mine.tell(typing(1))
        await there.until_told(typing(1))
        server.stop()
        mine.tell(typing(2))
        assert here.tells == [typing(1), typing(2)]
        before = here.marks, there.marks
        server.start()
        await here.until(lambda: here.marks > before[0])
        await there.until(lambda: there.marks > before[1])
        mine.tell(LAST)
        await there.until_told(LAST)
        other.tell(LAST)
        await here.until(lambda: here.tells[-2:] == [LAST, LAST])


class CountedWire(RedisWire):
    """A wire that counts how often it began to listen."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "one")
        self.began = 0
        self._news = asyncio.Event()

    async def hear(self, heard: Callable[[bytes], None], began: Callable[[], None]) -> None:
        self.began += 1
        self._news.set()
        await super().hear(heard, began)

    async def until_began(self, times: int) -> None:
        with anyio.fail_after(PATIENCE):
            while self.began < times:
                self._news.clear()
                await self._news.wait()


async def test_a_server_that_fell_silent_is_given_up(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is dead though nobody said so is found out by its pulse, and another
    is made."""
    monkeypatch.setattr(redis, "PULSE", 0.01)
    monkeypatch.setattr(redis, "PATIENCE", 0.2)
    monkeypatch.setattr(again, "PAUSES", (0,))
    wire = CountedWire(server.url)
    async with running(SharedChat(wire)) as mine, listening(mine) as here:
        server.silence()
        before = here.marks
        await wire.until_began(wire.began + 1)
        server.speak()
        await here.until(lambda: here.marks > before)


async def pulses(operator: Redis) -> int:
    counted = await operator.info("commandstats")
    return int(counted.get("cmdstat_ping", {"calls": 0})["calls"])


async def test_a_pulse_disturbs_nobody(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that answers is kept, however long nothing is said."""
    monkeypatch.setattr(redis, "PULSE", 0.001)
    wire = CountedWire(server.url)
    async with running(SharedChat(wire)) as mine, listening(mine) as here:
        async with server.client() as operator:
            with anyio.fail_after(PATIENCE):
                while await pulses(operator) < 5:
                    pass
        async with running(chat_at(server)) as other:
            other.tell(LAST)
            await here.until_told(LAST)
        assert (wire.began, here.marks) == (1, 1)


async def test_deployments_that_share_a_redis_do_not_hear_each_other(
    redis_server: RedisServer,
) -> None:
    """Each has a channel of its own."""
    async with (
        running(chat_at(redis_server, "one")) as mine,
        running(chat_at(redis_server, "two")) as foreign,
        running(chat_at(redis_server, "one")) as other,
        listening(other) as there,
    ):
        foreign.tell(typing(1))
        await foreign.close()
        mine.tell(LAST)
        await there.until_told(LAST)
        assert there.tells == [LAST]


async def test_a_secret_is_told_to_nobody(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A password that Redis does not take stands in no log; that nothing is heard does, once."""
    monkeypatch.setattr(again, "PAUSES", (0,))
    async with server.client() as operator:
        await operator.config_set("requirepass", "right")
    wire = CountedWire(server.url.replace("unix://", "unix://:hunter2@"))
    async with running(SharedChat(wire)) as mine, mine.listen(listener := Listener()):
        await wire.until_began(5)
        assert listener.marks == 0
    assert [record.getMessage() for record in caplog.records] == [
        "Other processes can't be heard: AuthenticationError"
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
    assert len({channel_of(*place) for place in PLACES}) == len(PLACES)


async def test_a_channel_knows_no_secret() -> None:
    """Neither a user nor a password is any part of it, and an address can't be read from it."""
    one = channel_of("postgresql+asyncpg://app:pw@db/booking", BASE)
    assert one == channel_of("postgresql+asyncpg://other:secret@db/booking", BASE)
    assert one == channel_of("postgresql+asyncpg://db/booking?password=secret", BASE)
    assert "booking" not in one.removeprefix("staffbooking:")


async def test_a_file_is_the_same_from_everywhere(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path counts from where the process runs."""
    monkeypatch.chdir(tmp_path)
    relative = channel_of("sqlite+aiosqlite:///booking.db", BASE)
    assert relative == channel_of(f"sqlite+aiosqlite:///{tmp_path}/booking.db", BASE)
