"""Soak tests: no acknowledged message is lost or doubled while servers, connections and clients are
killed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.channel.chat_links import PostgresTransport, RedisTransport
from tests.channel.soak import ChatSoakPlan, assert_delivered, run_soak
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer

pytestmark = pytest.mark.anyio

SHORT = ChatSoakPlan(servers=2, groups=10, messages=1_000, kills=3, timeout_seconds=60.0)
SINGLE = ChatSoakPlan(servers=1, groups=2, messages=150, kills=2, timeout_seconds=60.0)
LONG = ChatSoakPlan(servers=2, groups=10, messages=100_000, kills=100, timeout_seconds=600.0)
OVER_REDIS = ChatSoakPlan(servers=2, groups=10, messages=20_000, kills=20, timeout_seconds=600.0)


async def test_nothing_is_lost_in_a_short_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """1,000 messages over two servers, and 150 over one on SQLite, arrive once and in order despite
    kills of servers, connections and clients."""
    url = await postgres_server.create_database()

    async def run_single() -> None:
        folder = tmp_path / "alone"
        folder.mkdir()
        assert_delivered(
            *await run_soak(f"sqlite+aiosqlite:///{folder}/soak.db", SINGLE, folder), SINGLE
        )

    async with anyio.create_task_group() as both:
        both.start_soon(run_single)
        assert_delivered(*await run_soak(url, SHORT, tmp_path, PostgresTransport(url)), SHORT)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_long_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """100,000 messages over two servers arrive once and in order despite 100 kills."""
    url = await postgres_server.create_database()
    assert_delivered(*await run_soak(url, LONG, tmp_path, PostgresTransport(url)), LONG)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_long_soak_over_redis(
    tmp_path: Path, postgres_server: PostgresServer, redis_server: RedisServer
) -> None:
    """20,000 messages over two servers with notifications over Redis arrive once and in order
    despite 20 kills."""
    url = await postgres_server.create_database()
    more = {"STAFFBOOKING_REDIS_URL": redis_server.url}
    transport = RedisTransport(redis_server)
    assert_delivered(*await run_soak(url, OVER_REDIS, tmp_path, transport, more), OVER_REDIS)
