"""Opens a database by its URL; `connection` defines its interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import MetaData, make_url

from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import DurabilityMode

if TYPE_CHECKING:
    from staffbooking_adapters.sql.engine.sqlite import SqliteDatabase

__all__ = ["Connection", "Database", "Row", "Statement", "open_database", "open_sqlite"]


async def open_database(
    url: str, metadata: MetaData, *, pool_size: int = 10, synchronous: DurabilityMode = "FULL"
) -> Database:
    """Open `postgresql+asyncpg://…` or `sqlite+aiosqlite:///PATH` on the running loop.

    PostgreSQL is connected to by the first statement, through at most `pool_size` connections; a
    SQLite file is created at once (StoreUnavailable where it cannot be). `metadata` has the tables,
    which give SQLite's constraints their names. With `synchronous` OFF a power failure may lose the
    last seconds.
    """
    address = make_url(url)
    backend = address.get_backend_name()
    if backend == "postgresql":
        from staffbooking_adapters.sql.engine.postgres import (
            PostgresDatabase,  # imported only where it is used
        )

        return PostgresDatabase(address, pool_size, synchronous)
    if backend == "sqlite" and address.database:
        return await open_sqlite(Path(address.database), metadata, synchronous=synchronous)
    raise ValueError(f"no database of this kind: {backend}")


async def open_sqlite(
    path: Path, metadata: MetaData, *, synchronous: DurabilityMode = "FULL"
) -> SqliteDatabase:
    """Open a SQLite file by its path, like `open_database`."""
    from staffbooking_adapters.sql.engine.sqlite import SqliteDatabase

    return await SqliteDatabase(path, metadata, synchronous).open()
