"""The wire between processes that PostgreSQL's notifications are."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url

from staffbooking_adapters.sql.engine.listen import listen, telling
from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

CHANNEL = "staffbooking_chat"

TELL = telling(CHANNEL)


class PostgresWire:
    """Takes word to whoever hears it on the same database (`chat.shared.Wire`).

    It tells outside of any transaction and on a connection of its own, so that it waits for
    nobody and nobody for it; who only tells has none to hear.
    """

    def __init__(self, url: str) -> None:
        """`url` is the database's address; nothing is opened before the first use."""
        self._database = PostgresDatabase(make_url(url), pool_size=1, synchronous="OFF")

    async def tell(self, payload: bytes) -> None:
        await self._database.value(TELL, payload=payload.decode())

    async def hear(self, heard: Callable[[str], None], began: Callable[[], None]) -> None:
        await listen(self._database, CHANNEL, heard, began)

    async def close(self) -> None:
        await self._database.close()
