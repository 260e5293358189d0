"""Upgrade of a database's schema to this version, and the check whether it is up to date.

Only this module uses Alembic and SQLAlchemy's own engine; both are imported when they are needed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url, text

from staffbooking_adapters.sql.engine.open import open_database
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_core.errors import StaffbookingError, StoreUnavailable

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

HEAD_REVISION = "0060"
"""The newest revision in `migrations/versions`.

A change of the schema consists of the field of the domain's class, the column at the same place in
the module of its family in this package, a file with the next number in `migrations/versions`, and
this constant.
"""

_UNUSABLE_FILE_CODES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB}

_UPGRADE_LOCK = threading.Lock()
"""Serializes upgrades within the process, since Alembic's state of a run is global."""

HAS_VERSION_TABLE = Statement(
    postgresql=text("SELECT to_regclass('alembic_version') IS NOT NULL"),
    sqlite=text("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'"),
)
GET_VERSION = Statement(text("SELECT version_num FROM alembic_version"))


class SchemaUpgradeError(StaffbookingError):
    """The migrations cannot run on this database."""

    code = "cannot_upgrade"

    def __init__(self, reason: object) -> None:
        super().__init__(f"the schema can't be brought to version {HEAD_REVISION}: {reason}")


async def run_migrations(url: str) -> None:
    """Run the missing migrations. Several processes may do so at once.

    Raises SchemaUpgradeError, and StoreUnavailable where the database cannot be reached; nothing is
    changed then.
    """
    await asyncio.to_thread(_run_migrations_in_thread, url)


def _run_migrations_in_thread(url: str) -> None:
    from alembic import command
    from alembic.util import CommandError
    from sqlalchemy.exc import DBAPIError

    def run_alembic(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "head")

    with _UPGRADE_LOCK:
        try:
            asyncio.run(run_on_sqlalchemy_connection(url, run_alembic))
        except (CommandError, sqlite3.Error) as error:
            raise _upgrade_error(url, error) from error
        except DBAPIError as error:
            # The driver's message, without SQLAlchemy's text around it.
            reason = getattr(error.orig, "__cause__", None) or error.orig
            raise _upgrade_error(url, reason) from error


def _upgrade_error(url: str, reason: object) -> StaffbookingError:
    if getattr(reason, "sqlite_errorcode", None) in _UNUSABLE_FILE_CODES:
        return StoreUnavailable(f"cannot open {make_url(url).database}: {reason}")
    return SchemaUpgradeError(reason)


async def find_schema_mismatch(url: str) -> str | None:
    """What is wrong with the schema, in one line; None where it is up to date.

    Raises StoreUnavailable where the database cannot be reached.
    """
    found_version = await _find_version(url)
    if found_version is None:
        return "the database has no schema yet: run `staffbooking db upgrade`"
    if found_version > HEAD_REVISION:
        return (
            f"the schema is of version {found_version}, newer than this program's {HEAD_REVISION}"
        )
    if found_version != HEAD_REVISION:
        return (
            f"the schema is of version {found_version}, not {HEAD_REVISION}: "
            "run `staffbooking db upgrade`"
        )
    return None


async def _find_version(url: str) -> str | None:
    if _is_missing_file(url):
        return None
    database = await open_database(url, metadata, pool_size=1)
    try:
        if not await database.fetch_value(HAS_VERSION_TABLE):
            return None
        version: str | None = await database.fetch_value(GET_VERSION)
        return version
    finally:
        await database.close()


def _is_missing_file(url: str) -> bool:
    """Whether opening the database would create its file."""
    address = make_url(url)
    return address.get_backend_name() == "sqlite" and not Path(str(address.database)).is_file()


def alembic_config(connection: Connection) -> Config:
    """Alembic's settings for a run on a connection."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", "staffbooking_adapters.sql:migrations")
    settings.attributes["connection"] = connection
    return settings


async def run_on_sqlalchemy_connection(url: str, work: Any) -> None:
    """Call `work` with a connection of SQLAlchemy's engine, in one transaction."""
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        _run_on_sqlite(url, work)
        return
    from staffbooking_adapters.sql.engine.postgres import connect

    # The service's own way to connect: the same options of the URL, the same errors.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: connect(address), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.run_sync(work)
    finally:
        await engine.dispose()


def _run_on_sqlite(url: str, work: Any) -> None:
    """Without aiosqlite, whose thread would double the time that the migrations take."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    engine = create_engine(make_url(url).set(drivername="sqlite", query={}), poolclass=NullPool)
    event.listen(engine, "connect", _disable_implicit_transactions)
    event.listen(engine, "begin", _begin_immediate)
    with engine.begin() as connection:
        work(connection)


def _disable_implicit_transactions(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout = 10000")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
