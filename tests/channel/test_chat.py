"""The Chat port: one contract, in one process and over each wire between processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest

from staffbooking_adapters.chat import shared
from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisPubSubTransport
from staffbooking_adapters.chat.shared import PubSubTransport, SharedChat
from staffbooking_adapters.codec import encode
from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport
from tests.channel.chat_links import (
    WAIT_TIMEOUT_SECONDS,
    ChatTransport,
    PostgresTransport,
    RecordingListener,
    RedisTransport,
    closing_chat,
    listen_to,
    make_typing_broadcast,
)
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

LAST = make_typing_broadcast(99, last=True)
BIG = 2**63 - 1
DEEP = '["a", false, [{"to": [1], "event": "typing", "data": {"a": ' + "[" * 7_000


@pytest.fixture(scope="module")
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create_database()
    yield url
    await postgres_server.drop_database(database_name(url))


def find_place(request: pytest.FixtureRequest) -> ChatTransport:
    if request.param == "redis":
        return RedisTransport(request.getfixturevalue("redis_server"))
    return PostgresTransport(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["postgresql", "redis"])
def place(request: pytest.FixtureRequest) -> ChatTransport:
    """Where processes meet."""
    return find_place(request)


@pytest.fixture
async def processes(place: ChatTransport) -> AsyncIterator[list[SharedChat]]:
    """The chats of two processes that meet."""
    async with AsyncExitStack() as stack:
        chats = [SharedChat(place.wire()) for _ in range(2)]
        for chat in chats:
            stack.push_async_callback(chat.close)
        yield chats


@pytest.fixture(params=["local", "postgresql", "redis"])
def somewhere(request: pytest.FixtureRequest) -> ChatTransport | None:
    """Where processes meet, or nowhere."""
    return None if request.param == "local" else find_place(request)


@pytest.fixture
async def chat(somewhere: ChatTransport | None) -> AsyncIterator[LocalChat]:
    """The chat of one process, whatever its kind."""
    async with closing_chat(SharedChat(somewhere.wire()) if somewhere else LocalChat()) as chat:
        yield chat


# In the own process ---------------------------------------------------------------------------


async def test_the_own_process_is_told_at_once(chat: LocalChat) -> None:
    """All that listen there, before anything else can happen, and each once."""
    async with listen_to(chat) as one, listen_to(chat) as other:
        before = one.stored_count, other.stored_count
        chat.publish(make_typing_broadcast(1, 2, is_typing=True))
        chat.publish_messages_stored()
        for listener in (one, other):
            assert listener.broadcasts == [make_typing_broadcast(1, 2, is_typing=True)]
        assert (one.stored_count, other.stored_count) == (before[0] + 1, before[1] + 1)


async def test_who_stopped_listening_is_told_nothing(chat: LocalChat) -> None:
    """Others still are."""
    async with listen_to(chat) as one:
        async with listen_to(chat) as other:
            before = other.stored_count
        chat.publish(LAST)
        chat.publish_messages_stored()
        assert one.broadcasts == [LAST]
        assert (other.broadcasts, other.stored_count) == ([], before)


async def test_nobody_need_listen(chat: LocalChat) -> None:
    """Giving word fails for nothing."""
    chat.publish_messages_stored()
    chat.publish(LAST)


# Between processes ----------------------------------------------------------------------------


async def test_word_reaches_the_other_process_once_and_unchanged(
    processes: list[SharedChat],
) -> None:
    """Whatever it says, and whoever it is for; the own process is not told again."""
    mine, other = processes
    said = make_typing_broadcast(
        1,
        BIG,
        name="Zoë \0 😀 \"'\\",
        deep={"a": [1, -BIG, 2.5, None, True]},
        at="2027-03-04T12:00:00Z",
    )
    async with listen_to(mine) as here, listen_to(other) as there:
        mine.publish(said)
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        other.publish(LAST)
        await here.wait_until(lambda: len(here.broadcasts) >= 3)
        assert there.broadcasts == [said, LAST, LAST]
        assert here.broadcasts == [said, LAST, LAST]


async def test_the_other_process_is_told_of_stored_messages(processes: list[SharedChat]) -> None:
    """A commit of one wakes the other."""
    mine, other = processes
    async with listen_to(other) as there:
        before = there.stored_count
        mine.publish_messages_stored()
        await there.wait_until(lambda: there.stored_count > before)
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.stored_count == before + 1


async def test_word_keeps_its_order(processes: list[SharedChat]) -> None:
    """Over many payloads, and though it was said in bursts."""
    mine, other = processes
    async with listen_to(other) as there:
        said = [make_typing_broadcast(7, number=number) for number in range(500)]
        for number, tell in enumerate(said):
            mine.publish(tell)
            if number % 50 == 0:
                await asyncio.sleep(0)
        await there.wait_until_last(said[-1])
        assert there.broadcasts == said


async def test_word_for_many_is_split(processes: list[SharedChat]) -> None:
    """Each recipient is told once, however many there are."""
    mine, other = processes
    people = tuple(range(BIG - 5_000, BIG))
    async with listen_to(other) as there:
        mine.publish(make_typing_broadcast(*people, name="Ångström"))
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        *told, _ = there.broadcasts
        assert [user_id for tell in told for user_id in tell.to] == list(people)
        assert {tell.data["name"] for tell in told} == {"Ångström"}
        assert len(told) > 1


async def test_word_that_is_too_long_is_lost_alone(processes: list[SharedChat]) -> None:
    """What comes before and after it arrives."""
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(make_typing_broadcast(1))
        mine.publish(make_typing_broadcast(1, 2, name="é" * 4_000))
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [make_typing_broadcast(1), LAST]


@pytest.mark.parametrize(
    "payload",
    ["", "hello", DEEP, '["a", true]', '["a", true, [{"to": ["x"]}]]', "\ufffd"],
    ids=["empty", "text", "deep", "short", "wrong", "odd"],
)
async def test_what_others_say_there_is_ignored(
    place: ChatTransport,
    processes: list[SharedChat],
    payload: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A payload that is none of ours harms nobody, and says nothing."""
    mine, other = processes
    stranger = place.wire()
    async with listen_to(other) as there:
        before = there.stored_count
        await stranger.publish(payload.encode())
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert (there.broadcasts, there.stored_count) == ([LAST], before)
    await stranger.close()
    assert caplog.records == []


async def test_who_only_tells_does_not_listen(
    place: ChatTransport, processes: list[SharedChat]
) -> None:
    """The connection that listens is there as long as somebody does."""
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert await place.count_connections(listening=True) == 1
    with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
        while await place.count_connections(listening=True):
            pass


# When connections break -----------------------------------------------------------------------


async def test_a_killed_listener_heals(place: ChatTransport, processes: list[SharedChat]) -> None:
    """It connects anew, is told of `stored`, since something may have been missed, and then
    hears as before."""
    mine, other = processes
    async with listen_to(other) as there:
        before = there.stored_count
        await place.kill_connections(listening=True)
        await there.wait_until(lambda: there.stored_count > before)
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [LAST]


async def test_a_killed_teller_heals(
    place: ChatTransport, processes: list[SharedChat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That messages were stored reaches the others over the next connection."""
    monkeypatch.setattr(shared, "RETRY_DELAY_SECONDS", 0)
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        before = there.stored_count
        await place.kill_connections(listening=False)
        mine.publish_messages_stored()
        await there.wait_until(lambda: there.stored_count > before)
        mine.publish(make_typing_broadcast(3))
        await there.wait_until_last(make_typing_broadcast(3))


class Gate:
    """A wire that lets nothing out while it is shut."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self.opened = asyncio.Event()
        self.subscribe = wire.subscribe
        self.close = wire.close

    async def publish(self, payload: bytes) -> None:
        await self.opened.wait()
        await self._wire.publish(payload)


async def test_a_flood_is_bounded(place: ChatTransport, processes: list[SharedChat]) -> None:
    """While the others are out of reach, the oldest of what passes is dropped, never that
    messages were stored; the own process is told of all of it."""
    gate = Gate(place.wire())
    async with closing_chat(SharedChat(gate)) as mine, listen_to(processes[1]) as there:
        here = RecordingListener()
        async with mine.subscribe(here):
            before = there.stored_count
            flood = [make_typing_broadcast(7, number=number) for number in range(50_000)]
            mine.publish_messages_stored()
            for tell in flood:
                mine.publish(tell)
            assert here.broadcasts == flood
            gate.opened.set()
            await there.wait_until_last(flood[-1])
            told = there.broadcasts
            assert there.stored_count == before + 1
            assert told == flood[-len(told) :]
            assert len(b"".join(map(encode, told))) <= shared.MAX_BACKLOG_BYTES
            assert len(told) > 10_000


@pytest.mark.parametrize(
    "wire",
    [
        lambda: PostgresPubSubTransport("postgresql+asyncpg://app@127.0.0.1:1/nowhere"),
        lambda: RedisPubSubTransport("redis://127.0.0.1:1", "staffbooking:tests"),
    ],
    ids=["postgresql", "redis"],
)
async def test_without_a_server_word_stays_here(wire) -> None:
    """Nobody who gives word, listens or closes hears of a server that is out of reach."""
    async with closing_chat(SharedChat(wire())) as chat:
        here = RecordingListener()
        async with chat.subscribe(here):
            await asyncio.sleep(0)
            chat.publish(LAST)
            chat.publish_messages_stored()
            assert (here.broadcasts, here.stored_count) == ([LAST], 1)


# The end --------------------------------------------------------------------------------------


async def test_the_last_word_is_told_before_the_end(
    place: ChatTransport, processes: list[SharedChat]
) -> None:
    """A process that ends has told all that was said, and tells nothing after."""
    mine, other = processes
    async with listen_to(other) as there, closing_chat(SharedChat(place.wire())) as another:
        said = [make_typing_broadcast(7, number=number) for number in range(2_000)]
        for tell in said:
            mine.publish(tell)
        await mine.close()
        mine.publish_messages_stored()
        mine.publish(LAST)
        another.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [*said, LAST]
        assert there.stored_count == 1


async def test_nothing_is_left_open(place: ChatTransport) -> None:
    """Once closed no connection stays."""
    async with (
        closing_chat(SharedChat(place.wire())) as mine,
        closing_chat(SharedChat(place.wire())) as other,
        listen_to(other) as there,
    ):
        mine.publish(LAST)
        await there.wait_until_last(LAST)
    with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
        while await place.count_connections(listening=True) or await place.count_connections(
            listening=False
        ):
            pass
