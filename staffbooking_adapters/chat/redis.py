"""Broadcast transport over Redis PUBLISH and SUBSCRIBE."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from redis.asyncio import Redis

PING_INTERVAL_SECONDS = 30.0
"""Seconds without a message after which the subscribed connection is pinged."""
REPLY_TIMEOUT_SECONDS = 5.0
"""Timeout of every Redis reply, including that to a ping."""
CHECK_TIMEOUT_SECONDS = 3.0
"""Timeout of a check whether the server can be used."""


def channel_name(database_url: str, base_url: str) -> str:
    """The channel of one deployment among those that share a Redis: a digest of the database URL
    without user and password, and of the base URL."""
    parts = urlsplit(database_url)
    path = parts.path
    if parts.scheme.startswith("sqlite"):
        path = str(Path(path[1:]).absolute())
    hosts = parts.netloc.rpartition("@")[2], *parse_qs(parts.query).get("host", ())
    digest = hashlib.sha256("\n".join((*hosts, path, base_url)).encode())
    return f"staffbooking:{digest.hexdigest()[:32]}"


class RedisPubSubTransport:
    """Implements `PubSubTransport` on one Redis channel.

    The client is loaded on first use or by `get_client`: most commands broadcast nothing.
    """

    def __init__(self, url: str, channel: str) -> None:
        self._url = url
        self._channel = channel
        self._client: Redis | None = None

    async def publish(self, payload: bytes) -> None:
        await self.get_client().publish(self._channel, payload)

    async def subscribe(
        self, on_payload: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        async with self.get_client().pubsub() as pubsub:
            await pubsub.subscribe(self._channel)
            is_ping_pending = False
            while not _is_cancelled():
                message = await pubsub.get_message(
                    timeout=REPLY_TIMEOUT_SECONDS if is_ping_pending else PING_INTERVAL_SECONDS
                )
                if message is None and is_ping_pending:
                    raise TimeoutError
                if is_ping_pending := message is None:
                    await pubsub.ping()  # The client's own health checks do not wait for the reply.
                elif message["type"] == "message":
                    on_payload(message["data"])
                elif message["type"] == "subscribe":
                    on_subscribed()  # Repeated if the client reconnects by itself.

        raise asyncio.CancelledError

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def find_problem(self) -> str | None:
        """Why the server can't be used; None if it answers in time. Closes the connection."""
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                await self.get_client().ping()
        except (RedisError, OSError) as error:
            return f"cannot connect: {str(error) or 'no response'}"
        finally:
            await self.close()
        return None

    def get_client(self) -> Redis:
        """The client, created on first use; it connects with its first command."""
        if self._client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            self._client = Redis.from_url(
                self._url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=REPLY_TIMEOUT_SECONDS,
                socket_connect_timeout=REPLY_TIMEOUT_SECONDS,
            )
        return self._client


def _is_cancelled() -> bool:
    """Whether this task was cancelled and the client lost it: its `asyncio.wait_for` does before
    Python 3.12, where its result comes at the same moment."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
