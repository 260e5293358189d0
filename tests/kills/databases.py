"""The two databases of a run, and their faults as context managers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import asyncpg
from asyncpg.exceptions import DuplicateDatabaseError, InterfaceError, PostgresError

from tests.kills.proxy import Proxy
from tests.support.postgres import PostgresCluster, driver_url, proxied_url

Row: TypeAlias = Mapping[str, Any]

SERVER_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "64MB",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}
"""Unlike in other tests, a commit must survive a crash of the server."""


class SmallDisk:
    """A tmpfs of `size_bytes`, mounted at a folder if this process may mount it."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(folder):
            options = f"size={size_bytes},mode=755"
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
                check=False,
                capture_output=True,
            )
        self.is_mounted = os.path.ismount(folder)
        """If false, the faults of the disk are left out."""

    @contextmanager
    def full(self) -> Iterator[None]:
        """Take all free bytes."""
        filler = self.folder / "filler"
        descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
        try:
            _take_all(descriptor)
            yield
        finally:
            os.close(descriptor)
            filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Refuse all writes. No process may have a file open for writing."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)


def _take_all(descriptor: int) -> None:
    size = 0
    while free := (room := os.fstatvfs(descriptor)).f_bavail * room.f_frsize:
        with suppress(OSError):  # Another process took some of it.
            os.posix_fallocate(descriptor, size, free)
            size += free


def unmount(folder: Path) -> None:
    if os.path.ismount(folder):
        subprocess.run(["umount", "-l", str(folder)], check=True)


class SqliteFile:
    """A file on the small disk."""

    def __init__(self, disk: SmallDisk) -> None:
        self.path = disk.folder / "booking.db"
        self.url = self.service_url = f"sqlite+aiosqlite:///{self.path}"

    async def fetch(self, query: str) -> Sequence[Row]:
        with closing(sqlite3.connect(self.path, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            rows: Sequence[Any] = connection.execute(query).fetchall()
            return rows

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the file's write lock, as a process does that hangs in a transaction."""
        with closing(sqlite3.connect(self.path, timeout=10, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield


class PostgresBehindProxy:
    """A server whose data is on the small disk, behind a proxy for the service's processes."""

    def __init__(self, disk: SmallDisk, cluster: PostgresCluster, name: str, proxy: Proxy) -> None:
        self.disk, self.cluster, self.name, self.proxy = disk, cluster, name, proxy
        self.url = cluster.server.url(name)
        self.service_url = proxied_url(self.url, proxy.port)

    async def fetch(self, query: str) -> Sequence[Row]:
        connection = await asyncpg.connect(driver_url(self.url))
        try:
            rows: Sequence[Row] = await connection.fetch(query)
            return rows
        finally:
            await connection.close()

    async def start(self) -> None:
        """Start the server, and create the database if it is new."""
        await self._until_it_answers(self.cluster.server.maintenance_url)
        try:
            await self.cluster.server.create_database(self.name)
        except DuplicateDatabaseError:
            return

    async def crash(self) -> None:
        await anyio.to_thread.run_sync(self.cluster.stop_immediately)

    async def recover(self) -> None:
        """Start the server, if it does not run."""
        await self._until_it_answers(self.url)

    @asynccontextmanager
    async def hung(self) -> AsyncIterator[None]:
        with self.cluster.server.hung():
            yield

    @asynccontextmanager
    async def read_only(self) -> AsyncIterator[None]:
        await self._set("default_transaction_read_only", "on")
        try:
            yield
        finally:
            await self._set("default_transaction_read_only", "off")

    @asynccontextmanager
    async def disk_full(self) -> AsyncIterator[None]:
        """Fill the disk, then restart PostgreSQL, which stops if it can't write its log."""
        with self.disk.full():
            yield
        await self.recover()

    async def _set(self, setting: str, value: str) -> None:
        connection = await asyncpg.connect(driver_url(self.cluster.server.maintenance_url))
        try:
            await connection.execute(f"ALTER SYSTEM SET {setting} = {value}")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()

    async def _until_it_answers(self, url: str) -> None:
        with anyio.fail_after(60):
            while True:
                try:
                    await (await asyncpg.connect(driver_url(url))).close()
                    return
                except (OSError, PostgresError, InterfaceError):
                    await anyio.to_thread.run_sync(self._try_to_start)

    def _try_to_start(self) -> None:
        try:
            self.cluster.start()
        except subprocess.CalledProcessError:
            return  # It runs and recovers, or the next attempt fails too.
