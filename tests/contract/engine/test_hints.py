"""Hints between the processes of a database; each process has its own connection pool."""

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

TIMEOUT_SECONDS = 10.0
"""Seconds after which a wait for a hint counts as failed."""
FROM_LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
COUNT_LISTENERS = Statement(text(f"SELECT count(*) {FROM_LISTENERS}"))
KILL_LISTENERS = Statement(text(f"SELECT pg_terminate_backend(pid) {FROM_LISTENERS}"))
COUNT_CONNECTIONS = Statement(
    text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
)


@asynccontextmanager
async def process(url: str) -> AsyncIterator[LocalHints]:
    """The hints of one process, closed at the end of the context."""
    database = await open_database(url, METADATA, pool_size=2, synchronous="OFF")
    hints = create_hints(database)
    try:
        yield hints
    finally:
        await hints.close()
        await database.close()


@pytest.fixture
async def processes(postgres_url: str) -> AsyncIterator[list[LocalHints]]:
    """The hints of three processes on one database."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(process(postgres_url)) for _ in range(3)]


async def wait_beyond(hints: LocalHints, hint: Hint, beyond: int) -> int:
    """Wait until the count of a hint is beyond a number, and return it."""
    await hints.wait(hint, beyond, TIMEOUT_SECONDS)
    count = hints.count(hint)
    assert count > beyond
    return count


async def start_listening(hints: LocalHints) -> int:
    """Start to listen, and return the count of events then."""
    return await wait_beyond(hints, Hint.EVENTS, 0)


async def test_a_hint_wakes_every_process(processes: list[LocalHints]) -> None:
    """A hint is counted once, and only as its kind, by every listening process."""
    for each in processes:
        await start_listening(each)
    before = [(each.count(Hint.EVENTS), each.count(Hint.DELIVERIES)) for each in processes]
    processes[0].give(Hint.DELIVERIES)
    for each, (events, deliveries) in zip(processes, before, strict=True):
        assert await wait_beyond(each, Hint.DELIVERIES, deliveries) == deliveries + 1
        assert each.count(Hint.EVENTS) == events


async def test_a_process_counts_its_own_hints_once(processes: list[LocalHints]) -> None:
    """A process counts each of its own hints once."""
    mine, other, _ = processes
    before = [await start_listening(each) for each in (mine, other)]
    for number in range(5):
        mine.give(Hint.EVENTS)
        await wait_beyond(other, Hint.EVENTS, before[1] + number)
    deliveries = mine.count(Hint.DELIVERIES)
    other.give(Hint.DELIVERIES)
    await wait_beyond(mine, Hint.DELIVERIES, deliveries)
    assert mine.count(Hint.EVENTS) == before[0] + 5


async def test_starting_to_listen_counts_each_hint_once(processes: list[LocalHints]) -> None:
    """Starting to listen counts one hint of each kind, since earlier ones may be lost."""
    first, *_ = processes
    assert await start_listening(first) == 1
    assert first.count(Hint.DELIVERIES) == 1


async def test_giving_hints_does_not_listen(
    processes: list[LocalHints], postgres: Database
) -> None:
    """Giving hints opens no listening connection."""
    giving, waiting, _ = processes
    before = await start_listening(waiting)
    giving.give(Hint.EVENTS)
    await wait_beyond(waiting, Hint.EVENTS, before)
    assert await postgres.fetch_value(COUNT_LISTENERS) == 1


async def test_a_burst_is_one_more_notify(postgres_url: str) -> None:
    """All hints given while a NOTIFY is in progress go into one more NOTIFY, and hints given after
    `close` are not sent."""
    database = await open_database(postgres_url, METADATA, pool_size=2)
    hints = create_hints(database)
    async with process(postgres_url) as other:
        before = await start_listening(other)
        hints.give(Hint.EVENTS)
        await asyncio.sleep(0)
        for _ in range(1_000):
            hints.give(Hint.EVENTS)
            hints.give(Hint.DELIVERIES)
        await hints.close()
        hints.give(Hint.EVENTS)
        await asyncio.sleep(0)
        assert database.round_trips == 2
        assert await wait_beyond(other, Hint.EVENTS, before + 1) == before + 2
        assert other.count(Hint.DELIVERIES) == before + 1
    await database.close()


async def test_the_last_hint_is_sent_before_close(processes: list[LocalHints]) -> None:
    """A hint given just before `close` reaches the other processes."""
    ending, other, _ = processes
    before = await start_listening(other)
    ending.give(Hint.EVENTS)
    await ending.close()
    assert await wait_beyond(other, Hint.EVENTS, before) == before + 1


async def test_a_killed_listener_reconnects(
    processes: list[LocalHints], postgres: Database
) -> None:
    """A listener whose connection was killed connects again, counts one hint, and receives further
    ones."""
    mine, other, _ = processes
    before = await start_listening(mine)
    await postgres.fetch_all(KILL_LISTENERS)
    assert await wait_beyond(mine, Hint.EVENTS, before) == before + 1
    other.give(Hint.EVENTS)
    assert await wait_beyond(mine, Hint.EVENTS, before + 1) == before + 2


class DeadConnection:
    """A connection whose peer no longer responds."""

    def add_termination_listener(self, _: Any) -> None: ...

    async def add_listener(self, *_: Any) -> None: ...

    async def execute(self, *_: Any, **__: Any) -> None:
        raise TimeoutError


class DeadListenerFirst(PostgresDatabase):
    """Its first dedicated connection is a `DeadConnection`."""

    opened = 0

    @asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[Any]:
        self.opened += 1
        if self.opened == 1:
            yield DeadConnection()
            return
        async with super().dedicated_connection() as driver:
            yield driver


async def test_an_unresponsive_listener_is_replaced(
    postgres_url: str, processes: list[LocalHints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listening connection that does not answer its heartbeat is replaced."""
    monkeypatch.setattr("staffbooking_adapters.sql.engine.listen.HEARTBEAT_INTERVAL_SECONDS", 0)
    monkeypatch.setattr("staffbooking_adapters.listening.RETRY_DELAYS_SECONDS", (0,))
    database = DeadListenerFirst(make_url(postgres_url), 2)
    hints = PostgresHints(database)
    assert await wait_beyond(hints, Hint.EVENTS, 1) == 2
    processes[0].give(Hint.EVENTS)
    assert await wait_beyond(hints, Hint.EVENTS, 2) == 3
    assert database.opened == 2
    await hints.close()
    await database.close()


async def test_close_leaves_no_connection(postgres_url: str, postgres: Database) -> None:
    """After `close` no connection of the process is open."""
    async with process(postgres_url) as hints:
        await start_listening(hints)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while await postgres.fetch_value(COUNT_CONNECTIONS) > 1:
            pass


async def test_without_a_database_hints_stay_in_the_process() -> None:
    """With an unreachable database, a hint reaches its own process and raises no error."""
    async with process("postgresql+asyncpg://app@127.0.0.1:1/nowhere") as hints:
        waiting = asyncio.create_task(wait_beyond(hints, Hint.EVENTS, 0))
        hints.give(Hint.EVENTS)
        assert await waiting == 1


async def test_on_sqlite_hints_stay_in_the_process(tmp_path: Path) -> None:
    """On SQLite `create_hints` gives LocalHints."""
    async with process(f"sqlite+aiosqlite:///{tmp_path / 'main.db'}") as hints:
        assert type(hints) is LocalHints


class UnreachableDatabase:
    """A database that accepts one connection attempt by its number, and records all attempts."""

    def __init__(self, successful_attempt: int) -> None:
        self.successful_attempt = successful_attempt
        self.attempt_times: list[float] = []

    @asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[Any]:
        self.attempt_times.append(round(asyncio.get_running_loop().time(), 3))
        if len(self.attempt_times) != self.successful_attempt:
            raise StoreUnavailable("gone")
        yield DeadConnection()


def test_an_unreachable_database_is_retried_with_backoff() -> None:
    """Delays between attempts grow to a maximum, and start over after a connection."""
    database: Any = UnreachableDatabase(successful_attempt=5)

    async def work() -> None:
        hints = PostgresHints(database)
        await hints.wait(Hint.EVENTS, 10, 60)
        await hints.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
    assert database.attempt_times == [0, 0.1, 1.1, 6.1, 11.1, 41.2, 42.2, 47.2, 52.2, 57.2]


def test_a_wait_after_close_does_not_listen() -> None:
    """A wait after `close` opens no listening connection."""
    database: Any = UnreachableDatabase(successful_attempt=1)

    async def work() -> None:
        hints = PostgresHints(database)
        await hints.close()
        await hints.wait(Hint.EVENTS, 0, 60)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
    assert database.attempt_times == []
