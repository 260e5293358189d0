"""The wire between processes that Redis's PUBLISH and SUBSCRIBE are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from redis.asyncio import Redis

PULSE = 30.0
"""Seconds of silence after which the listening connection is tried."""
PATIENCE = 5.0
"""Seconds that it may take to answer, as may anything else that Redis is asked."""


def channel_of(database_url: str, base_url: str) -> str:
    """The channel of one deployment among those that share a Redis: its processes name the same
    database and the same base URL. A digest, of which users and passwords are no part."""
    parts = urlsplit(database_url)
    path = parts.path
    if parts.scheme.startswith("sqlite"):
        path = str(Path(path[1:]).absolute())
    hosts = parts.netloc.rpartition("@")[2], *parse_qs(parts.query).get("host", ())
    digest = hashlib.sha256("\n".join((*hosts, path, base_url)).encode())
    return f"staffbooking:{digest.hexdigest()[:32]}"


class RedisWire:
    """Takes word to whoever hears it on the same channel (`chat.shared.Wire`).

    The client is loaded by the first use, or by `open`: most commands tell nothing.
    """

    def __init__(self, url: str, channel: str) -> None:
        self._url = url
        self._channel = channel
        self._opened: Redis | None = None

    async def tell(self, payload: bytes) -> None:
        await self.open().publish(self._channel, payload)

    async def hear(self, heard: Callable[[bytes], None], began: Callable[[], None]) -> None:
        async with self.open().pubsub() as line:
            await line.subscribe(self._channel)
            asked = False
            while True:
                message = await line.get_message(timeout=PATIENCE if asked else PULSE)
                if message is None and asked:
                    raise TimeoutError
                if asked := message is None:
                    await line.ping()  # The client's own checks don't wait for the answer.
                elif message["type"] == "message":
                    heard(message["data"])
                elif message["type"] == "subscribe":
                    began()  # The client may have connected anew by itself.

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()

    def open(self) -> Redis:
        """The client, loaded where it was not yet; it connects as it is used."""
        if self._opened is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            self._opened = Redis.from_url(
                self._url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=PATIENCE,
                socket_connect_timeout=PATIENCE,
            )
        return self._opened
