"""A connection to SQLite without a thread of its own: the caller waits while a statement runs.

Half of a short statement's time are the two changes of thread. A server must change threads, since
others would wait too; a process that only fills its database need not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from staffbooking_adapters.sql.engine.statements import Arguments


class DirectCursor:
    """What is used of aiosqlite's cursor."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    async def fetchmany(self, size: int) -> list[Any]:
        return self._cursor.fetchmany(size)

    async def close(self) -> None:
        self._cursor.close()


class DirectConnection:
    """What is used of aiosqlite's connection."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._path, self._options = path, options
        self._connection: sqlite3.Connection | None = None

    def __await__(self) -> Generator[Any, None, DirectConnection]:
        return self._connect().__await__()

    async def _connect(self) -> DirectConnection:
        self._connection = sqlite3.connect(self._path, **self._options)
        return self

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError("no active connection")
        return self._connection

    @property
    def in_transaction(self) -> bool:
        return self._open.in_transaction

    async def execute(self, sql: str, arguments: Arguments = ()) -> DirectCursor:
        return DirectCursor(self._open.execute(sql, arguments))

    async def execute_fetchall(self, sql: str, arguments: Arguments = ()) -> list[Any]:
        return self._open.execute(sql, arguments).fetchall()

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> DirectCursor:
        return DirectCursor(self._open.executemany(sql, rows))

    async def rollback(self) -> None:
        self._open.rollback()

    async def interrupt(self) -> None:
        """Nothing: no statement runs while somebody can call this."""

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
