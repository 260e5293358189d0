"""The interface of a database: it runs statements and returns rows.

On both databases every method raises errors of `staffbooking_core.errors`: `ConstraintViolated`
with the constraint's name, `StoreUnavailable` when the database cannot be reached or timed out,
`InvalidField` naming a parameter that cannot be stored.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    nullcontext,
)
from typing import Any, ClassVar, TypeVar

from anyio import CancelScope

from staffbooking_adapters.database_time import DatabaseTime, current_database_time
from staffbooking_adapters.sql.engine.errors import RetryableTransactionError
from staffbooking_adapters.sql.engine.statements import Arguments, CompiledStatement, Row, Statement
from staffbooking_adapters.sql.engine.types import Dialect
from staffbooking_core.errors import Conflict, StoreUnavailable

T = TypeVar("T")

STREAM_CHUNK_SIZE = 500
"""Number of rows of a stream that are in memory at a time."""

MAX_TRANSACTION_ATTEMPTS = 5
"""Maximum number of attempts of a transaction that must be retried."""


class Connection(ABC):
    """Runs statements, either inside one transaction or each in its own."""

    dialect: ClassVar[Dialect]

    async def fetch_all(self, statement: Statement, /, **params: Any) -> list[Row]:
        """All rows of the result, in its order."""
        compiled = statement.compile_for(self.dialect)
        return await self._fetch(compiled, compiled.to_arguments(params))

    async def fetch_one(self, statement: Statement, /, **params: Any) -> Row | None:
        """The first row; None without one."""
        compiled = statement.compile_for(self.dialect)
        rows = await self._fetch(compiled, compiled.to_arguments(params))
        return rows[0] if rows else None

    async def fetch_value(self, statement: Statement, /, **params: Any) -> Any:
        """The first column of the first row, or None without a row."""
        compiled = statement.compile_for(self.dialect)
        rows = await self._fetch(compiled, compiled.to_arguments(params))
        return rows[0][0] if rows else None

    async def execute(self, statement: Statement, /, **params: Any) -> int:
        """The number of rows that an INSERT, UPDATE or DELETE touched; 0 for other statements."""
        compiled = statement.compile_for(self.dialect)
        if not compiled.sql:
            return 0
        return await self._execute(compiled, compiled.to_arguments(params))

    async def execute_many(
        self, statement: Statement, rows: Sequence[Mapping[str, Any]], /
    ) -> None:
        """Run the statement once per row, for all rows or for none."""
        compiled = statement.compile_for(self.dialect)
        if rows:
            await self._execute_many(compiled, [compiled.to_arguments(row) for row in rows])

    async def stream(self, statement: Statement, /, **params: Any) -> AsyncGenerator[Row]:
        """Yield the rows of one snapshot in chunks, for results that do not fit into memory.

        Holds a connection until the stream is exhausted or closed (`contextlib.aclosing`).
        """
        compiled = statement.compile_for(self.dialect)
        async with aclosing(self._chunks(compiled, compiled.to_arguments(params))) as chunks:
            async for rows in chunks:
                for row in rows:
                    yield row

    @abstractmethod
    def _fetch(self, compiled: CompiledStatement, arguments: Arguments) -> Awaitable[list[Row]]: ...

    @abstractmethod
    async def _execute(self, compiled: CompiledStatement, arguments: Arguments) -> int: ...

    @abstractmethod
    async def _execute_many(
        self, compiled: CompiledStatement, rows: Sequence[Arguments]
    ) -> None: ...

    @abstractmethod
    def _chunks(
        self, compiled: CompiledStatement, arguments: Arguments
    ) -> AsyncGenerator[list[Row]]: ...


class Database(Connection):
    """An open database, kept for the lifetime of the process.

    Used as a connection, it runs each statement in its own transaction: one round trip, committed
    when it returns. Several statements of one transaction go through `run_transaction`.
    """

    round_trips: int = 0
    """Number of calls of the driver, for measurements."""

    async def run_transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in one transaction and commit it; any error or cancellation undoes it.

        `work` runs again, at most `MAX_TRANSACTION_ATTEMPTS` times in all, if it raised `Conflict`,
        if the database rolled it back (deadlock), or if the connection was lost before the end.
        A lost answer to COMMIT raises `StoreUnavailable`: the transaction may or may not be
        committed. After a failed statement nothing can be committed: its error is raised, even
        if `work` swallowed it.
        """

        budget = current_database_time()

        async def attempt() -> T:
            async with self._transaction(budget) as transaction:
                return await work(transaction)

        return await run_with_retries(attempt)

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Connection], Awaitable[T]]
    ) -> AsyncIterator[tuple[T, Connection]]:
        """Run `work` as `run_transaction` does, but commit at the end of the context, which has the
        result and the transaction; an error or a cancellation in the context undoes everything."""
        budget = current_database_time()
        async with AsyncExitStack() as stack:

            async def attempt() -> tuple[T, Connection]:
                async with AsyncExitStack() as attempt_stack:
                    transaction = await attempt_stack.enter_async_context(self._transaction(budget))
                    result = await work(transaction)
                    stack.push_async_exit(attempt_stack.pop_all())
                return result, transaction

            yield await run_with_retries(attempt)

    @abstractmethod
    def _transaction(self, budget: DatabaseTime) -> AbstractAsyncContextManager[Connection]:
        """One attempt of a transaction within the budget: committed at the end of the context,
        undone by an error or a cancellation. The connection cannot be used after that."""

    def filling(self) -> AbstractAsyncContextManager[None]:
        """A time in which the caller alone uses the database, to fill it. SQLite runs each
        statement in the event loop's thread, and a commit does not wait for the disk: a power
        failure may lose the last of what was filled in. On PostgreSQL nothing differs."""
        return nullcontext()

    @abstractmethod
    async def close(self) -> None:
        """Wait a short time for running statements, and close every connection."""


async def run_with_retries(operation: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run a transaction until it succeeds, `MAX_TRANSACTION_ATTEMPTS` times at most."""
    for _ in range(MAX_TRANSACTION_ATTEMPTS - 1):
        try:
            return await operation(*arguments)
        except (RetryableTransactionError, Conflict):
            continue
    return await operation(*arguments)


def transaction_failure(error: BaseException) -> Exception:
    """The error that ends a transaction, if any. A cancelled statement may have been executed or
    not, and its cancellation may have been swallowed (`asyncio.timeout`)."""
    return error if isinstance(error, Exception) else StoreUnavailable("a statement was cancelled")


async def await_uninterrupted(work: Awaitable[object]) -> None:
    """Await `work` to its end, and raise a cancellation only after that."""
    task = asyncio.ensure_future(work)
    cancellation = None
    with CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancellation = error
    if cancellation:
        raise cancellation
    task.result()
