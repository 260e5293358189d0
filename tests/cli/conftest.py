"""Fixtures: an in-memory deployment for each test instead of the environment's, and databases."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from staffbooking_adapters import wiring
from tests.cli.deployment import CliDeployment
from tests.cli.processes import make_environment
from tests.support.migrated_databases import MigratedDatabase
from tests.support.postgres import PostgresServer, database_name


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restores the root logger, which long-running commands configure."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> CliDeployment:
    for name in [name for name in os.environ if name.startswith("STAFFBOOKING_")]:
        monkeypatch.delenv(name)
    made = CliDeployment()
    monkeypatch.setattr(wiring, "open_ports", made.open_ports)
    monkeypatch.setattr(wiring, "find_schema_problem", made.find_schema_problem)
    monkeypatch.setattr(wiring, "upgrade_schema", made.upgrade_schema)
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A separate database for each test, without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/test.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = anyio.run(server.create_database)
    yield url
    anyio.run(server.drop_database, database_name(url))


@pytest.fixture
def env(migrated_file: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a separate database with the schema."""
    file = shutil.copy(migrated_file, tmp_path)
    return make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{file}")


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A separate database for each test, with the schema."""
    if request.param == "sqlite":
        file = shutil.copy(request.getfixturevalue("migrated_file"), tmp_path)
        yield f"sqlite+aiosqlite:///{file}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    url = anyio.run(server.create_database, None, migrated.template)
    yield url
    anyio.run(server.drop_database, database_name(url))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a companion file to import; its name has no extension."""
    return tmp_path / "companions"
