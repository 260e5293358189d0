"""Hints between the processes of a database; each process is a connection pool of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.sql.engine.open import Database, Statement, open_database
from staffbooking_adapters.sql.engine.postgres import PostgresDatabase
from staffbooking_adapters.sql.hints import PostgresHints, create_hints
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Hint
from tests.contract.engine.sample_schema import METADATA
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

PATIENCE = 10.0
"""Seconds; nobody waits so long unless something is wrong."""
ONLY_HERE = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
LISTENING = Statement(text(f"SELECT count(*) {ONLY_HERE}"))
KILL_LISTENING = Statement(text(f"SELECT pg_terminate_backend(pid) {ONLY_HERE}"))
EVERYBODY = Statement(
    text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
)


@asynccontextmanager
async def process(url: str) -> AsyncIterator[LocalHints]:
    """The hints of a process that runs until the end."""
    database = await open_database(url, METADATA, pool_size=2, synchronous="OFF")
    hints = create_hints(database)
    try:
        yield hints
    finally:
        await hints.close()
        await database.close()


@pytest.fixture
async def processes(postgres_url: str) -> AsyncIterator[list[LocalHints]]:
    """Three of one database."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(process(postgres_url)) for _ in range(3)]


async def heard(hints: LocalHints, hint: Hint, beyond: int) -> int:
    """The count, which soon is beyond a number."""
    await hints.wait(hint, beyond, PATIENCE)
    count = hints.count(hint)
    assert count > beyond
    return count


async def listening(hints: LocalHints) -> int:
    """The count of events, once all that others give is heard."""
    return await heard(hints, Hint.EVENTS, 0)


async def test_a_hint_wakes_every_process(processes: list[LocalHints]) -> None:
    """Given by one, it is heard once by each that listens, and is of its own kind."""
    for each in processes:
        await listening(each)
    before = [(each.count(Hint.EVENTS), each.count(Hint.DELIVERIES)) for each in processes]
    processes[0].give(Hint.DELIVERIES)
    for each, (events, deliveries) in zip(processes, before, strict=True):
        assert await heard(each, Hint.DELIVERIES, deliveries) == deliveries + 1
        assert each.count(Hint.EVENTS) == events


async def test_a_process_does_not_hear_itself(processes: list[LocalHints]) -> None:
    """Its hints wake it at once, and not a second time when they come back to it."""
    mine, other, _ = processes
    before = [await listening(each) for each in (mine, other)]
    for number in range(5):
        mine.give(Hint.EVENTS)
        await heard(other, Hint.EVENTS, before[1] + number)
    deliveries = mine.count(Hint.DELIVERIES)
    other.give(Hint.DELIVERIES)
    await heard(mine, Hint.DELIVERIES, deliveries)
    assert mine.count(Hint.EVENTS) == before[0] + 5


async def test_who_begins_to_listen_is_woken_once(processes: list[LocalHints]) -> None:
    """What came before it was listening may have been missed: better look once more."""
    first, *_ = processes
    assert await listening(first) == 1
    assert first.count(Hint.DELIVERIES) == 1


async def test_who_only_gives_hints_does_not_listen(
    processes: list[LocalHints], postgres: Database
) -> None:
    """The connection that listens is opened by the first to wait."""
    giving, waiting, _ = processes
    before = await listening(waiting)
    giving.give(Hint.EVENTS)
    await heard(waiting, Hint.EVENTS, before)
    assert await postgres.fetch_value(LISTENING) == 1


async def test_a_burst_is_told_in_few_words(postgres_url: str) -> None:
    """What is given while a statement is under way goes into the next one, all of it; after
    the end nothing is told."""
    database = await open_database(postgres_url, METADATA, pool_size=2)
    hints = create_hints(database)
    async with process(postgres_url) as other:
        before = await listening(other)
        hints.give(Hint.EVENTS)
        await asyncio.sleep(0)
        for _ in range(1_000):
            hints.give(Hint.EVENTS)
            hints.give(Hint.DELIVERIES)
        await hints.close()
        hints.give(Hint.EVENTS)
        await asyncio.sleep(0)
        assert database.round_trips == 2
        assert await heard(other, Hint.EVENTS, before + 1) == before + 2
        assert other.count(Hint.DELIVERIES) == before + 1
    await database.close()


async def test_the_last_hint_is_told_before_the_end(processes: list[LocalHints]) -> None:
    """A process that ends right after its commit has told of it."""
    ending, other, _ = processes
    before = await listening(other)
    ending.give(Hint.EVENTS)
    await ending.close()
    assert await heard(other, Hint.EVENTS, before) == before + 1


async def test_a_killed_listener_heals(processes: list[LocalHints], postgres: Database) -> None:
    """It connects anew, wakes everybody once, since something may have been missed, and then
    hears as before."""
    mine, other, _ = processes
    before = await listening(mine)
    await postgres.fetch_all(KILL_LISTENING)
    assert await heard(mine, Hint.EVENTS, before) == before + 1
    other.give(Hint.EVENTS)
    assert await heard(mine, Hint.EVENTS, before + 1) == before + 2


class Mute:
    """A connection whose other end has gone without a word."""

    def add_termination_listener(self, _: Any) -> None: ...

    async def add_listener(self, *_: Any) -> None: ...

    async def execute(self, *_: Any, **__: Any) -> None:
        raise TimeoutError


class MuteAtFirst(PostgresDatabase):
    """Its first connection for listening is a mute one."""

    opened = 0

    @asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[Any]:
        self.opened += 1
        if self.opened == 1:
            yield Mute()
            return
        async with super().dedicated_connection() as driver:
            yield driver


async def test_a_listener_that_fell_silent_is_replaced(
    postgres_url: str, processes: list[LocalHints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is dead though nobody said so is found out by its pulse."""
    monkeypatch.setattr("staffbooking_adapters.sql.engine.listen.HEARTBEAT_INTERVAL_SECONDS", 0)
    monkeypatch.setattr("staffbooking_adapters.listening.RETRY_DELAYS_SECONDS", (0,))
    database = MuteAtFirst(make_url(postgres_url), 2)
    hints = PostgresHints(database)
    assert await heard(hints, Hint.EVENTS, 1) == 2
    processes[0].give(Hint.EVENTS)
    assert await heard(hints, Hint.EVENTS, 2) == 3
    assert database.opened == 2
    await hints.close()
    await database.close()


async def test_nothing_is_left_open(postgres_url: str, postgres: Database) -> None:
    """Once closed no connection stays."""
    async with process(postgres_url) as hints:
        await listening(hints)
    async with asyncio.timeout(PATIENCE):
        while await postgres.fetch_value(EVERYBODY) > 1:
            pass


async def test_without_a_database_hints_stay_here() -> None:
    """Nobody who gives a hint hears of a database that is out of reach."""
    async with process("postgresql+asyncpg://app@127.0.0.1:1/nowhere") as hints:
        waiting = asyncio.create_task(heard(hints, Hint.EVENTS, 0))
        hints.give(Hint.EVENTS)
        assert await waiting == 1


async def test_on_sqlite_hints_stay_in_the_process(tmp_path: Path) -> None:
    """There is nothing to tell another process by: it looks by itself."""
    async with process(f"sqlite+aiosqlite:///{tmp_path / 'main.db'}") as hints:
        assert type(hints) is LocalHints


class Away:
    """A database that can be listened to only at one of the tries; it notes their times."""

    def __init__(self, there: int) -> None:
        self.there = there
        self.tries: list[float] = []

    @asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[Any]:
        self.tries.append(round(asyncio.get_running_loop().time(), 3))
        if len(self.tries) != self.there:
            raise StoreUnavailable("gone")
        yield Mute()


def test_a_database_that_is_away_is_tried_less_and_less_often() -> None:
    """The pauses grow up to a bound, and begin anew once it was there."""
    away: Any = Away(there=5)

    async def work() -> None:
        hints = PostgresHints(away)
        await hints.wait(Hint.EVENTS, 10, 60)
        await hints.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
    assert away.tries == [0, 0.1, 1.1, 6.1, 11.1, 41.2, 42.2, 47.2, 52.2, 57.2]


def test_after_the_end_nobody_listens_any_more() -> None:
    """Who still waits then, waits for this process alone."""
    away: Any = Away(there=1)

    async def work() -> None:
        hints = PostgresHints(away)
        await hints.close()
        await hints.wait(Hint.EVENTS, 0, 60)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
    assert away.tries == []
