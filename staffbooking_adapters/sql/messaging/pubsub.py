"""Publish/subscribe between processes with PostgreSQL's NOTIFY and LISTEN."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import make_url

from staffbooking_adapters.sql.engine.listen import listen, notify_statement
from staffbooking_adapters.sql.engine.postgres import PostgresDatabase

CHAT_CHANNEL = "staffbooking_chat"

NOTIFY_CHAT = notify_statement(CHAT_CHANNEL)


class PostgresPubSubTransport:
    """Publishes payloads to all subscribers of the database (a `PubSubTransport`).

    Payloads are sent outside of any transaction, on a separate connection, so that NOTIFY and
    transactions do not wait for each other. A process that only publishes does not listen.
    """

    def __init__(self, url: str) -> None:
        """`url` is the database's URL; connections are opened on first use."""
        self._database = PostgresDatabase(make_url(url), pool_size=1, synchronous="OFF")

    async def publish(self, payload: bytes) -> None:
        await self._database.fetch_value(NOTIFY_CHAT, payload=payload.decode())

    async def subscribe(
        self, on_payload: Callable[[str], None], on_subscribed: Callable[[], None]
    ) -> None:
        await listen(self._database, CHAT_CHANNEL, on_payload, on_subscribed)

    async def close(self) -> None:
        await self._database.close()
