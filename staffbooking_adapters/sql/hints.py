"""Hints between the processes of a database: PostgreSQL's NOTIFY takes them to all others."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, bindparam, func, literal, select

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.sql.connection import Database
from staffbooking_adapters.sql.statements import Statement
from staffbooking_core.ports import Hint

if TYPE_CHECKING:
    from staffbooking_adapters.sql.postgres import Driver, PostgresDatabase

CHANNEL = "staffbooking"

TELL = Statement(select(func.pg_notify(literal(CHANNEL), bindparam("payload", type_=String))))
PACE = 0.02
"""Seconds between one NOTIFY and the next: where hundreds of events a second are written, each
with its own would cost as much as writing it."""
PULSE = 30.0
"""Seconds of silence after which the listening connection is tried."""
PATIENCE = 5.0
"""Seconds that it may take to answer, and that the last hints are waited for at the end."""
PAUSES = (0.1, 1.0, 5.0)
"""Seconds before each next try to connect; the last stands for all that follow."""


def hints_of(database: Database) -> LocalHints:
    """Hints to all processes where the database can carry them, else within this one."""
    if database.dialect != "postgresql":
        return LocalHints()
    from staffbooking_adapters.sql.postgres import PostgresDatabase  # an import to be spared

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
        self._failures = 0
        """So often in a row nobody could be listened to."""
        self._closed = False

    def give(self, hint: Hint) -> None:
        super().give(hint)
        self._untold.add(hint)
        if self._telling is None and not self._closed:
            self._telling = asyncio.create_task(self._tell())

    async def wait(self, hint: Hint, beyond: int, seconds: float) -> None:
        if self._listening is None and not self._closed:
            self._listening = asyncio.create_task(self._listen())
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

    async def _listen(self) -> None:
        while True:
            with suppress(Exception):
                async with self._database.apart() as connection:
                    await self._stay(connection)
            await asyncio.sleep(PAUSES[min(self._failures, len(PAUSES) - 1)])
            self._failures += 1

    async def _stay(self, connection: Driver) -> None:
        """Listen until the connection breaks."""
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        await connection.add_listener(CHANNEL, self._hear)
        self._failures = 0
        for hint in Hint:
            super().give(hint)  # One may have been missed before.
        while not broken.is_set():
            try:
                async with asyncio.timeout(PULSE):
                    await broken.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=PATIENCE)

    def _hear(self, _connection: Driver, _pid: int, _channel: str, payload: Any) -> None:
        name, *told = payload.split()
        for hint in Hint:
            if hint in told and name != self._name:
                super().give(hint)
