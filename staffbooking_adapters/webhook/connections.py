"""HTTP/1.1 connections to webhook receivers: bounded reads, and a pool that keeps idle ones for
requests to the same URL."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from staffbooking_adapters.webhook.dialing import MAX_RESPONSE_BYTES
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

KEEPALIVE_SECONDS: Final = 4.0
"""How long an idle connection is kept; receivers often close theirs after 5 seconds."""

STALE_WINDOW_SECONDS: Final = 0.05
"""If a kept connection ends within this time after a request, it counts as closed before the
request: one round trip reveals that, and most receivers are nearer than this. After a later end
the receiver may have read the request."""

MAX_KEPT_CONNECTIONS: Final = 256
"""Connections are not kept alive while more than this many are open."""


class StaleConnection(Exception):
    """A kept connection was already closed when it was reused; this is no failure of the
    receiver."""


class HttpConnection(asyncio.Protocol):
    """One connection, for one request at a time. Reads at most MAX_RESPONSE_BYTES of a response."""

    def __init__(self, open_connections: set[HttpConnection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._open_connections = open_connections
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        # What browsers and most clients accept of old servers.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._request_count = 0
        self._requested_at = 0.0
        self._bytes_read = 0
        self._status: asyncio.Future[int | DeliveryFailure] | None = None
        self._has_head = False
        self._is_complete = True
        """Whether no response is awaited, nor the rest of one."""
        self._is_keepalive = False
        self._body_waiter: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = 0.0

    # Requests -------------------------------------------------------------------------------

    async def post(self, request: bytes, deadline: float) -> int | DeliveryFailure:
        """Send a request: the status of its response as soon as the head is read, or why there is
        none at the loop's time `deadline`. Raises StaleConnection."""
        self._request_count += 1
        self._requested_at = self._loop.time()
        self._bytes_read = 0
        self._has_head = self._is_complete = self._is_keepalive = False
        self._status = self._loop.create_future()
        if self._transport is None or self._transport.is_closing():
            self._fail(DeliveryFailure.CONNECTION_CLOSED)
        else:
            self._transport.write(request)
        # A bare timer: `asyncio.timeout` costs three times as much.
        timer = self._loop.call_at(deadline, self._fail, DeliveryFailure.TIMEOUT)
        try:
            return await self._status
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()

    async def discard_body(self) -> None:
        """Wait for the end of the response, or of the connection."""
        if not self._is_complete:
            self._body_waiter = self._loop.create_future()
            await self._body_waiter

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    @property
    def is_reusable(self) -> bool:
        return (
            self._is_complete
            and self._is_keepalive
            and self._transport is not None
            and not self._transport.is_closing()
            # A receiver that answers before it has read the request may never read the rest.
            and not self._transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        """Close at once: a graceful close would wait without limit for a receiver that reads
        nothing."""
        if self._transport is not None:
            self._transport.abort()

    # Calls of the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open_connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._fail(DeliveryFailure.CONNECTION_CLOSED)
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._is_complete:  # Nothing was requested.
            self.abort()
            return
        allowed = data[: MAX_RESPONSE_BYTES - self._bytes_read]
        self._bytes_read += len(data)
        try:
            self._parse(allowed)
        except HttpParserUpgrade:
            self._is_keepalive = False
        except HttpParserError:
            self._fail(DeliveryFailure.MALFORMED_RESPONSE)
        if self._bytes_read > MAX_RESPONSE_BYTES:
            self._fail(DeliveryFailure.MALFORMED_RESPONSE)

    def _parse(self, data: bytes) -> None:
        text, nul, rest = data.partition(b"\0")
        self._parser.feed_data(text)
        if nul:
            self._parse_from_nul(nul + rest)

    def _parse_from_nul(self, data: bytes) -> None:
        # The parser lets NUL pass in headers; in a body it is valid.
        if not self._has_head:
            raise HttpParserError("NUL in the head")
        self._parser.feed_data(data)

    def _fail(self, failure: DeliveryFailure) -> None:
        """End the response, if one is awaited, and the connection."""
        if self._status is not None and not self._status.done():
            at_once = self._loop.time() - self._requested_at < STALE_WINDOW_SECONDS
            if self._request_count > 1 and at_once and not self._bytes_read:
                self._status.set_exception(StaleConnection())
            else:
                self._status.set_result(failure)
        self._is_keepalive = False
        self._complete()
        self.abort()

    def _complete(self) -> None:
        self._is_complete = True
        if self._body_waiter is not None and not self._body_waiter.done():
            self._body_waiter.set_result(None)

    # Calls of the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_complete:  # More than one response: nothing that follows is reliable.
            self._is_keepalive = False

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        is_interim = 100 <= status < 200 and status != 101
        if self._has_head or is_interim:
            return
        self._has_head = True
        if self._status is not None and not self._status.done():
            self._status.set_result(status)

    def on_message_complete(self) -> None:
        if self._has_head and not self._is_complete:
            self._is_keepalive = self._parser.should_keep_alive()
            self._complete()


class ConnectionPool:
    """Idle connections by the URL that they were made for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: set[HttpConnection] = set()
        self._idle: dict[str, list[HttpConnection]] = {}
        """The connection that became idle last is the last one, and reused first."""
        self._expiry: asyncio.TimerHandle | None = None

    def create_connection(self) -> HttpConnection:
        """A connection that counts as open from when it is made until it is lost."""
        return HttpConnection(self._open)

    def acquire(self, url: str) -> HttpConnection | None:
        """An idle connection for a URL, if there is one."""
        idle = self._idle.get(url)
        while idle:
            connection = idle.pop()
            if connection.is_reusable and not self._is_expired(connection):
                return connection
            connection.abort()
        return None

    def release(self, url: str, connection: HttpConnection) -> None:
        """Keep a connection whose response was read to its end; close any other."""
        if not connection.is_reusable or len(self._open) > MAX_KEPT_CONNECTIONS:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.setdefault(url, []).append(connection)
        if self._expiry is None:
            self._expiry = self._loop.call_later(KEEPALIVE_SECONDS, self._close_expired)

    async def close(self) -> None:
        """Close all connections, idle or not."""
        if self._expiry is not None:
            self._expiry.cancel()
        for connection in self._open:
            connection.abort()
        await asyncio.gather(*(connection.closed for connection in self._open))

    def _is_expired(self, connection: HttpConnection) -> bool:
        return self._loop.time() - connection.idle_since >= KEEPALIVE_SECONDS

    def _close_expired(self) -> None:
        kept: dict[str, list[HttpConnection]] = {}
        for url, idle in self._idle.items():
            for connection in idle:
                if connection.is_reusable and not self._is_expired(connection):
                    kept.setdefault(url, []).append(connection)
                else:
                    connection.abort()
        self._idle, self._expiry = kept, None
        if kept:
            oldest = min(idle[0].idle_since for idle in kept.values())
            self._expiry = self._loop.call_at(oldest + KEEPALIVE_SECONDS, self._close_expired)
