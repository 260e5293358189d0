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
"""Seconds between one NOTIFY and the next: where hundreds of events a second are written, each
with its own would cost as much as writing it."""
CLOSE_TIMEOUT_SECONDS = 5.0
"""Seconds that the last hints are waited for at the end."""


def create_hints(database: Database) -> LocalHints:
    """Hints to all processes where the database can carry them, else within this one."""
    if database.dialect != "postgresql":
        return LocalHints()
    from staffbooking_adapters.sql.engine.postgres import PostgresDatabase  # an import to be spared

    assert isinstance(database, PostgresDatabase)
    return PostgresHints(database)


class PostgresHints(LocalHints):
    """Hints given here are heard here at once, and told to the other processes.

    They are told outside of any transaction: NOTIFY's commits wait for each other. Who only
    gives hints has no connection to listen; the first to wait opens it. Where the database is
    out of reach hints are lost, and once it is heard again everybody is woken.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        """`database` is best one that doesn't wait for the disk. It is closed after this."""
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
        """Tell what is to be told, and close the connection that listens."""
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
