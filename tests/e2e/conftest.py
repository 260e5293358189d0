"""Databases that processes of the command line have made and filled, copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.e2e.deployment import AGENCY, BOSS, CUSTOMER, PASSWORD, Deployment
from tests.support.postgres import PostgresServer, database_name

PEOPLE = (
    (BOSS, "admin", "none"),
    (CUSTOMER, "customer", "none"),
    (AGENCY, "customer", "enterprise"),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    """The schema and people on each database in turn; no process runs yet."""
    deployment = Deployment(tmp_path, request.getfixturevalue(f"{request.param}_copy"))
    yield deployment
    deployment.close()


@pytest.fixture
def sqlite_copy(filled_file: Path, tmp_path: Path) -> str:
    return _at(shutil.copy(filled_file, tmp_path))


@pytest.fixture
def postgresql_copy(filled_database: str, postgres_server: PostgresServer) -> str:
    return anyio.run(partial(postgres_server.create_database, template=filled_database))


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    file = folder / "booking.db"
    _fill(Deployment(folder, _at(file)))
    return file


@pytest.fixture(scope="session")
def filled_database(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> str:
    """Its name: nobody is connected to it any more."""
    url = anyio.run(postgres_server.create_database)
    _fill(Deployment(tmp_path_factory.mktemp("filled"), url))
    return database_name(url)


def _at(file: Path | str) -> str:
    return f"sqlite+aiosqlite:///{file}"


def _fill(deployment: Deployment) -> None:
    names = ("--first-name", "Grace", "--last-name", "Client", "--password", PASSWORD)
    with closing(deployment):
        deployment.cli("db", "upgrade")
        for email, role, tier in PEOPLE:
            grade = ("--role", role, "--subscription", tier)
            deployment.cli("users", "create", email, *names, *grade)
