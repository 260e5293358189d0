"""Hints between the processes of a database: PostgreSQL's NOTIFY takes them to all others."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.listening import keep_listening
from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_adapters.sql.engine.listen import listen, notify_statement
from staffbooking_core.ports import Hint

if TYPE_CHECKING:
    from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

HINTS_CHANNEL = "staffbooking"

NOTIFY_HINTS = notify_statement(HINTS_CHANNEL)
NOTIFY_INTERVAL_SECONDS = 0.02
"""Seconds between two NOTIFYs: with hundreds of events a second, one NOTIFY for each would cost
as much as writing the event."""
CLOSE_TIMEOUT_SECONDS = 5.0
"""Seconds to wait at the end for the last hints to be sent."""


def create_hints(database: Database) -> LocalHints:
    """Hints to all processes where the database supports them, otherwise within this process."""
    if database.dialect != "postgresql":
        return LocalHints()
    from staffbooking_adapters.sql.engine.postgres import (
        PostgresDatabase,
    )  # imported only where it is used

    assert isinstance(database, PostgresDatabase)
    return PostgresHints(database)


class PostgresHints(LocalHints):
    """Hints that reach this process at once, and the other processes by NOTIFY.

    NOTIFY is sent outside of transactions, since commits with a NOTIFY wait for each other. The
    first wait opens the listening connection; a process that only gives hints has none. While the
    database is unavailable hints are lost; when the connection is back every waiter is woken.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        """`database` should be one whose commits do not wait for the disk. It stays open."""
        super().__init__()
        self._database = database
        self._process_id = secrets.token_hex(8)
        self._unsent: set[Hint] = set()
        self._send_task: asyncio.Task[None] | None = None
        self._listen_task: asyncio.Task[None] | None = None
        self._closed = False

    def give(self, hint: Hint) -> None:
        super().give(hint)
        self._unsent.add(hint)
        if self._send_task is None and not self._closed:
            self._send_task = asyncio.create_task(self._send_hints())

    async def wait(self, hint: Hint, seen_count: int, timeout_seconds: float) -> None:
        if self._listen_task is None and not self._closed:
            listen_for_hints = partial(listen, self._database, HINTS_CHANNEL, self._on_payload)
            self._listen_task = asyncio.create_task(
                keep_listening(listen_for_hints, self._wake_all)
            )
        await super().wait(hint, seen_count, timeout_seconds)

    async def close(self) -> None:
        """Send the pending hints, and close the listening connection."""
        self._closed = True
        if self._send_task is not None:
            await asyncio.wait([self._send_task], timeout=CLOSE_TIMEOUT_SECONDS)
        tasks = [task for task in (self._send_task, self._listen_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_hints(self) -> None:
        try:
            while self._unsent:
                payload = " ".join((self._process_id, *self._unsent))
                self._unsent.clear()
                with suppress(Exception):
                    await self._database.fetch_value(NOTIFY_HINTS, payload=payload)
                await asyncio.sleep(NOTIFY_INTERVAL_SECONDS)
        finally:
            self._send_task = None

    def _wake_all(self) -> None:
        for hint in Hint:
            super().give(hint)

    def _on_payload(self, payload: str) -> None:
        words = payload.split()
        for hint in Hint:
            if hint in words and self._process_id not in words:
                super().give(hint)
