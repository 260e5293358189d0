"""Connections to webhook receivers and calendars: to checked addresses only, with bounded reads,
kept alive for requests to the same URL."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace

from staffbooking_adapters.webhook.gate import AddressGuard, ConnectionNotMade
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

CONNECT_TIMEOUT_SECONDS: Final = 3.0
"""Timeout of the TCP connect to one address, without the TLS handshake."""

_KEEPALIVE_SECONDS: Final = 4.0
"""How long an idle connection is kept; receivers often close theirs after 5 seconds."""

STALE_WINDOW_SECONDS: Final = 0.05
"""If a kept connection ends within this time after a request, it counts as closed before the
request: one round trip reveals that, and most receivers are nearer than this. After a later end
the receiver may have read the request."""

MAX_KEPT_CONNECTIONS: Final = 256
"""Connections are not kept alive while more than this many are open."""

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Maximum bytes read of one response, including its headers."""


class StaleConnection(Exception):
    """A kept connection was already closed when it was reused; this is no failure of the
    receiver."""


class BoundedResponseHandler(ResponseHandler):
    """One connection: reads at most `max_response_bytes` per response and closes immediately."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_connections: set[BoundedResponseHandler],
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        super().__init__(loop)
        self._max_response_bytes = max_response_bytes
        self._open_connections = open_connections
        self._request_count = 0
        self._requested_at = 0.0
        self._bytes_read = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open_connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open_connections.discard(self)
        super().connection_lost(exc)

    def set_response_params(self, **params: Any) -> None:
        self._request_count += 1
        self._requested_at = self._loop.time()
        self._bytes_read = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        free_bytes = max(0, self._max_response_bytes - self._bytes_read)
        self._bytes_read += len(data)
        # The headers are parsed separately, so that an invalid body does not discard them.
        head, end, rest = data[:free_bytes].partition(b"\r\n\r\n")
        super().data_received(head + end)
        if rest:
            super().data_received(rest)
        if self._bytes_read > self._max_response_bytes and self.transport is not None:
            self.set_exception(HttpProcessingError(code=400, message="too long"))
            self.transport.abort()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        at_once = self._loop.time() - self._requested_at < STALE_WINDOW_SECONDS
        if self._request_count > 1 and at_once and not self._bytes_read:
            super().set_exception(StaleConnection())
        else:
            super().set_exception(exc, *cause)

    @property
    def should_close(self) -> bool:
        return super().should_close or len(self._open_connections) > MAX_KEPT_CONNECTIONS

    def is_connected(self) -> bool:
        # A kept connection that received unsolicited data is not reused.
        return super().is_connected() and not super().should_close

    def close(self) -> None:
        # A graceful close would wait without limit for a receiver that reads nothing.
        self.abort()


class UrlKeyedRequest(aiohttp.ClientRequest):
    """A request whose connection is reused only for the same URL."""

    @property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key._replace(proxy_headers_hash=hash(self.url))


class GuardedConnector(aiohttp.BaseConnector):
    """Connects only to addresses that the guard allows. With `is_keepalive` connections are
    reused."""

    def __init__(
        self,
        guard: AddressGuard,
        tls: ssl.SSLContext,
        open_connections: set[BoundedResponseHandler],
        *,
        is_keepalive: bool,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        # No limit: the dispatcher bounds concurrency, and waiting here would use up the timeout.
        if is_keepalive:
            super().__init__(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS)
        else:
            super().__init__(limit=0, force_close=True)
        self._guard = guard
        self._tls = tls
        self._open_connections = open_connections
        self._max_response_bytes = max_response_bytes

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - required by the base class
    ) -> BoundedResponseHandler:
        host, port = req.url.raw_host, req.url.port
        assert host is not None
        assert port is not None
        connected_socket = await self._connect_first(
            await self._guard.resolve_safe_addresses(host), port
        )
        secure = req.is_ssl()
        try:
            _, handler = await self._loop.create_connection(
                lambda: BoundedResponseHandler(
                    self._loop, self._open_connections, self._max_response_bytes
                ),
                sock=connected_socket,
                ssl=self._tls if secure else None,
                server_hostname=host if secure else None,
            )
        except ssl.SSLError:
            raise ConnectionNotMade(DeliveryFailure.TLS_FAILED) from None
        except OSError:
            raise ConnectionNotMade(DeliveryFailure.CONNECTION_CLOSED) from None
        return handler

    async def _connect_first(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Connect to the first reachable address. Raises ConnectionNotMade."""
        failure = DeliveryFailure.CONNECTION_FAILED
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                    return await self._connect(address, port)
            except TimeoutError:
                failure = DeliveryFailure.TIMEOUT
            except OSError:
                failure = DeliveryFailure.CONNECTION_FAILED
        raise ConnectionNotMade(failure)

    async def _connect(self, address: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            # Bounds what the kernel buffers; the kernel doubles this value.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_RESPONSE_BYTES // 2)
            await self._loop.sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection
