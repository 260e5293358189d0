"""The stores of a history: in memory, or a SQLite file whose driver has no thread.

A call of the driver runs in the loop, at a moment that the seed decides. A process that dies leaves
its transaction open, which SQLite then rolls back; when the machine dies the files stay as they
are at that moment.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias
from unittest import mock

import aiosqlite
from attrs import define, field

from staffbooking_adapters import database_time
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.sql.engine import sqlite as sqlite_engine
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.sql.store import SqlStore, open_store
from staffbooking_core.policy import Policy
from tests.simulation.plan import Fault
from tests.simulation.world import CURRENT_PROCESS

AnyStore: TypeAlias = MemoryStore | SqlStore

_MEMORY_FOLDER = Path("/dev/shm")
"""Files there are never written to a disk."""
_SUFFIXES = ("", "-wal", "-shm", "-windows", "-windows-wal", "-windows-shm")
_DRIVER_SPEED = 0.1
"""The duration of a call of the driver, relative to calls of other ports."""

_Call: TypeAlias = tuple["asyncio.Future[Any] | None", Callable[[], Any]]


class SharedStore(Protocol):
    """The store that the processes of a history share."""

    has_own_clock: bool
    """Whether the store has a clock that each process compares with its own."""

    async def open(self) -> AnyStore:
        """The store as the running process sees it."""
        ...

    async def lose_power(self, kill_all: Callable[[], None]) -> None:
        """The machine and all processes die; what was committed is still stored after that."""
        ...


class SharedMemory:
    has_own_clock = True

    def __init__(self, policy: Policy) -> None:
        self._store = MemoryStore(policy)

    async def open(self) -> MemoryStore:
        return self._store

    async def lose_power(self, kill_all: Callable[[], None]) -> None:
        kill_all()


@define
class SharedSqlite:
    policy: Policy
    path: Path
    has_own_clock = False
    _outside: list[_Connection] = field(factory=list)
    """The connections of the test itself."""

    _test_store: SqlStore | None = None

    async def open(self) -> SqlStore:
        store = await open_store(f"sqlite+aiosqlite:///{self.path}", self.policy)
        if CURRENT_PROCESS.get() is None:
            self._test_store = store
        return store

    def _is_test_writing(self) -> bool:
        database: Any = None if self._test_store is None else self._test_store.database
        has_writer = database is not None and not database._writer_pool._free_slots
        return has_writer or any(connection.is_busy for connection in self._outside)

    def connect(self, path: Path, **options: Any) -> aiosqlite.Connection:
        """Replaces `aiosqlite.connect`."""
        made = _Connection(partial(sqlite3.connect, path, **options))
        if CURRENT_PROCESS.get() is None:
            self._outside.append(made)
        return made

    async def lose_power(self, kill_all: Callable[[], None]) -> None:
        while self._is_test_writing():  # noqa: ASYNC110 - its end has no event
            await asyncio.sleep(0.001)
        files = {suffix: Path(f"{self.path}{suffix}") for suffix in _SUFFIXES}
        left = {
            suffix: file.read_bytes()
            for suffix, file in files.items()
            if file.exists() and not suffix.endswith("shm")
        }
        kill_all()
        for connection in self._outside:
            connection.die()
        self._outside.clear()
        for suffix, file in files.items():
            file.unlink(missing_ok=True)
            if suffix in left:
                file.write_bytes(left[suffix])


@contextmanager
def open_shared_store(name: str, policy: Policy) -> Iterator[SharedStore]:
    if name == "memory":
        yield SharedMemory(policy)
        return
    folder = Path(mkdtemp(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None))
    try:
        shared = SharedSqlite(policy, folder / "store.db")
        shutil.copy(_migrated_file(), shared.path)
        with mock.patch.object(aiosqlite, "connect", shared.connect), _virtual_database_time():
            yield shared
    finally:
        shutil.rmtree(folder)


@contextmanager
def _virtual_database_time() -> Iterator[None]:
    def now() -> float:
        return asyncio.get_running_loop().time()

    with (
        mock.patch.object(sqlite_engine, "monotonic", now),
        mock.patch.object(sqlite_engine, "BUSY_RETRY_INTERVAL_SECONDS", 0.04),
        mock.patch.object(database_time, "monotonic", now),
    ):
        yield


@cache
def _migrated_file() -> Path:
    """A file with the schema, to be copied."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "store.db"
    asyncio.run(run_migrations(f"sqlite+aiosqlite:///{path}"))
    return path


class _Connection(aiosqlite.Connection):
    """A connection whose calls run in the loop, one after the other."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, 64)
        self._tx: Any = SimpleNamespace(put_nowait=self._put)
        self._thread: Any = SimpleNamespace(start=lambda: None)
        self._waiting: deque[_Call] = deque()
        self._opened: sqlite3.Connection | None = None
        self._is_dead = False
        self._process = CURRENT_PROCESS.get()
        if self._process is not None:
            self._process.at_death.append(self.die)

    def __del__(self) -> None:
        """Warns of no unclosed connection, since its process is dead."""

    @property
    def is_busy(self) -> bool:
        """Whether a call or a transaction is in progress."""
        return bool(self._waiting) or (self._opened is not None and self._opened.in_transaction)

    def die(self) -> None:
        """End like a connection of a dead process: SQLite rolls the open transaction back."""
        self._is_dead = True
        if self._opened is not None:
            self._opened.close()
        self._connection = None

    def _put(self, call: _Call) -> None:
        self._waiting.append(call)
        loop = asyncio.get_running_loop()
        if self._process is None:
            loop.call_soon(self._run_next)
            return
        world = self._process.world
        fault, seconds = world.decide(
            f"{self._process.name} calls the driver", (Fault.CRASH_INSIDE,)
        )
        if fault is not None:
            loop.call_soon(self._process.kill)
        loop.call_later(seconds * _DRIVER_SPEED, self._run_next)

    def _run_next(self) -> None:
        future, function = self._waiting.popleft()
        if self._is_dead:
            if future is not None:
                future.cancel()
            return
        try:
            result = function()
        except Exception as error:
            if future is not None and not future.done():
                future.set_exception(error)
            return
        if isinstance(result, sqlite3.Connection):
            self._opened = result
        if future is not None and not future.done():
            future.set_result(result)
