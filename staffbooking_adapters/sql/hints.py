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
from staffbooking_adapters.sql.engine.listen import listen, telling
from staffbooking_core.ports import Hint

if TYPE_CHECKING:
    from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

CHANNEL = "staffbooking"

TELL = telling(CHANNEL)
PACE = 0.02
"""Seconds between one NOTIFY and the next: where hundreds of events a second are written, each
with its own would cost as much as writing it."""
PATIENCE = 5.0
"""Seconds that the last hints are waited for at the end."""


def hints_of(database: Database) -> LocalHints:
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
        self._name = secrets.token_hex(8)
        self._untold: set[Hint] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._closed = False

    def give(self, hint: Hint) -> None:
        super().give(hint)
        self._untold.add(hint)
        if self._telling is None and not self._closed:
            self._telling = asyncio.create_task(self._tell())

    async def wait(self, hint: Hint, beyond: int, seconds: float) -> None:
        if self._listening is None and not self._closed:
            hear = partial(listen, self._database, CHANNEL, self._hear)
            self._listening = asyncio.create_task(keep_listening(hear, self._wake_all))
        await super().wait(hint, beyond, seconds)

    async def close(self) -> None:
        """Tell what is to be told, and close the connection that listens."""
        self._closed = True
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=PATIENCE)
        tasks = [task for task in (self._telling, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self) -> None:
        try:
            while self._untold:
                payload = " ".join((self._name, *self._untold))
                self._untold.clear()
                with suppress(Exception):
                    await self._database.value(TELL, payload=payload)
                await asyncio.sleep(PACE)
        finally:
            self._telling = None

    def _wake_all(self) -> None:
        for hint in Hint:
            super().give(hint)

    def _hear(self, payload: str) -> None:
        told = payload.split()
        for hint in Hint:
            if hint in told and self._name not in told:
                super().give(hint)
