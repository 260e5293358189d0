"""Fixtures: an in-memory deployment for each test instead of the environment's, and databases."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from staffbooking_adapters import wiring
from tests.cli.deployment import CliDeployment
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
def file(tmp_path: Path) -> Path:
    """The path of a companion file to import; its name has no extension."""
    return tmp_path / "companions"
