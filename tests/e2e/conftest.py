"""Databases with users, copied for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.e2e.deployment import (
    ADMIN_EMAIL,
    AGENCY_EMAIL,
    CUSTOMER_EMAIL,
    PASSWORD,
    ProcessDeployment,
)
from tests.support.migrated_databases import MigratedDatabase
from tests.support.postgres import PostgresServer, database_name

USERS = (
    (ADMIN_EMAIL, "admin", "none"),
    (CUSTOMER_EMAIL, "customer", "none"),
    (AGENCY_EMAIL, "customer", "enterprise"),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessDeployment]:
    """A database with schema and users, of each kind; no process is running."""
    deployment = ProcessDeployment(tmp_path, request.getfixturevalue(f"{request.param}_copy"))
    yield deployment
    deployment.close()


@pytest.fixture
def sqlite_copy(filled_file: Path, tmp_path: Path) -> str:
    return _database_url(shutil.copy(filled_file, tmp_path))


@pytest.fixture
def postgresql_copy(filled_database: str, postgres_server: PostgresServer) -> str:
    return anyio.run(partial(postgres_server.create_database, template=filled_database))


@pytest.fixture(scope="session")
def filled_file(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    file = Path(shutil.copy(migrated_file, folder))
    _create_users(ProcessDeployment(folder, _database_url(file)))
    return file


@pytest.fixture(scope="session")
def filled_database(
    migrated_database: MigratedDatabase,
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The name of a filled database without open connections."""
    url = anyio.run(partial(postgres_server.create_database, template=migrated_database.template))
    _create_users(ProcessDeployment(tmp_path_factory.mktemp("filled"), url))
    return database_name(url)


def _database_url(file: Path | str) -> str:
    return f"sqlite+aiosqlite:///{file}"


def _create_users(deployment: ProcessDeployment) -> None:
    names = ("--first-name", "Grace", "--last-name", "Client", "--password", PASSWORD)
    with closing(deployment):
        for email, role, tier in USERS:
            grade = ("--role", role, "--subscription", tier)
            deployment.run_command("users", "create", email, *names, *grade)
