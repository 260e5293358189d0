"""Connections to receivers: made to judged addresses, bounded in what they read, kept for the
same URL for a while."""

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
"""To reach one address; the handshake of TLS is not in it."""

_KEEPALIVE_SECONDS: Final = 4.0
"""How long a connection is kept idle; receivers often close them after 5."""

STALE_WINDOW_SECONDS: Final = 0.05
"""Within this time of a request, a kept connection that ends is taken for one that was closed
already: that is known after one round trip, and most receivers are nearer than this. A later
end may well be that of a receiver which has read the request and failed with it."""

MAX_KEPT_CONNECTIONS: Final = 256
"""Beyond this number, connections are not kept."""

MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Read of one response, its head included."""


class StaleConnection(Exception):
    """A kept connection turned out to be closed as soon as it was used again: nothing is known
    against the receiver."""


class BoundedResponseHandler(ResponseHandler):
    """One connection: reads a bounded number of bytes for each response, and never lingers."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, open_connections: set[BoundedResponseHandler]
    ) -> None:
        super().__init__(loop)
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
        free_bytes = max(0, MAX_RESPONSE_BYTES - self._bytes_read)
        self._bytes_read += len(data)
        # The head goes in by itself: so nothing that is wrong with a body spoils it.
        head, end, rest = data[:free_bytes].partition(b"\r\n\r\n")
        super().data_received(head + end)
        if rest:
            super().data_received(rest)
        if self._bytes_read > MAX_RESPONSE_BYTES and self.transport is not None:
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
        # Whoever speaks unasked on a kept connection is not listened to.
        return super().is_connected() and not super().should_close

    def close(self) -> None:
        # A receiver that reads nothing would keep an orderly end waiting for ever.
        self.abort()


class UrlKeyedRequest(aiohttp.ClientRequest):
    """A request whose connection is kept for its very URL."""

    @property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key._replace(proxy_headers_hash=hash(self.url))


class GuardedConnector(aiohttp.BaseConnector):
    """Makes connections to addresses that the gate lets through. `kept` says whether they
    serve more than one request."""

    def __init__(
        self,
        guard: AddressGuard,
        tls: ssl.SSLContext,
        open_connections: set[BoundedResponseHandler],
        *,
        is_keepalive: bool,
    ) -> None:
        # Those who send bound their number: to wait here would spend an attempt's time.
        if is_keepalive:
            super().__init__(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS)
        else:
            super().__init__(limit=0, force_close=True)
        self._guard = guard
        self._tls = tls
        self._open_connections = open_connections

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - it is the base that asks for it
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
                lambda: BoundedResponseHandler(self._loop, self._open_connections),
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
        """A connection to the first of these addresses that can be reached."""
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
            # The kernel takes no more from a receiver than is read of it; it doubles this.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_RESPONSE_BYTES // 2)
            await self._loop.sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection
