"""The seam on PostgreSQL: asyncpg, prepared statements, one round trip a statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.exceptions import InterfaceError, PostgresError
from sqlalchemy import URL, text

from staffbooking_adapters.sql.engine.connection import (
    CHUNK,
    Connection,
    Database,
    repeated,
    to_the_end,
    what_failed,
)
from staffbooking_adapters.sql.engine.errors import from_postgres, unstorable
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_adapters.sql.engine.statements import Arguments, Compiled, Row, Statement
from staffbooking_adapters.sql.engine.types import Synchronous
from staffbooking_core.errors import Unavailable

T = TypeVar("T")
Driver: TypeAlias = Any  # asyncpg tells next to nothing of its types
Call: TypeAlias = Callable[[Driver, str, Sequence[Arguments]], Awaitable[T]]

BEGIN = Statement(text("BEGIN")).on("postgresql")
TOUCHING = ("INSERT", "UPDATE", "DELETE")
COMMIT = Statement(text("COMMIT")).on("postgresql")

SETTINGS = {
    "application_name": "staffbooking",
    "timezone": "UTC",
    "jit": "off",
    # Plan a statement once and keep the plan; LIMITs are literals, so it is a good one.
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "10s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
}
OPTIONS: dict[str, Any] = {
    "statement_cache_size": 2048,
    "max_cached_statement_lifetime": 0,  # for ever
    "max_cacheable_statement_size": 0,  # of any length
    "timeout": 5,  # seconds to connect
    "command_timeout": 15,  # for a server that has fallen silent: its own limits come first
}
PATIENCE = 1.0
"""Seconds until a connection is cut that doesn't answer when its work is over. Its statement may
go on though it was cancelled, since the server forgets a cancellation that overtakes its
statement; the server's own limit of time ends it then."""


class PostgresDatabase(Database):
    """Connections of one event loop, opened as they are needed."""

    dialect = "postgresql"

    def __init__(self, url: URL, pool_size: int, synchronous: Synchronous = "FULL") -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        unsafe = {"synchronous_commit": "off"} if synchronous == "OFF" else {}
        self._settings = SETTINGS | unsafe
        self._pool: Pool[Driver] = Pool(pool_size, self._connect, _disconnect, _is_alive)

    async def write(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await repeated(self._write_once, work)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Driver]:
        """A connection beside the pool, for who keeps it: to listen."""
        driver = await self._connect()
        try:
            yield driver
        finally:
            await _disconnect(driver)

    async def _connect(self) -> Driver:
        try:
            return await asyncpg.connect(  # type: ignore[no-untyped-call]
                self._dsn, server_settings=self._settings, **OPTIONS
            )
        except (OSError, PostgresError, InterfaceError) as error:
            raise Unavailable(f"cannot connect: {error}") from error

    async def _write_once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        driver = await self._pool.acquire()
        unit = _Unit(self, driver)
        try:
            result = await unit.carry_out(work)
        except BaseException:
            await to_the_end(self._undo(driver))
            raise
        self._pool.release(driver)
        return result

    async def ask(
        self,
        call: Call[T],
        driver: Driver,
        compiled: Compiled,
        given: Sequence[Arguments],
        *,
        final: bool,
    ) -> T:
        """Call the driver, its errors in the core's words.

        `final` tells that it takes effect by itself, so that nobody knows whether it was
        done when the answer is lost.
        """
        self.round_trips += 1
        try:
            return await call(driver, compiled.sql, given)
        except Exception as error:
            failure = from_postgres(error, connected=_is_alive(driver), final=final)
            failure = failure or unstorable(compiled.names, given)
            if failure is None:
                raise
            raise failure from error

    async def _undo(self, driver: Driver) -> None:
        await self._give_back(driver, after="ROLLBACK")

    async def _give_back(self, driver: Driver, *, after: str) -> None:
        """Give the connection back once it has answered, without a transaction, or cut it."""
        try:
            if _is_alive(driver):
                async with asyncio.timeout(PATIENCE):
                    await driver.execute(after)
        except Exception:
            driver.terminate()
        finally:
            self._pool.release(driver)

    async def _fetch(self, compiled: Compiled, arguments: Arguments) -> list[Row]:
        return await repeated(self._alone, _fetch, compiled, [arguments])

    async def _execute(self, compiled: Compiled, arguments: Arguments) -> int:
        return _touched(await repeated(self._alone, _execute, compiled, [arguments]))

    async def _execute_many(self, compiled: Compiled, rows: Sequence[Arguments]) -> None:
        await repeated(self._alone, _execute_many, compiled, rows)

    async def _alone(self, call: Call[T], compiled: Compiled, given: Sequence[Arguments]) -> T:
        driver = await self._pool.acquire()
        try:
            result = await self.ask(call, driver, compiled, given, final=not compiled.reads)
        except asyncio.CancelledError:
            await to_the_end(self._give_back(driver, after="SELECT 1"))
            raise
        except BaseException:
            self._pool.release(driver)
            raise
        self._pool.release(driver)
        return result

    async def _chunks(self, compiled: Compiled, arguments: Arguments) -> AsyncGenerator[list[Row]]:
        driver = await self._pool.acquire()
        unit = _Unit(self, driver)
        try:
            await unit.begin()
            async with aclosing(unit._chunks(compiled, arguments)) as chunks:
                async for rows in chunks:
                    yield rows
        finally:
            await to_the_end(self._undo(driver))


class _Unit(Connection):
    """One transaction on a connection of its own."""

    dialect = "postgresql"

    def __init__(self, database: PostgresDatabase, driver: Driver) -> None:
        self._database = database
        self._driver = driver
        self._failure: Exception | None = None

    async def begin(self) -> None:
        await self._ask(_execute, BEGIN, [()])

    async def carry_out(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Begin, work and commit; whoever holds the unit after that can do no more with it."""
        try:
            await self.begin()
            result = await work(self)
            await self._ask(_execute, COMMIT, [()], final=True)
        finally:
            self._failure = RuntimeError("this unit of work is over")
        return result

    async def _fetch(self, compiled: Compiled, arguments: Arguments) -> list[Row]:
        return await self._ask(_fetch, compiled, [arguments])

    async def _execute(self, compiled: Compiled, arguments: Arguments) -> int:
        return _touched(await self._ask(_execute, compiled, [arguments]))

    async def _execute_many(self, compiled: Compiled, rows: Sequence[Arguments]) -> None:
        await self._ask(_execute_many, compiled, rows)

    async def _chunks(self, compiled: Compiled, arguments: Arguments) -> AsyncGenerator[list[Row]]:
        cursor = await self._ask(_open_cursor, compiled, [arguments])
        while rows := await self._ask(lambda *_: cursor.fetch(CHUNK), compiled, [arguments]):
            yield rows

    async def _ask(
        self, call: Call[T], compiled: Compiled, given: Sequence[Arguments], final: bool = False
    ) -> T:
        # PostgreSQL refuses all that follows a failure: the first is the one to tell.
        if self._failure:
            raise self._failure
        try:
            return await self._database.ask(call, self._driver, compiled, given, final=final)
        except BaseException as error:
            self._failure = what_failed(error)
            raise


def _fetch(driver: Driver, sql: str, given: Sequence[Arguments]) -> Awaitable[list[Row]]:
    rows: Awaitable[list[Row]] = driver.fetch(sql, *given[0])
    return rows


def _execute(driver: Driver, sql: str, given: Sequence[Arguments]) -> Awaitable[str]:
    status: Awaitable[str] = driver.execute(sql, *given[0])
    return status


def _execute_many(driver: Driver, sql: str, given: Sequence[Arguments]) -> Awaitable[None]:
    nothing: Awaitable[None] = driver.executemany(sql, given)
    return nothing


def _open_cursor(driver: Driver, sql: str, given: Sequence[Arguments]) -> Awaitable[Any]:
    cursor: Awaitable[Any] = driver.cursor(sql, *given[0])
    return cursor


def _touched(status: str) -> int:
    """The number at the end of "INSERT 0 3" or "UPDATE 3"."""
    return int(status.rpartition(" ")[2]) if status.startswith(TOUCHING) else 0


def _is_alive(driver: Driver) -> bool:
    return not driver.is_closed()


async def _disconnect(driver: Driver) -> None:
    try:
        await driver.close(timeout=PATIENCE)
    except Exception:
        driver.terminate()
