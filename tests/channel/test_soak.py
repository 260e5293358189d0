"""Nothing acknowledged is lost or doubled, whoever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.channel.chat_links import PostgresTransport, RedisTransport
from tests.channel.soak import ChatSoakPlan, assert_delivered, run_soak
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer

pytestmark = pytest.mark.anyio

SHORT = ChatSoakPlan(servers=2, groups=10, messages=2_000, kills=5, timeout_seconds=60.0)
SINGLE = ChatSoakPlan(servers=1, groups=2, messages=300, kills=3, timeout_seconds=60.0)
LONG = ChatSoakPlan(servers=2, groups=10, messages=100_000, kills=100, timeout_seconds=600.0)
OVER_REDIS = ChatSoakPlan(servers=2, groups=10, messages=20_000, kills=20, timeout_seconds=600.0)


async def test_nothing_is_lost_in_a_short_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """2,000 messages of 50 clients reach everybody once and in order over two servers, though
    servers, listening connections and clients are killed five times; and 300 over one server
    on SQLite, which is killed too."""
    url = await postgres_server.create_database()

    async def alone() -> None:
        folder = tmp_path / "alone"
        folder.mkdir()
        assert_delivered(
            *await run_soak(f"sqlite+aiosqlite:///{folder}/soak.db", SINGLE, folder), SINGLE
        )

    async with anyio.create_task_group() as both:
        both.start_soon(alone)
        assert_delivered(*await run_soak(url, SHORT, tmp_path, PostgresTransport(url)), SHORT)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_long_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """100,000 messages of 50 clients reach everybody once and in order over two servers, though
    a hundred times a server, the listening connections or a client are killed."""
    url = await postgres_server.create_database()
    assert_delivered(*await run_soak(url, LONG, tmp_path, PostgresTransport(url)), LONG)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_long_soak_over_redis(
    tmp_path: Path, postgres_server: PostgresServer, redis_server: RedisServer
) -> None:
    """20,000 messages of 50 clients reach everybody once and in order over two servers that
    notify each other over Redis, though twenty times one of them, what they hear by, or a
    client is killed."""
    url = await postgres_server.create_database()
    more = {"STAFFBOOKING_REDIS_URL": redis_server.url}
    place = RedisTransport(redis_server)
    assert_delivered(*await run_soak(url, OVER_REDIS, tmp_path, place, more), OVER_REDIS)
