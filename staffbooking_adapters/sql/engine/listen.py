"""PostgreSQL notifications: the NOTIFY statement and the listening connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import String, bindparam, func, literal, select

from staffbooking_adapters.sql.engine.statements import Statement

if TYPE_CHECKING:
    from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

HEARTBEAT_INTERVAL_SECONDS = 30.0
"""Seconds between heartbeat queries on the listening connection."""
HEARTBEAT_TIMEOUT_SECONDS = 5.0
"""Timeout of the heartbeat query, in seconds."""


def notify_statement(channel: str) -> Statement:
    """Notifies a channel's listeners; the parameter `payload` is text under 8,000 bytes."""
    return Statement(select(func.pg_notify(literal(channel), bindparam("payload", type_=String))))


async def listen(
    database: PostgresDatabase,
    channel: str,
    on_payload: Callable[[str], None],
    on_listening: Callable[[], None],
) -> None:
    """Listen on a dedicated connection until it breaks; call `on_listening` once it listens."""
    async with database.dedicated_connection() as connection:
        disconnected = asyncio.Event()
        connection.add_termination_listener(lambda _: disconnected.set())
        await connection.add_listener(channel, lambda *given: on_payload(given[-1]))
        on_listening()
        while not disconnected.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_INTERVAL_SECONDS):
                    await disconnected.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=HEARTBEAT_TIMEOUT_SECONDS)
