"""PostgreSQL's notifications: a statement that tells, and a connection that hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import String, bindparam, func, literal, select

from staffbooking_adapters.sql.engine.statements import Statement

if TYPE_CHECKING:
    from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

PULSE = 30.0
"""Seconds of silence after which the listening connection is tried."""
PATIENCE = 5.0
"""Seconds that it may take to answer."""


def telling(channel: str) -> Statement:
    """Tells all that listen to a channel of a `payload`: text of less than 8,000 bytes."""
    return Statement(select(func.pg_notify(literal(channel), bindparam("payload", type_=String))))


async def listen(
    database: PostgresDatabase,
    channel: str,
    heard: Callable[[str], None],
    began: Callable[[], None],
) -> None:
    """Listen on a connection of its own until it breaks; `began` is called once it hears."""
    async with database.apart() as connection:
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        await connection.add_listener(channel, lambda *given: heard(given[-1]))
        began()
        while not broken.is_set():
            try:
                async with asyncio.timeout(PULSE):
                    await broken.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=PATIENCE)
