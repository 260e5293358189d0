"""Connections of the reader of calendars: aiohttp's, to checked addresses only and with bounded
reads."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace

from staffbooking_adapters.webhook.dialing import open_connection
from staffbooking_adapters.webhook.gate import AddressGuard


class BoundedResponseHandler(ResponseHandler):
    """One connection: reads at most `max_response_bytes` and closes immediately."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_response_bytes: int) -> None:
        super().__init__(loop)
        self._free_bytes = max_response_bytes

    def data_received(self, data: bytes) -> None:
        allowed = data[: self._free_bytes]
        self._free_bytes -= len(allowed)
        # The headers are parsed separately, so that an invalid body does not discard them.
        head, end, rest = allowed.partition(b"\r\n\r\n")
        super().data_received(head + end)
        if rest:
            super().data_received(rest)
        if len(allowed) < len(data) and self.transport is not None:
            self.set_exception(HttpProcessingError(code=400, message="too long"))
            self.transport.abort()

    def close(self) -> None:
        # A graceful close would wait without limit for a server that reads nothing.
        self.abort()


class GuardedConnector(aiohttp.BaseConnector):
    """Connects only to addresses that the guard allows. No connection is kept."""

    def __init__(self, guard: AddressGuard, tls: ssl.SSLContext, max_response_bytes: int) -> None:
        super().__init__(limit=0, force_close=True)
        self._guard = guard
        self._tls = tls
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
        return await open_connection(
            partial(BoundedResponseHandler, self._loop, self._max_response_bytes),
            self._guard,
            host,
            port,
            self._tls if req.is_ssl() else None,
        )
