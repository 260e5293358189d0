"""What the responses of a connection are written to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staffbooking_http.server.http_protocol import BoundedHttpProtocol


class ResponseTransport:
    """The transport of a connection for uvicorn, which closes it at the end of a last response.
    This one lets the client read that response first, if it still sends the body."""

    __slots__ = ("_protocol", "is_closing", "write")

    def __init__(self, protocol: BoundedHttpProtocol, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self.write, self.is_closing = transport.write, transport.is_closing

    def close(self) -> None:
        cycle = self._protocol.cycle
        if cycle.response_complete and cycle.more_body:
            self._protocol.close_after_reading()
        else:
            self._protocol.transport.close()
