"""A deployment for each test, in place of the one that the environment names, and databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from staffbooking_adapters import wiring
from tests.cli.deployment import CliDeployment
from tests.support.postgres import PostgresServer, database_name


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
    """A database of its own for each test, still without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path}/test.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = anyio.run(server.create_database)
    yield url
    anyio.run(server.drop_database, database_name(url))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where companions to be imported are written; the name has no ending."""
    return tmp_path / "companions"
