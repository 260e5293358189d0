"""Transactions commit all of a unit of work or nothing."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import (
    func,
    select,
    text,
)

from staffbooking_adapters.sql.engine.connection import MAX_TRANSACTION_ATTEMPTS
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_core.errors import Conflict, ConstraintViolated, StoreUnavailable
from tests.contract.engine.sample_schema import (
    ADD_POINTS,
    COUNT_PEOPLE,
    INSERT_NAMED,
    SELECT_POINTS,
    add_two_people,
    list_names,
    named_person,
)

pytestmark = pytest.mark.anyio

WAITS_PER_TRANSACTION = 4  # BEGIN, two statements, COMMIT


async def test_a_transaction_is_committed(database: Database) -> None:
    """`run_transaction` returns the result of the work, and commits in four round trips."""
    before = database.round_trips
    assert await database.run_transaction(add_two_people) == "done"
    assert database.round_trips == before + 4
    assert await list_names(database) == ["Ada", "Bob"]


async def test_uncommitted_writes_are_isolated(database: Database) -> None:
    """Uncommitted writes are visible inside the transaction only."""

    async def work(unit: Connection) -> tuple[int, int]:
        await add_two_people(unit)
        return await unit.fetch_value(COUNT_PEOPLE), await database.fetch_value(COUNT_PEOPLE)

    assert await database.run_transaction(work) == (2, 0)


async def test_an_error_rolls_back(database: Database) -> None:
    """An error in the work rolls back the transaction, and the next transaction runs."""

    async def work(unit: Connection) -> None:
        await add_two_people(unit)
        raise LookupError("changed my mind")

    with pytest.raises(LookupError):
        await database.run_transaction(work)
    assert await list_names(database) == []
    await database.run_transaction(add_two_people)


async def test_a_suppressed_failure_is_not_committed(database: Database) -> None:
    """A transaction whose work suppresses ConstraintViolated raises it and rolls back."""

    async def work(unit: Connection) -> None:
        await add_two_people(unit)
        with suppress(ConstraintViolated):
            await unit.execute(INSERT_NAMED, **named_person("Eve", points=-1))
        with suppress(ConstraintViolated):
            await unit.execute(INSERT_NAMED, **named_person("Eve"))

    with pytest.raises(ConstraintViolated, match="ck_people_points"):
        await database.run_transaction(work)
    assert await list_names(database) == []


class Interruption:
    """Awaits `work`, and cancels its task at wait number `place`, counted from 0.

    `late` cancels when the awaited future is done, before the task resumes; `stubborn` cancels
    again at each later wait.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], place: int, how: str) -> None:
        self.work = work
        self.place = place
        self.how = how
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner, resume, value = self.work.__await__(), "send", None
        while True:
            try:
                waited_for = getattr(inner, resume)(value)
            except StopIteration as end:
                return end.value
            self.interrupt(waited_for)
            try:
                resume, value = "send", (yield waited_for)
            except BaseException as error:
                resume, value = "throw", error

    def interrupt(self, waited_for: asyncio.Future[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.waits == self.place and self.how == "late":
            waited_for.add_done_callback(lambda _: task.cancel())
        elif self.waits == self.place or (self.waits > self.place and self.how == "stubborn"):
            task.get_loop().call_soon(task.cancel)
        self.waits += 1


async def interrupted(work: Coroutine[Any, Any, Any], place: int, how: str) -> Any:
    return await Interruption(work, place, how)


@pytest.mark.parametrize("how", ["early", "late", "stubborn"])
async def test_a_transaction_cancelled_at_any_wait_is_atomic(database: Database, how: str) -> None:
    """A transaction cancelled at any wait is committed or rolled back as a whole, and the next one
    runs."""
    kept = 0
    for place in itertools.count():
        task = asyncio.ensure_future(
            interrupted(database.run_transaction(add_two_people), place, how)
        )
        await asyncio.wait([task])
        total = await database.run_transaction(lambda unit: unit.fetch_value(COUNT_PEOPLE))
        if not task.cancelled():
            break
        assert total in (kept, kept + 2)
        kept = total
    assert (task.result(), total) == ("done", kept + 2)
    assert place >= WAITS_PER_TRANSACTION


async def test_a_suppressed_cancellation_is_not_committed(database: Database) -> None:
    """A transaction whose work suppresses a cancelled statement raises StoreUnavailable."""

    async def work(unit: Connection) -> None:
        await unit.execute(INSERT_NAMED, **named_person("Ada"))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await unit.fetch_all(SLOW)

    with pytest.raises(StoreUnavailable):
        await database.run_transaction(work)
    assert await list_names(database) == []


async def test_a_finished_transaction_cannot_be_used(database: Database) -> None:
    """A connection used after the end of its transaction raises RuntimeError."""
    kept: list[Connection] = []

    async def work(unit: Connection) -> None:
        kept.append(unit)

    await database.run_transaction(work)
    with pytest.raises(RuntimeError, match="over"):
        await kept[0].execute(INSERT_NAMED, **named_person("Eve"))


async def test_a_cancelled_transaction_is_rolled_back(postgres: Database) -> None:
    """After a cancelled transaction every connection is idle, and nothing was written."""
    started = asyncio.Event()

    async def work(unit: Connection) -> None:
        await add_two_people(unit)
        started.set()
        await unit.fetch_all(SLOW)

    task = asyncio.ensure_future(postgres.run_transaction(work))
    await started.wait()
    await until_slow_runs(postgres)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    states = Statement(
        text(
            "SELECT state FROM pg_stat_activity WHERE application_name = 'staffbooking'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    )
    assert {state for (state,) in await postgres.fetch_all(states)} <= {"idle"}
    assert await list_names(postgres) == []


SLOW = Statement(
    postgresql=select(func.pg_sleep(30)),
    sqlite=text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)"
        " SELECT count(*) FROM n"
    ).columns(count=BigInt),
)


async def until_slow_runs(database: Database, times: int = 1) -> None:
    """Wait until PostgreSQL runs `SLOW`: a cancellation before its statement is lost."""
    if database.dialect == "sqlite":
        await asyncio.sleep(0.01)  # it may not run yet: a test below covers that
        return
    running = Statement(
        text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            " AND datname = current_database()"
        ).columns(count=BigInt)
    )
    async with asyncio.timeout(10):
        while await database.fetch_value(running) < times:
            pass


async def test_a_cancelled_read_is_interrupted(database: Database) -> None:
    """After more cancelled reads than connections, further reads run at once."""
    for _ in range(6):
        task = asyncio.ensure_future(database.fetch_all(SLOW))
        await until_slow_runs(database)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5):
        assert (
            await asyncio.gather(*(database.fetch_value(COUNT_PEOPLE) for _ in range(8))) == [0] * 8
        )


async def test_a_cancellation_waits_for_its_statement(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read cancelled before its thread started it is interrupted."""
    original, may_start = aiosqlite.Connection._execute_fetchall, threading.Event()

    def start_later(self: aiosqlite.Connection, sql: str, parameters: Any) -> Any:
        assert may_start.wait(10)
        return original(self, sql, parameters)

    await asyncio.gather(
        *(sqlite.fetch_value(COUNT_PEOPLE) for _ in range(8))
    )  # all connections are open
    monkeypatch.setattr(aiosqlite.Connection, "_execute_fetchall", start_later)
    task = asyncio.ensure_future(sqlite.fetch_all(SLOW))
    await asyncio.sleep(0)
    task.cancel()
    asyncio.get_running_loop().call_soon(may_start.set)  # after the task was cancelled
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        assert (
            await asyncio.gather(*(sqlite.fetch_value(COUNT_PEOPLE) for _ in range(8))) == [0] * 8
        )


async def test_a_lost_cancellation_blocks_no_caller(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that the server does not cancel occupies no connection of the pool."""

    async def ignore_cancellation(**_: Any) -> None:
        pass

    monkeypatch.setattr("asyncpg.connect_utils._cancel", ignore_cancellation)
    for number, fetch in enumerate((postgres.fetch_all, fetch_in_transaction(postgres)), start=1):
        task = asyncio.ensure_future(fetch(SLOW))
        await until_slow_runs(postgres, number)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5):
        assert (
            await asyncio.gather(*(postgres.fetch_value(COUNT_PEOPLE) for _ in range(4))) == [0] * 4
        )


def fetch_in_transaction(database: Database) -> Callable[[Statement], Coroutine[Any, Any, Any]]:
    """Fetch in a transaction."""
    return lambda statement: database.run_transaction(lambda unit: unit.fetch_all(statement))


async def test_a_deadlock_is_repeated(postgres: Database) -> None:
    """Of two transactions in a deadlock one runs again, and both are committed."""
    await postgres.execute_many(INSERT_NAMED, [named_person("Ada"), named_person("Bob")])
    both, kept = asyncio.Barrier(2), asyncio.Event()
    runs = 0

    async def transfer(unit: Connection, source: str, target: str) -> None:
        nonlocal runs
        runs += 1
        if runs > 2:  # avoids a second deadlock with the other transaction
            await kept.wait()
        await unit.execute(ADD_POINTS, who=source, by=1)
        if runs <= 2:
            await both.wait()
        await unit.execute(ADD_POINTS, who=target, by=1)

    async def transferred(source: str, target: str) -> None:
        await postgres.run_transaction(lambda unit: transfer(unit, source, target))
        kept.set()

    await asyncio.gather(transferred("Ada", "Bob"), transferred("Bob", "Ada"))
    assert runs == 3
    assert [await postgres.fetch_value(SELECT_POINTS, who=who) for who in ("Ada", "Bob")] == [2, 2]


@pytest.mark.parametrize("conflicts", [1, MAX_TRANSACTION_ATTEMPTS])
async def test_a_conflict_is_retried(database: Database, conflicts: int) -> None:
    """Work that raises Conflict runs again, up to `MAX_TRANSACTION_ATTEMPTS` times."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await add_two_people(unit)
        if runs <= conflicts:
            raise Conflict("booking")

    if conflicts < MAX_TRANSACTION_ATTEMPTS:
        await database.run_transaction(work)
        assert await list_names(database) == ["Ada", "Bob"]
    else:
        with pytest.raises(Conflict):
            await database.run_transaction(work)
        assert await list_names(database) == []
    assert runs == min(conflicts + 1, MAX_TRANSACTION_ATTEMPTS)


RAISE_40001 = Statement(text("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$"))


async def test_retries_of_a_transaction_are_limited(postgres: Database) -> None:
    """Repeated serialization failures raise StoreUnavailable after the last attempt."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(RAISE_40001)

    with pytest.raises(StoreUnavailable):
        await postgres.run_transaction(work)
    assert runs == MAX_TRANSACTION_ATTEMPTS
