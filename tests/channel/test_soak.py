"""Nothing acknowledged is lost or doubled, whoever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.channel.soak import Plan, judge, soak
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.anyio

SHORT = Plan(servers=2, groups=10, messages=2_000, kills=5, pause=2.0, patience=60.0)
SINGLE = Plan(servers=1, groups=2, messages=300, kills=3, pause=3.0, patience=60.0)
LONG = Plan(servers=2, groups=10, messages=100_000, kills=100, pause=4.0, patience=3600.0)


async def test_nothing_is_lost_in_a_short_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """2,000 messages of 50 clients reach everybody once and in order over two servers, though
    servers, listening connections and clients are killed five times; and 300 over one server
    on SQLite, which is killed too."""
    urls = {
        "sqlite": f"sqlite+aiosqlite:///{tmp_path}/soak.db",
        "postgresql": await postgres_server.create_database(),
    }

    async def on(name: str, plan: Plan) -> None:
        folder = tmp_path / name
        folder.mkdir()
        judge(*await soak(urls[name], plan, folder), plan)

    async with anyio.create_task_group() as both:
        both.start_soon(on, "sqlite", SINGLE)
        both.start_soon(on, "postgresql", SHORT)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_long_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """100,000 messages of 50 clients reach everybody once and in order over two servers, though
    a hundred times a server, the listening connections or a client are killed."""
    url = await postgres_server.create_database()
    judge(*await soak(url, LONG, tmp_path), LONG)
