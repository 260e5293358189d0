"""A unit of work is kept whole or leaves nothing behind."""

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

WAITS_OF_A_UNIT = 4  # BEGIN, two statements, COMMIT


async def test_a_unit_of_work_is_kept(database: Database) -> None:
    """What `work` returns is returned, and what it wrote is there."""
    before = database.round_trips
    assert await database.run_transaction(add_two_people) == "done"
    assert database.round_trips == before + 4
    assert await list_names(database) == ["Ada", "Bob"]


async def test_a_unit_sees_its_own_writes_and_others_do_not(database: Database) -> None:
    """Before the end, only the unit itself reads what it wrote."""

    async def work(unit: Connection) -> tuple[int, int]:
        await add_two_people(unit)
        return await unit.fetch_value(COUNT_PEOPLE), await database.fetch_value(COUNT_PEOPLE)

    assert await database.run_transaction(work) == (2, 0)


async def test_an_error_undoes_the_unit(database: Database) -> None:
    """An error of the work itself leaves nothing behind, and the next unit works."""

    async def work(unit: Connection) -> None:
        await add_two_people(unit)
        raise LookupError("changed my mind")

    with pytest.raises(LookupError):
        await database.run_transaction(work)
    assert await list_names(database) == []
    await database.run_transaction(add_two_people)


async def test_a_swallowed_failure_cannot_be_committed(database: Database) -> None:
    """Work that goes on after a refusal is undone, and hears the refusal again."""

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
    """Awaits `work`, and cancels its task when it waits for the `place`-th time.

    `late` cancels when what it waits for is there, before the task has seen it; `stubborn`
    cancels again whenever it waits after that.
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
async def test_a_unit_cancelled_at_any_wait_is_whole_or_gone(database: Database, how: str) -> None:
    """Whichever wait it is cancelled at, a unit is kept whole or undone, and the next one
    finds a clean connection; only a unit that nobody cancels returns."""
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
    assert place >= WAITS_OF_A_UNIT


async def test_a_swallowed_cancellation_cannot_be_committed(database: Database) -> None:
    """A statement cut short by a limit of time may have been done or not, so the unit is not."""

    async def work(unit: Connection) -> None:
        await unit.execute(INSERT_NAMED, **named_person("Ada"))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await unit.fetch_all(SLOW)

    with pytest.raises(StoreUnavailable):
        await database.run_transaction(work)
    assert await list_names(database) == []


async def test_a_unit_is_of_no_use_after_its_end(database: Database) -> None:
    """Who keeps a unit longer than it lasts cannot write into somebody else's."""
    kept: list[Connection] = []

    async def work(unit: Connection) -> None:
        kept.append(unit)

    await database.run_transaction(work)
    with pytest.raises(RuntimeError, match="over"):
        await kept[0].execute(INSERT_NAMED, **named_person("Eve"))


async def test_a_cancelled_unit_leaves_no_transaction(postgres: Database) -> None:
    """After a cancellation in the middle, the server sees every connection idle."""
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
    """Return once PostgreSQL works at it: a cancellation that overtakes its statement is lost."""
    if database.dialect == "sqlite":
        await asyncio.sleep(0.01)  # or not yet: the test below is of that
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


async def test_a_cancelled_read_stops_working(database: Database) -> None:
    """Reads that nobody waits for any more, more than there are connections, block nobody."""
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
    """A read is interrupted even if it was cancelled before its thread had begun with it."""
    at_once, begins = aiosqlite.Connection._execute_fetchall, threading.Event()

    def later(self: aiosqlite.Connection, sql: str, parameters: Any) -> Any:
        assert begins.wait(10)
        return at_once(self, sql, parameters)

    await asyncio.gather(
        *(sqlite.fetch_value(COUNT_PEOPLE) for _ in range(8))
    )  # all connections are open
    monkeypatch.setattr(aiosqlite.Connection, "_execute_fetchall", later)
    task = asyncio.ensure_future(sqlite.fetch_all(SLOW))
    await asyncio.sleep(0)
    task.cancel()
    asyncio.get_running_loop().call_soon(begins.set)  # after the task was told
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        assert (
            await asyncio.gather(*(sqlite.fetch_value(COUNT_PEOPLE) for _ in range(8))) == [0] * 8
        )


async def test_a_lost_cancellation_holds_nobody_up(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server goes on with after it forgot a cancellation keeps no connection busy."""

    async def lost(**_: Any) -> None:
        pass

    monkeypatch.setattr("asyncpg.connect_utils._cancel", lost)
    for number, ask in enumerate((postgres.fetch_all, slowly(postgres)), start=1):
        task = asyncio.ensure_future(ask(SLOW))
        await until_slow_runs(postgres, number)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5):
        assert (
            await asyncio.gather(*(postgres.fetch_value(COUNT_PEOPLE) for _ in range(4))) == [0] * 4
        )


def slowly(database: Database) -> Callable[[Statement], Coroutine[Any, Any, Any]]:
    """Ask in a unit of work."""
    return lambda statement: database.run_transaction(lambda unit: unit.fetch_all(statement))


async def test_a_deadlock_is_repeated(postgres: Database) -> None:
    """Of two units that wait for each other, one is run again, and both are kept."""
    await postgres.execute_many(INSERT_NAMED, [named_person("Ada"), named_person("Bob")])
    both, kept = asyncio.Barrier(2), asyncio.Event()
    runs = 0

    async def transfer(unit: Connection, source: str, target: str) -> None:
        nonlocal runs
        runs += 1
        if runs > 2:  # or it may take its row again before the other wakes: one more deadlock
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
async def test_a_conflict_is_decided_anew(database: Database, conflicts: int) -> None:
    """Work that finds its rows changed runs again from the start, but not for ever."""
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


async def test_a_unit_is_repeated_a_few_times_only(postgres: Database) -> None:
    """A unit that the database keeps undoing ends as `Unavailable`."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(RAISE_40001)

    with pytest.raises(StoreUnavailable):
        await postgres.run_transaction(work)
    assert runs == MAX_TRANSACTION_ATTEMPTS
