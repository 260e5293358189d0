"""The Chat port: one contract, in one process and over each wire between processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest

from staffbooking_adapters.chat import shared
from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisWire
from staffbooking_adapters.chat.shared import SharedChat, Wire
from staffbooking_adapters.codec import encode
from staffbooking_adapters.sql.messaging.pubsub import PostgresWire
from tests.channel.chat_links import (
    PATIENCE,
    Listener,
    Place,
    PostgresPlace,
    RedisPlace,
    listening,
    running,
    typing,
)
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

LAST = typing(99, last=True)
BIG = 2**63 - 1
DEEP = '["a", false, [{"to": [1], "event": "typing", "data": {"a": ' + "[" * 7_000


@pytest.fixture(scope="module")
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create_database()
    yield url
    await postgres_server.drop_database(database_name(url))


def find_place(request: pytest.FixtureRequest) -> Place:
    if request.param == "redis":
        return RedisPlace(request.getfixturevalue("redis_server"))
    return PostgresPlace(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["postgresql", "redis"])
def place(request: pytest.FixtureRequest) -> Place:
    """Where processes meet."""
    return find_place(request)


@pytest.fixture
async def processes(place: Place) -> AsyncIterator[list[SharedChat]]:
    """The chats of two processes that meet."""
    async with AsyncExitStack() as stack:
        chats = [SharedChat(place.wire()) for _ in range(2)]
        for chat in chats:
            stack.push_async_callback(chat.close)
        yield chats


@pytest.fixture(params=["local", "postgresql", "redis"])
def somewhere(request: pytest.FixtureRequest) -> Place | None:
    """Where processes meet, or nowhere."""
    return None if request.param == "local" else find_place(request)


@pytest.fixture
async def chat(somewhere: Place | None) -> AsyncIterator[LocalChat]:
    """The chat of one process, whatever its kind."""
    async with running(SharedChat(somewhere.wire()) if somewhere else LocalChat()) as chat:
        yield chat


# In the own process ---------------------------------------------------------------------------


async def test_the_own_process_is_told_at_once(chat: LocalChat) -> None:
    """All that listen there, before anything else can happen, and each once."""
    async with listening(chat) as one, listening(chat) as other:
        before = one.marks, other.marks
        chat.tell(typing(1, 2, is_typing=True))
        chat.stored()
        for listener in (one, other):
            assert listener.tells == [typing(1, 2, is_typing=True)]
        assert (one.marks, other.marks) == (before[0] + 1, before[1] + 1)


async def test_who_stopped_listening_is_told_nothing(chat: LocalChat) -> None:
    """Others still are."""
    async with listening(chat) as one:
        async with listening(chat) as other:
            before = other.marks
        chat.tell(LAST)
        chat.stored()
        assert one.tells == [LAST]
        assert (other.tells, other.marks) == ([], before)


async def test_nobody_need_listen(chat: LocalChat) -> None:
    """Giving word fails for nothing."""
    chat.stored()
    chat.tell(LAST)


# Between processes ----------------------------------------------------------------------------


async def test_word_reaches_the_other_process_once_and_unchanged(
    processes: list[SharedChat],
) -> None:
    """Whatever it says, and whoever it is for; the own process is not told again."""
    mine, other = processes
    said = typing(
        1,
        BIG,
        name="Zoë \0 😀 \"'\\",
        deep={"a": [1, -BIG, 2.5, None, True]},
        at="2027-03-04T12:00:00Z",
    )
    async with listening(mine) as here, listening(other) as there:
        mine.tell(said)
        mine.tell(LAST)
        await there.until_told(LAST)
        other.tell(LAST)
        await here.until(lambda: len(here.tells) >= 3)
        assert there.tells == [said, LAST, LAST]
        assert here.tells == [said, LAST, LAST]


async def test_the_other_process_is_told_of_stored_messages(processes: list[SharedChat]) -> None:
    """A commit of one wakes the other."""
    mine, other = processes
    async with listening(other) as there:
        before = there.marks
        mine.stored()
        await there.until(lambda: there.marks > before)
        mine.tell(LAST)
        await there.until_told(LAST)
        assert there.marks == before + 1


async def test_word_keeps_its_order(processes: list[SharedChat]) -> None:
    """Over many payloads, and though it was said in bursts."""
    mine, other = processes
    async with listening(other) as there:
        said = [typing(7, number=number) for number in range(500)]
        for number, tell in enumerate(said):
            mine.tell(tell)
            if number % 50 == 0:
                await asyncio.sleep(0)
        await there.until_told(said[-1])
        assert there.tells == said


async def test_word_for_many_is_split(processes: list[SharedChat]) -> None:
    """Each recipient is told once, however many there are."""
    mine, other = processes
    people = tuple(range(BIG - 5_000, BIG))
    async with listening(other) as there:
        mine.tell(typing(*people, name="Ångström"))
        mine.tell(LAST)
        await there.until_told(LAST)
        *told, _ = there.tells
        assert [user_id for tell in told for user_id in tell.to] == list(people)
        assert {tell.data["name"] for tell in told} == {"Ångström"}
        assert len(told) > 1


async def test_word_that_is_too_long_is_lost_alone(processes: list[SharedChat]) -> None:
    """What comes before and after it arrives."""
    mine, other = processes
    async with listening(other) as there:
        mine.tell(typing(1))
        mine.tell(typing(1, 2, name="é" * 4_000))
        mine.tell(LAST)
        await there.until_told(LAST)
        assert there.tells == [typing(1), LAST]


@pytest.mark.parametrize(
    "payload",
    ["", "hello", DEEP, '["a", true]', '["a", true, [{"to": ["x"]}]]', "\ufffd"],
    ids=["empty", "text", "deep", "short", "wrong", "odd"],
)
async def test_what_others_say_there_is_ignored(
    place: Place, processes: list[SharedChat], payload: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A payload that is none of ours harms nobody, and says nothing."""
    mine, other = processes
    stranger = place.wire()
    async with listening(other) as there:
        before = there.marks
        await stranger.tell(payload.encode())
        mine.tell(LAST)
        await there.until_told(LAST)
        assert (there.tells, there.marks) == ([LAST], before)
    await stranger.close()
    assert caplog.records == []


async def test_who_only_tells_does_not_listen(place: Place, processes: list[SharedChat]) -> None:
    """The connection that listens is there as long as somebody does."""
    mine, other = processes
    async with listening(other) as there:
        mine.tell(LAST)
        await there.until_told(LAST)
        assert await place.count(listening=True) == 1
    with anyio.fail_after(PATIENCE):
        while await place.count(listening=True):
            pass


# When connections break -----------------------------------------------------------------------


async def test_a_killed_listener_heals(place: Place, processes: list[SharedChat]) -> None:
    """It connects anew, is told of `stored`, since something may have been missed, and then
    hears as before."""
    mine, other = processes
    async with listening(other) as there:
        before = there.marks
        await place.kill(listening=True)
        await there.until(lambda: there.marks > before)
        mine.tell(LAST)
        await there.until_told(LAST)
        assert there.tells == [LAST]


async def test_a_killed_teller_heals(
    place: Place, processes: list[SharedChat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That messages were stored reaches the others over the next connection."""
    monkeypatch.setattr(shared, "PAUSE", 0)
    mine, other = processes
    async with listening(other) as there:
        mine.tell(LAST)
        await there.until_told(LAST)
        before = there.marks
        await place.kill(listening=False)
        mine.stored()
        await there.until(lambda: there.marks > before)
        mine.tell(typing(3))
        await there.until_told(typing(3))


class Gate:
    """A wire that lets nothing out while it is shut."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.opened = asyncio.Event()
        self.hear = wire.hear
        self.close = wire.close

    async def tell(self, payload: bytes) -> None:
        await self.opened.wait()
        await self._wire.tell(payload)


async def test_a_flood_is_bounded(place: Place, processes: list[SharedChat]) -> None:
    """While the others are out of reach, the oldest of what passes is dropped, never that
    messages were stored; the own process is told of all of it."""
    gate = Gate(place.wire())
    async with running(SharedChat(gate)) as mine, listening(processes[1]) as there:
        here = Listener()
        async with mine.listen(here):
            before = there.marks
            flood = [typing(7, number=number) for number in range(50_000)]
            mine.stored()
            for tell in flood:
                mine.tell(tell)
            assert here.tells == flood
            gate.opened.set()
            await there.until_told(flood[-1])
            told = there.tells
            assert there.marks == before + 1
            assert told == flood[-len(told) :]
            assert len(b"".join(map(encode, told))) <= shared.MOST_UNTOLD
            assert len(told) > 10_000


@pytest.mark.parametrize(
    "wire",
    [
        lambda: PostgresWire("postgresql+asyncpg://app@127.0.0.1:1/nowhere"),
        lambda: RedisWire("redis://127.0.0.1:1", "staffbooking:tests"),
    ],
    ids=["postgresql", "redis"],
)
async def test_without_a_server_word_stays_here(wire) -> None:
    """Nobody who gives word, listens or closes hears of a server that is out of reach."""
    async with running(SharedChat(wire())) as chat:
        here = Listener()
        async with chat.listen(here):
            await asyncio.sleep(0)
            chat.tell(LAST)
            chat.stored()
            assert (here.tells, here.marks) == ([LAST], 1)


# The end --------------------------------------------------------------------------------------


async def test_the_last_word_is_told_before_the_end(
    place: Place, processes: list[SharedChat]
) -> None:
    """A process that ends has told all that was said, and tells nothing after."""
    mine, other = processes
    async with listening(other) as there, running(SharedChat(place.wire())) as another:
        said = [typing(7, number=number) for number in range(2_000)]
        for tell in said:
            mine.tell(tell)
        await mine.close()
        mine.stored()
        mine.tell(LAST)
        another.tell(LAST)
        await there.until_told(LAST)
        assert there.tells == [*said, LAST]
        assert there.marks == 1


async def test_nothing_is_left_open(place: Place) -> None:
    """Once closed no connection stays."""
    async with (
        running(SharedChat(place.wire())) as mine,
        running(SharedChat(place.wire())) as other,
        listening(other) as there,
    ):
        mine.tell(LAST)
        await there.until_told(LAST)
    with anyio.fail_after(PATIENCE):
        while await place.count(listening=True) or await place.count(listening=False):
            pass
