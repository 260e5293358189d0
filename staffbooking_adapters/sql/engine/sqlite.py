"""The seam on SQLite: aiosqlite, a few readers beside one writer, one hop to a thread a call.

In WAL readers don't wait for the writer, nor it for them. Writers wait for each other: in
this process for the one connection that writes, across processes for the file's lock,
which BEGIN IMMEDIATE takes at once, so that no unit of work finds itself outdated midway.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import aiosqlite
from sqlalchemy import MetaData, text

from staffbooking_adapters.sql.engine.connection import (
    CHUNK,
    Connection,
    Database,
    repeated,
    to_the_end,
    what_failed,
)
from staffbooking_adapters.sql.engine.errors import from_sqlite, unique_names, unstorable
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_adapters.sql.engine.statements import Arguments, Compiled, Row, Statement
from staffbooking_adapters.sql.engine.types import Synchronous
from staffbooking_core.errors import Unavailable

T = TypeVar("T")
Driver: TypeAlias = aiosqlite.Connection
Call: TypeAlias = Callable[[Driver, str, Sequence[Arguments]], Awaitable[T]]

BEGIN = Statement(text("BEGIN IMMEDIATE")).on("sqlite")
COMMIT = Statement(text("COMMIT")).on("sqlite")

WAL = "PRAGMA journal_mode = WAL"
WAL_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between tries to switch a file to WAL while another process does the same."""

WRITER_CACHE = "PRAGMA cache_size = -32768"
"""KiB, as they are needed: each companion goes to some twenty places of the indexes, and with
SQLite's own 2 MiB an import would read most of these pages anew each time."""

READERS = 3
BUSY_SECONDS = 5.0
"""How long to wait for another process to end its writing."""

BUSY_PAUSE = 0.004
STOP_PAUSE = 0.01
"""Seconds between the tries of who waits. SQLite's own, which are switched off, go up to 0.1,
and those who write all the time come in between: a stranger would wait for seconds."""


class SqliteDatabase(Database):
    """One file. Several processes may have it open at a time."""

    dialect = "sqlite"

    def __init__(self, path: Path, metadata: MetaData, synchronous: Synchronous) -> None:
        self._path = path
        self._unique = unique_names(metadata)
        self._synchronous = synchronous
        self._readers = Pool(READERS, self._connect_reader, _disconnect, _is_alive)
        self._writer = Pool(1, self._connect_writer, _disconnect, _is_alive)

    async def write(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await repeated(self._write_once, work)

    async def close(self) -> None:
        await self._readers.close()
        await self._writer.close()  # the last to go tidies the write-ahead log away

    async def open(self) -> SqliteDatabase:
        """Make the file, if it isn't there, before anybody reads it."""
        try:
            sqlite3.connect(self._path).close()  # a failure here leaves no thread behind
        except sqlite3.Error as error:
            raise self._not_opened(error) from error
        self._writer.release(await self._writer.acquire())
        return self

    async def ask(
        self, call: Call[T], driver: Driver, compiled: Compiled, given: Sequence[Arguments]
    ) -> T:
        """Call the driver, its errors in the core's words."""
        self.round_trips += 1
        try:
            return await _patiently(call, driver, compiled.sql, given)
        except asyncio.CancelledError:
            await to_the_end(_stop(driver))  # nobody wants the answer any more
            raise
        except Exception as error:
            failure = from_sqlite(error, self._unique) or unstorable(compiled.names, given)
            if failure is None:
                raise
            raise failure from error

    async def _write_once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        driver = await self._writer.acquire()
        unit = _Unit(self, driver)
        try:
            result = await unit.carry_out(work)
        except BaseException:
            await to_the_end(self._undo(driver))
            raise
        self._writer.release(driver)
        return result

    async def _undo(self, driver: Driver) -> None:
        """Give the writer back without a transaction, or close it."""
        try:
            await driver.rollback()
        except sqlite3.Error:
            await driver.close()
        finally:
            self._writer.release(driver)

    async def _fetch(self, compiled: Compiled, arguments: Arguments) -> list[Row]:
        pool = self._readers if compiled.reads else self._writer
        return compiled.rows(await self._alone(pool, _fetch, compiled, arguments))

    async def _execute(self, compiled: Compiled, arguments: Arguments) -> int:
        return await self._alone(self._writer, _execute, compiled, arguments)

    async def _execute_many(self, compiled: Compiled, rows: Sequence[Arguments]) -> None:
        await self.write(lambda unit: unit._execute_many(compiled, rows))

    async def _chunks(self, compiled: Compiled, arguments: Arguments) -> AsyncGenerator[list[Row]]:
        driver = await self._readers.acquire()
        try:
            async with aclosing(_Unit(self, driver)._chunks(compiled, arguments)) as chunks:
                async for rows in chunks:
                    yield rows
        finally:
            self._readers.release(driver)

    async def _alone(
        self, pool: Pool[Driver], call: Call[T], compiled: Compiled, arguments: Arguments
    ) -> T:
        driver = await pool.acquire()
        try:
            return await self.ask(call, driver, compiled, [arguments])
        finally:
            pool.release(driver)

    async def _connect_reader(self) -> Driver:
        return await self._connect("PRAGMA query_only = ON")

    async def _connect_writer(self) -> Driver:
        return await self._connect(
            WAL,
            f"PRAGMA synchronous = {self._synchronous}",
            "PRAGMA foreign_keys = ON",
            WRITER_CACHE,
        )

    async def _connect(self, *pragmas: str) -> Driver:
        driver = aiosqlite.connect(
            self._path, timeout=0, isolation_level=None, cached_statements=1024
        )
        try:
            await driver
            for pragma in pragmas:
                await _set(driver, pragma)
        except BaseException as error:
            await to_the_end(driver.close())
            if isinstance(error, sqlite3.Error):
                raise self._not_opened(error) from error
            raise
        return driver

    def _not_opened(self, error: sqlite3.Error) -> Unavailable:
        return Unavailable(f"cannot open {self._path}: {error}")


class _Unit(Connection):
    """One transaction on the connection that writes."""

    dialect = "sqlite"

    def __init__(self, database: SqliteDatabase, driver: Driver) -> None:
        self._database = database
        self._driver = driver
        self._failure: Exception | None = None

    async def carry_out(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Begin, work and commit; whoever holds the unit after that can do no more with it."""
        try:
            await self._ask(_fetch, BEGIN, [()])
            result = await work(self)
            await self._ask(_fetch, COMMIT, [()])
        finally:
            self._failure = RuntimeError("this unit of work is over")
        return result

    async def _fetch(self, compiled: Compiled, arguments: Arguments) -> list[Row]:
        return compiled.rows(await self._ask(_fetch, compiled, [arguments]))

    async def _execute(self, compiled: Compiled, arguments: Arguments) -> int:
        return await self._ask(_execute, compiled, [arguments])

    async def _execute_many(self, compiled: Compiled, rows: Sequence[Arguments]) -> None:
        await self._ask(_execute_many, compiled, rows)

    async def _chunks(self, compiled: Compiled, arguments: Arguments) -> AsyncGenerator[list[Row]]:
        cursor = await self._ask(_open_cursor, compiled, [arguments])

        def fetch(*_: Any) -> Awaitable[Any]:
            return cursor.fetchmany(CHUNK)

        try:
            while rows := await self._ask(fetch, compiled, []):
                yield compiled.rows(rows)
        finally:
            await to_the_end(cursor.close())

    async def _ask(self, call: Call[T], compiled: Compiled, given: Sequence[Arguments]) -> T:
        # SQLite would go on after a failure; PostgreSQL would not, so neither does.
        if self._failure:
            raise self._failure
        try:
            return await self._database.ask(call, self._driver, compiled, given)
        except BaseException as error:
            self._failure = what_failed(error)
            raise


async def _patiently(call: Call[T], driver: Driver, sql: str, given: Sequence[Arguments]) -> T:
    """Try again while another process writes. Only what begins to write meets one: a BEGIN,
    or a statement that is a unit of its own, so nothing was done yet."""
    clock = asyncio.get_running_loop().time
    until = clock() + BUSY_SECONDS
    while True:
        try:
            return await call(driver, sql, given)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or clock() > until:
                raise
        await asyncio.sleep(BUSY_PAUSE)


async def _stop(driver: Driver) -> None:
    """Interrupt until the connection's thread comes to what is asked last: an interruption
    that comes before the thread has begun with its statement is lost."""
    last = asyncio.ensure_future(driver.execute_fetchall("SELECT 1"))
    while not last.done():
        await driver.interrupt()
        await asyncio.wait([last], timeout=STOP_PAUSE)
    last.exception()  # interrupted itself, perhaps


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process writes, or puts the file in order after one that was killed. A
    unit of work that found itself outdated would be so at each try."""
    code = error.sqlite_errorcode
    return code & 0xFF == sqlite3.SQLITE_BUSY and code != sqlite3.SQLITE_BUSY_SNAPSHOT


async def _set(driver: Driver, pragma: str) -> None:
    # SQLite itself doesn't wait when two processes switch a new file to WAL at a time.
    for pause in WAL_PAUSES:
        try:
            await driver.execute_fetchall(pragma)
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        await asyncio.sleep(pause)
    await driver.execute_fetchall(pragma)


async def _fetch(driver: Driver, sql: str, given: Sequence[Arguments]) -> list[Row]:
    rows: Any = await driver.execute_fetchall(sql, given[0])
    return rows  # type: ignore[no-any-return]


async def _execute(driver: Driver, sql: str, given: Sequence[Arguments]) -> int:
    return max((await driver.execute(sql, given[0])).rowcount, 0)


def _execute_many(driver: Driver, sql: str, given: Sequence[Arguments]) -> Awaitable[object]:
    return driver.executemany(sql, given)


def _open_cursor(
    driver: Driver, sql: str, given: Sequence[Arguments]
) -> Awaitable[aiosqlite.Cursor]:
    return driver.execute(sql, given[0])


def _is_alive(driver: Driver) -> bool:
    """Whether it is open, and nothing of an earlier unit of work is."""
    try:
        return not driver.in_transaction
    except ValueError:
        return False


async def _disconnect(driver: Driver) -> None:
    await to_the_end(driver.close())
