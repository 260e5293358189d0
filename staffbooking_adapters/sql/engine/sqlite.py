"""The database on SQLite: aiosqlite, a few readers and one writer, one thread hop a call.

In WAL mode readers do not wait for the writer, nor the writer for readers. Writers wait for each
other: in this process for the one writing connection, across processes for the file's lock. BEGIN
IMMEDIATE takes the lock at once, so that a transaction never has to be restarted midway because its
snapshot is outdated.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import aiosqlite
from sqlalchemy import MetaData, text

from staffbooking_adapters.database_time import DatabaseTime, current_database_time
from staffbooking_adapters.sql.engine.connection import (
    STREAM_CHUNK_SIZE,
    Connection,
    Database,
    await_uninterrupted,
    transaction_failure,
)
from staffbooking_adapters.sql.engine.errors import (
    translate_sqlite_error,
    unstorable_parameter_error,
)
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_adapters.sql.engine.sqlite_direct import DirectConnection, DirectCursor
from staffbooking_adapters.sql.engine.statements import Arguments, CompiledStatement, Row, Statement
from staffbooking_adapters.sql.engine.types import DurabilityMode
from staffbooking_core.errors import StoreUnavailable

T = TypeVar("T")
Driver: TypeAlias = aiosqlite.Connection | DirectConnection
DriverCall: TypeAlias = Callable[[Driver, str, Sequence[Arguments]], Awaitable[T]]

BEGIN = Statement(text("BEGIN IMMEDIATE")).compile_for("sqlite")
COMMIT = Statement(text("COMMIT")).compile_for("sqlite")

WAL_PRAGMA = "PRAGMA journal_mode = WAL"
WAL_RETRY_DELAYS_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between tries to switch a file to WAL while another process does the same."""

CACHE_SIZE_PRAGMA = "PRAGMA cache_size = -32768"
"""KiB of page cache, allocated as needed. Each companion has some twenty entries in indexes, and
with SQLite's default of 2 MiB an import would read most of these pages again each time."""

MAX_READER_CONNECTIONS = 3

BUSY_RETRY_INTERVAL_SECONDS = 0.004
"""Seconds between attempts of a waiting writer. SQLite's own intervals, which are switched off,
grow to 0.1 s, and busy writers take the lock in between: another process would wait for
seconds."""

INTERRUPT_RETRY_INTERVAL_SECONDS = 0.01
"""Seconds between interruptions of a statement that nobody waits for any more."""


class SqliteDatabase(Database):
    """One file, which several processes may have open at a time."""

    dialect = "sqlite"

    def __init__(self, path: Path, metadata: MetaData, synchronous: DurabilityMode) -> None:
        self._path = path
        self._tables = metadata.tables  # more are added when modules are imported later
        self._synchronous: str = synchronous
        self._make_driver: Callable[..., Driver] = aiosqlite.connect
        self._open_pools()

    def _open_pools(self) -> None:
        self._reader_pool = Pool(
            MAX_READER_CONNECTIONS, self._connect_reader, _disconnect, _is_alive
        )
        self._writer_pool = Pool(1, self._connect_writer, _disconnect, _is_alive)

    @asynccontextmanager
    async def filling(self) -> AsyncIterator[None]:
        pools, synchronous = (self._reader_pool, self._writer_pool), self._synchronous
        self._make_driver, self._synchronous = DirectConnection, "NORMAL"
        self._open_pools()
        try:
            yield
        finally:
            await self.close()
            self._reader_pool, self._writer_pool = pools
            self._make_driver, self._synchronous = aiosqlite.connect, synchronous

    async def close(self) -> None:
        try:
            await self._reader_pool.close()
        finally:  # the last connection to close removes the write-ahead log
            await self._writer_pool.close()

    async def open(self) -> SqliteDatabase:
        """Create the file, if it is missing, before it is read."""
        try:
            sqlite3.connect(self._path).close()  # a failure here leaves no thread behind
        except sqlite3.Error as error:
            raise self._open_error(error) from error
        self._writer_pool.release(await self._writer_pool.acquire(current_database_time()))
        return self

    async def call_driver(
        self,
        call: DriverCall[T],
        driver: Driver,
        compiled: CompiledStatement,
        argument_rows: Sequence[Arguments],
        budget: DatabaseTime,
    ) -> T:
        """Call the driver and translate its errors to the core's errors."""
        timeout = budget.remaining()
        self.round_trips += 1
        started = monotonic()
        try:
            return await _call_within(timeout, call, driver, compiled.sql, argument_rows)
        except asyncio.CancelledError:
            await await_uninterrupted(_interrupt_until_idle(driver))  # no caller needs the result
            raise
        except Exception as error:
            failure = translate_sqlite_error(error, self._tables) or unstorable_parameter_error(
                compiled.argument_names, argument_rows
            )
            if failure is None:
                raise
            raise failure from error
        finally:
            budget.spend_since(started)

    @asynccontextmanager
    async def _transaction(self, budget: DatabaseTime) -> AsyncIterator[Connection]:
        driver = await self._writer_pool.acquire(budget)
        transaction = _SqliteTransaction(self, driver, budget)
        try:
            await transaction.begin()
            yield transaction
            await transaction.commit()
        except BaseException:
            await await_uninterrupted(self._roll_back(driver))
            raise
        finally:
            transaction.end()
        self._writer_pool.release(driver)

    async def _roll_back(self, driver: Driver) -> None:
        """Return the writer without a transaction, or close it."""
        try:
            await driver.rollback()
        except sqlite3.Error:
            await driver.close()
        finally:
            self._writer_pool.release(driver)

    async def _fetch(self, compiled: CompiledStatement, arguments: Arguments) -> list[Row]:
        pool = self._reader_pool if compiled.is_read_only else self._writer_pool
        return compiled.convert_rows(
            await self._call_in_autocommit(pool, _driver_fetch, compiled, arguments)
        )

    async def _execute(self, compiled: CompiledStatement, arguments: Arguments) -> int:
        return await self._call_in_autocommit(
            self._writer_pool, _driver_execute, compiled, arguments
        )

    async def _execute_many(self, compiled: CompiledStatement, rows: Sequence[Arguments]) -> None:
        await self.run_transaction(lambda unit: unit._execute_many(compiled, rows))

    async def _chunks(
        self, compiled: CompiledStatement, arguments: Arguments
    ) -> AsyncGenerator[list[Row]]:
        driver = await self._reader_pool.acquire(current_database_time())
        try:
            async with aclosing(
                _SqliteTransaction(self, driver)._chunks(compiled, arguments)
            ) as chunks:
                async for rows in chunks:
                    yield rows
        finally:
            self._reader_pool.release(driver)

    async def _call_in_autocommit(
        self,
        pool: Pool[Driver],
        call: DriverCall[T],
        compiled: CompiledStatement,
        arguments: Arguments,
    ) -> T:
        budget = current_database_time()
        driver = await pool.acquire(budget)
        try:
            return await self.call_driver(call, driver, compiled, [arguments], budget)
        finally:
            pool.release(driver)

    async def _connect_reader(self, _: DatabaseTime) -> Driver:
        return await self._connect("PRAGMA query_only = ON")

    async def _connect_writer(self, _: DatabaseTime) -> Driver:
        return await self._connect(
            WAL_PRAGMA,
            f"PRAGMA synchronous = {self._synchronous}",
            "PRAGMA foreign_keys = ON",
            CACHE_SIZE_PRAGMA,
        )

    async def _connect(self, *pragmas: str) -> Driver:
        driver = self._make_driver(
            self._path, timeout=0, isolation_level=None, cached_statements=1024
        )
        try:
            await await_uninterrupted(driver)  # aiosqlite would leave its thread behind
            for pragma in pragmas:
                await _set_pragma_with_retries(driver, pragma)
        except BaseException as error:
            await await_uninterrupted(driver.close())
            if isinstance(error, sqlite3.Error):
                raise self._open_error(error) from error
            raise
        return driver

    def _open_error(self, error: sqlite3.Error) -> StoreUnavailable:
        return StoreUnavailable(f"cannot open {self._path}: {error}")


class _SqliteTransaction(Connection):
    """One transaction on the writing connection; without a `budget`, each statement has one."""

    dialect = "sqlite"

    def __init__(
        self,
        database: SqliteDatabase,
        driver: Driver,
        budget: DatabaseTime | None = None,
    ) -> None:
        self._database = database
        self._driver = driver
        self._budget = budget
        self._failure: Exception | None = None

    async def begin(self) -> None:
        await self._call_driver(_driver_fetch, BEGIN, [()])

    async def commit(self) -> None:
        await self._call_driver(_driver_fetch, COMMIT, [()])

    def end(self) -> None:
        """Refuse every later statement."""
        self._failure = RuntimeError("this unit of work is over")

    async def _fetch(self, compiled: CompiledStatement, arguments: Arguments) -> list[Row]:
        return compiled.convert_rows(await self._call_driver(_driver_fetch, compiled, [arguments]))

    async def _execute(self, compiled: CompiledStatement, arguments: Arguments) -> int:
        return await self._call_driver(_driver_execute, compiled, [arguments])

    async def _execute_many(self, compiled: CompiledStatement, rows: Sequence[Arguments]) -> None:
        await self._call_driver(_driver_execute_many, compiled, rows)

    async def _chunks(
        self, compiled: CompiledStatement, arguments: Arguments
    ) -> AsyncGenerator[list[Row]]:
        cursor = await self._call_driver(_open_cursor, compiled, [arguments])

        def fetch(*_: Any) -> Awaitable[Any]:
            return cursor.fetchmany(STREAM_CHUNK_SIZE)

        try:
            while rows := await self._call_driver(fetch, compiled, []):
                yield compiled.convert_rows(rows)
        finally:
            await await_uninterrupted(cursor.close())

    async def _call_driver(
        self,
        call: DriverCall[T],
        compiled: CompiledStatement,
        argument_rows: Sequence[Arguments],
    ) -> T:
        # SQLite would continue after a failure; PostgreSQL would not, so neither does.
        if self._failure:
            raise self._failure
        try:
            return await self._database.call_driver(
                call, self._driver, compiled, argument_rows, self._budget or current_database_time()
            )
        except BaseException as error:
            self._failure = transaction_failure(error)
            raise


async def _call_within(
    seconds: float,
    call: DriverCall[T],
    driver: Driver,
    sql: str,
    argument_rows: Sequence[Arguments],
) -> T:
    """Retry while another process writes, and interrupt the statement after `seconds`.

    Only a call that starts a write can be refused because of another process (a BEGIN, or a
    statement in its own transaction), so nothing has been written yet.
    """
    interruption: asyncio.Task[None] | None = None

    def interrupt() -> None:
        nonlocal interruption
        interruption = asyncio.ensure_future(_interrupt_until_idle(driver))

    timer = asyncio.get_running_loop().call_later(seconds, interrupt)
    try:
        while True:
            try:
                return await call(driver, sql, argument_rows)
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or interruption is not None:
                    raise
            await asyncio.sleep(BUSY_RETRY_INTERVAL_SECONDS)
    finally:
        timer.cancel()
        if interruption is not None:
            await interruption  # or it would hit the connection's next statement


async def _interrupt_until_idle(driver: Driver) -> None:
    """Interrupt repeatedly until the connection's thread has run its queued calls: an interruption
    before a statement has started has no effect."""
    sentinel = asyncio.ensure_future(driver.execute_fetchall("SELECT 1"))
    while not sentinel.done():
        await driver.interrupt()
        await asyncio.wait([sentinel], timeout=INTERRUPT_RETRY_INTERVAL_SECONDS)
    sentinel.exception()  # marks the error as retrieved: it may be interrupted too


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process writes, or recovers the file after a crash. An outdated snapshot
    does not count, since a retry would have the same snapshot."""
    code = error.sqlite_errorcode
    return code & 0xFF == sqlite3.SQLITE_BUSY and code != sqlite3.SQLITE_BUSY_SNAPSHOT


async def _set_pragma_with_retries(driver: Driver, pragma: str) -> None:
    # SQLite does not wait when two processes switch a new file to WAL at the same time.
    for delay in WAL_RETRY_DELAYS_SECONDS:
        try:
            await driver.execute_fetchall(pragma)
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        await asyncio.sleep(delay)
    await driver.execute_fetchall(pragma)


async def _driver_fetch(driver: Driver, sql: str, argument_rows: Sequence[Arguments]) -> list[Row]:
    rows: Any = await driver.execute_fetchall(sql, argument_rows[0])
    return rows  # type: ignore[no-any-return]


async def _driver_execute(driver: Driver, sql: str, argument_rows: Sequence[Arguments]) -> int:
    return max((await driver.execute(sql, argument_rows[0])).rowcount, 0)


def _driver_execute_many(
    driver: Driver, sql: str, argument_rows: Sequence[Arguments]
) -> Awaitable[object]:
    return driver.executemany(sql, argument_rows)


def _open_cursor(
    driver: Driver, sql: str, argument_rows: Sequence[Arguments]
) -> Awaitable[aiosqlite.Cursor | DirectCursor]:
    return driver.execute(sql, argument_rows[0])


def _is_alive(driver: Driver) -> bool:
    """Whether the connection is open and has no transaction of an earlier caller."""
    try:
        return not driver.in_transaction
    except ValueError:
        return False


async def _disconnect(driver: Driver) -> None:
    await driver.close()
