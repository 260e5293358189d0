"""The wire between processes that PostgreSQL's notifications are."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url

from staffbooking_adapters.sql.engine.listen import listen, notify_statement
from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

CHAT_CHANNEL = "staffbooking_chat"

NOTIFY_CHAT = notify_statement(CHAT_CHANNEL)


class PostgresPubSubTransport:
    """Takes word to whoever hears it on the same database (`chat.shared.Wire`).

    It tells outside of any transaction and on a connection of its own, so that it waits for
    nobody and nobody for it; who only tells has none to hear.
    """

    def __init__(self, url: str) -> None:
        """`url` is the database's address; nothing is opened before the first use."""
        self._database = PostgresDatabase(make_url(url), pool_size=1, synchronous="OFF")

    async def publish(self, payload: bytes) -> None:
        await self._database.fetch_value(NOTIFY_CHAT, payload=payload.decode())

    async def subscribe(
        self, on_payload: Callable[[str], None], on_subscribed: Callable[[], None]
    ) -> None:
        await listen(self._database, CHAT_CHANNEL, on_payload, on_subscribed)

    async def close(self) -> None:
        await self._database.close()
