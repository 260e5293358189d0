"""Webhook receivers with minimal overhead, so that the sender is measured.

One server on one port; the path selects the behaviour: `/good/N` answers at once, `/flaky/N`
refuses an event the first time, `/hang/N` never answers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from time import time
from typing import cast

from attrs import define, field

OK_RESPONSE = b"HTTP/1.1 204 No Content\r\n\r\n"
ERROR_RESPONSE = b"HTTP/1.1 500 Not Yet\r\nContent-Length: 0\r\n\r\n"


@define
class ArrivalLog:
    """Times of arrival in Unix seconds by path and event, the first time first."""

    arrivals: defaultdict[tuple[bytes, bytes], list[float]] = field(
        factory=lambda: defaultdict(list)
    )

    arrived: asyncio.Event = field(factory=asyncio.Event)
    """Set when a request arrived after the last `clear`."""

    def clear(self) -> None:
        self.arrivals.clear()
        self.arrived.clear()

    def add(self, path: bytes, event_id: bytes) -> int:
        """Record an arrival; returns how often the event has arrived at the path."""
        times = self.arrivals[path, event_id]
        times.append(time())
        self.arrived.set()
        return len(times)

    def times(self, kind: bytes) -> list[float]:
        """Sorted times of all requests whose path starts with `kind`."""
        ours = (times for (path, _), times in self.arrivals.items() if path.startswith(kind))
        return sorted(at for times in ours for at in times)


class ReceiverProtocol(asyncio.Protocol):
    """One connection with sequential requests."""

    def __init__(self, got: ArrivalLog) -> None:
        self._got = got
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport is not a subclass of it

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end]
            length = int(_header(head, b"content-length"))
            if len(self._data) < end + 4 + length:
                return
            self._data = self._data[end + 4 + length :]
            self._answer(head.split(b" ", 2)[1], _header(head, b"webhook-id"))

    def _answer(self, path: bytes, event_id: bytes) -> None:
        times = self._got.add(path, event_id)
        if path.startswith(b"/good") or (path.startswith(b"/flaky") and times > 1):
            self._transport.write(OK_RESPONSE)
        elif path.startswith(b"/flaky"):
            self._transport.write(ERROR_RESPONSE)


def _header(head: bytes, name: bytes) -> bytes:
    lowered = head.lower()
    start = lowered.index(b"\r\n" + name + b":") + len(name) + 3
    end = lowered.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


async def start_receivers(got: ArrivalLog) -> tuple[asyncio.Server, str]:
    """Start the server; returns it and its base URL."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ReceiverProtocol(got), "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
