"""The database on PostgreSQL: asyncpg, prepared statements, one round trip a statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError
from sqlalchemy import URL, text

from staffbooking_adapters.database_time import DatabaseTime, current_database_time
from staffbooking_adapters.sql.engine.connection import (
    STREAM_CHUNK_SIZE,
    Connection,
    Database,
    await_uninterrupted,
    run_with_retries,
    transaction_failure,
)
from staffbooking_adapters.sql.engine.errors import (
    translate_postgres_error,
    unstorable_parameter_error,
)
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_adapters.sql.engine.prepared_connection import PreparedConnection
from staffbooking_adapters.sql.engine.statements import Arguments, CompiledStatement, Row, Statement
from staffbooking_adapters.sql.engine.types import DurabilityMode
from staffbooking_core.errors import StoreUnavailable

T = TypeVar("T")
AsyncpgConnection: TypeAlias = Any  # asyncpg has next to no type annotations
AsyncpgCall: TypeAlias = Callable[
    [AsyncpgConnection, str, Sequence[Arguments], float], Awaitable[T]
]
"""A call of the driver, with its timeout in seconds."""

BEGIN = Statement(text("BEGIN")).compile_for("postgresql")
ROW_COUNT_COMMANDS = ("INSERT", "UPDATE", "DELETE")
COMMIT = Statement(text("COMMIT")).compile_for("postgresql")

SERVER_SETTINGS = {
    "application_name": "staffbooking",
    "timezone": "UTC",
    "jit": "off",
    # An offset, unknown to the plan, looks like many rows: starting workers would cost the most.
    "max_parallel_workers_per_gather": "0",
    # Plan a statement once and keep the plan; LIMITs are literals, so the plan is good.
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "10s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
}
CONNECT_OPTIONS: dict[str, Any] = {
    "statement_cache_size": 2048,
    "max_cached_statement_lifetime": 0,  # never expires
    "max_cacheable_statement_size": 0,  # statements of any length
    "command_timeout": 15,  # where no budget applies: cancellations
}
CONNECT_TIMEOUT_SECONDS = 5.0
RELEASE_TIMEOUT_SECONDS = 1.0
"""Seconds to wait for a response at the end of a connection's use; it is terminated after that. A
cancelled statement may still run, since the server ignores a cancellation that arrives before the
statement; the server's own statement timeout ends it then."""


async def connect(
    url: URL, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS, **options: Any
) -> AsyncpgConnection:
    """A connection of the driver. Raises StoreUnavailable."""
    dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        return await asyncpg.connect(dsn, timeout=timeout_seconds, **options)  # type: ignore[no-untyped-call]
    except (OSError, PostgresError, InterfaceError, InternalClientError) as error:
        raise StoreUnavailable(f"cannot connect: {str(error) or 'no response'}") from error


class PostgresDatabase(Database):
    """The connections of one event loop, opened as needed."""

    dialect = "postgresql"

    def __init__(self, url: URL, pool_size: int, synchronous: DurabilityMode = "FULL") -> None:
        self._url = url
        durability_settings = {"synchronous_commit": "off"} if synchronous == "OFF" else {}
        self._settings = SERVER_SETTINGS | durability_settings
        self._pool: Pool[AsyncpgConnection] = Pool(
            pool_size, self._connect, _disconnect, self._is_usable
        )
        self._closing: dict[AsyncpgConnection, asyncio.Task[None]] = {}
        """Connections that are closed after a timeout, without anybody waiting."""

    async def close(self) -> None:
        await self._pool.close()
        await asyncio.gather(*self._closing.values())

    @asynccontextmanager
    async def dedicated_connection(self) -> AsyncIterator[AsyncpgConnection]:
        """A connection outside of the pool, for a caller that keeps it: to listen."""
        driver = await self._connect(current_database_time())
        try:
            yield driver
        finally:
            await _disconnect(driver)

    async def _connect(self, budget: DatabaseTime) -> AsyncpgConnection:
        timeout = min(CONNECT_TIMEOUT_SECONDS, budget.remaining())
        started = monotonic()
        try:
            return await connect(
                self._url,
                timeout,
                server_settings=self._settings,
                connection_class=PreparedConnection,
                **CONNECT_OPTIONS,
            )
        finally:
            budget.spend_since(started)

    @asynccontextmanager
    async def _transaction(self, budget: DatabaseTime) -> AsyncIterator[Connection]:
        driver = await self._pool.acquire(budget)
        transaction = _PostgresTransaction(self, driver, budget)
        try:
            await transaction.begin()
            yield transaction
            await transaction.commit()
        except BaseException:
            await await_uninterrupted(self._roll_back(driver))
            raise
        finally:
            transaction.end()
        self._pool.release(driver)

    async def call_driver(
        self,
        call: AsyncpgCall[T],
        driver: AsyncpgConnection,
        compiled: CompiledStatement,
        argument_rows: Sequence[Arguments],
        budget: DatabaseTime,
        *,
        is_autocommit: bool,
    ) -> T:
        """Call the driver, and translate its errors to the core's errors. After a timeout the
        connection is closed in the background.

        `is_autocommit`: the call takes effect by itself, so its outcome is unknown when the
        response is lost.
        """
        timeout = budget.remaining()
        self.round_trips += 1
        started = monotonic()
        try:
            return await call(driver, compiled.sql, argument_rows, timeout)
        except TimeoutError as error:
            self._close_in_background(driver)
            raise StoreUnavailable("a statement took too long") from error
        except Exception as error:
            failure = translate_postgres_error(
                error, is_connected=_is_alive(driver), is_autocommit=is_autocommit
            )
            failure = failure or unstorable_parameter_error(compiled.argument_names, argument_rows)
            if failure is None:
                raise
            raise failure from error
        finally:
            budget.spend_since(started)

    def _is_usable(self, driver: AsyncpgConnection) -> bool:
        return not driver.is_closed() and driver not in self._closing

    def _close_in_background(self, driver: AsyncpgConnection) -> None:
        """Cancel the connection's statement and close it. A server that hangs delays nobody."""
        task = self._closing[driver] = asyncio.create_task(_disconnect(driver))
        task.add_done_callback(lambda _: self._closing.pop(driver))

    async def _roll_back(self, driver: AsyncpgConnection) -> None:
        await self._release_after(driver, final_sql="ROLLBACK")

    async def _release_after(self, driver: AsyncpgConnection, *, final_sql: str) -> None:
        """Return the connection once it responds and has no transaction; otherwise terminate it."""
        try:
            if self._is_usable(driver):
                async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                    await driver.execute(final_sql)
        except Exception:
            driver.terminate()
        finally:
            self._pool.release(driver)

    def _fetch(self, compiled: CompiledStatement, arguments: Arguments) -> Awaitable[list[Row]]:
        return run_with_retries(
            self._call_in_autocommit, _driver_fetch, compiled, [arguments], current_database_time()
        )

    async def _execute(self, compiled: CompiledStatement, arguments: Arguments) -> int:
        return _affected_rows(
            await run_with_retries(
                self._call_in_autocommit,
                _driver_execute,
                compiled,
                [arguments],
                current_database_time(),
            )
        )

    async def _execute_many(self, compiled: CompiledStatement, rows: Sequence[Arguments]) -> None:
        await run_with_retries(
            self._call_in_autocommit, _driver_execute_many, compiled, rows, current_database_time()
        )

    async def _call_in_autocommit(
        self,
        call: AsyncpgCall[T],
        compiled: CompiledStatement,
        argument_rows: Sequence[Arguments],
        budget: DatabaseTime,
    ) -> T:
        driver = await self._pool.acquire(budget)
        is_autocommit = not compiled.is_read_only
        try:
            result = await self.call_driver(
                call, driver, compiled, argument_rows, budget, is_autocommit=is_autocommit
            )
        except asyncio.CancelledError:
            await await_uninterrupted(self._release_after(driver, final_sql="SELECT 1"))
            raise
        except BaseException:
            self._pool.release(driver)
            raise
        self._pool.release(driver)
        return result

    async def _chunks(
        self, compiled: CompiledStatement, arguments: Arguments
    ) -> AsyncGenerator[list[Row]]:
        driver = await self._pool.acquire(current_database_time())
        transaction = _PostgresTransaction(self, driver)
        try:
            await transaction.begin()
            async with aclosing(transaction._chunks(compiled, arguments)) as chunks:
                async for rows in chunks:
                    yield rows
        finally:
            await await_uninterrupted(self._roll_back(driver))


class _PostgresTransaction(Connection):
    """One transaction on a connection of its own; without a `budget`, each statement has one."""

    dialect = "postgresql"

    def __init__(
        self,
        database: PostgresDatabase,
        driver: AsyncpgConnection,
        budget: DatabaseTime | None = None,
    ) -> None:
        self._database = database
        self._driver = driver
        self._budget = budget
        self._failure: Exception | None = None

    async def begin(self) -> None:
        await self._call_driver(_driver_execute, BEGIN, [()])

    async def commit(self) -> None:
        await self._call_driver(_driver_execute, COMMIT, [()], is_autocommit=True)

    def end(self) -> None:
        """Refuse every later statement."""
        self._failure = RuntimeError("this unit of work is over")

    async def _fetch(self, compiled: CompiledStatement, arguments: Arguments) -> list[Row]:
        return await self._call_driver(_driver_fetch, compiled, [arguments])

    async def _execute(self, compiled: CompiledStatement, arguments: Arguments) -> int:
        return _affected_rows(await self._call_driver(_driver_execute, compiled, [arguments]))

    async def _execute_many(self, compiled: CompiledStatement, rows: Sequence[Arguments]) -> None:
        await self._call_driver(_driver_execute_many, compiled, rows)

    async def _chunks(
        self, compiled: CompiledStatement, arguments: Arguments
    ) -> AsyncGenerator[list[Row]]:
        cursor = await self._call_driver(_open_cursor, compiled, [arguments])
        while rows := await self._call_driver(
            lambda *given: cursor.fetch(STREAM_CHUNK_SIZE, timeout=given[-1]), compiled, [arguments]
        ):
            yield rows

    async def _call_driver(
        self,
        call: AsyncpgCall[T],
        compiled: CompiledStatement,
        argument_rows: Sequence[Arguments],
        is_autocommit: bool = False,
    ) -> T:
        # PostgreSQL refuses every statement after a failure: the first failure is reported.
        if self._failure:
            raise self._failure
        try:
            return await self._database.call_driver(
                call,
                self._driver,
                compiled,
                argument_rows,
                self._budget or current_database_time(),
                is_autocommit=is_autocommit,
            )
        except BaseException as error:
            self._failure = transaction_failure(error)
            raise


def _driver_fetch(
    driver: AsyncpgConnection, sql: str, argument_rows: Sequence[Arguments], timeout: float
) -> Awaitable[list[Row]]:
    rows: Awaitable[list[Row]] = driver.fetch_prepared(sql, argument_rows[0], timeout)
    return rows


def _driver_execute(
    driver: AsyncpgConnection, sql: str, argument_rows: Sequence[Arguments], timeout: float
) -> Awaitable[str]:
    status: Awaitable[str] = driver.execute(sql, *argument_rows[0], timeout=timeout)
    return status


def _driver_execute_many(
    driver: AsyncpgConnection, sql: str, argument_rows: Sequence[Arguments], timeout: float
) -> Awaitable[None]:
    completion: Awaitable[None] = driver.executemany(sql, argument_rows, timeout=timeout)
    return completion


def _open_cursor(
    driver: AsyncpgConnection, sql: str, argument_rows: Sequence[Arguments], timeout: float
) -> Awaitable[Any]:
    cursor: Awaitable[Any] = driver.cursor(sql, *argument_rows[0], timeout=timeout)
    return cursor


def _affected_rows(status: str) -> int:
    """The number at the end of a command tag: "INSERT 0 3" or "UPDATE 3"."""
    return int(status.rpartition(" ")[2]) if status.startswith(ROW_COUNT_COMMANDS) else 0


def _is_alive(driver: AsyncpgConnection) -> bool:
    return not driver.is_closed()


async def _disconnect(driver: AsyncpgConnection) -> None:
    try:
        await driver.close(timeout=RELEASE_TIMEOUT_SECONDS)
    except Exception:
        driver.terminate()
