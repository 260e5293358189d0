"""A TCP proxy on loopback that cuts, stalls, delays and half-closes its connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from attrs import define, field

Upstream: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_CHUNK_SIZE = 1 << 16


@define(eq=False)
class Proxy:
    """Forwards connections to `connect` within `async with`. A `port` of 0 takes a free one."""

    connect: Upstream
    port: int = 0
    delay_seconds: float = 0.0
    """The delay of each chunk."""
    is_refusing: bool = False
    """Whether new connections are reset."""
    _flowing: asyncio.Event = field(factory=asyncio.Event)
    _links: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = field(
        factory=dict
    )
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        tasks = list(self._links)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections on both sides."""
        for link in self._links.values():
            for writer in link:
                _reset(writer)

    def half_close(self) -> None:
        """Close the direction to the clients, and keep forwarding their data: a request may have
        its effect, but its response is lost."""
        for downstream, _ in self._links.values():
            if downstream.can_write_eof() and not downstream.is_closing():
                downstream.write_eof()

    def stall(self) -> None:
        """Forward nothing until `resume`, and keep all connections open."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def wait_until_unused(self) -> None:
        """Wait until both sides of all connections have ended."""
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if self.is_refusing:
                return
            upstream_reader, upstream_writer = await self.connect()
            self._links[task] = (writer, upstream_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._forward(reader, upstream_writer))
                    group.create_task(self._forward(upstream_reader, writer))
            finally:
                upstream_writer.close()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.pop(task, None)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward all data, then the end of the stream."""
        while data := await reader.read(_CHUNK_SIZE):
            await self._flowing.wait()
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if writer.transport.is_closing():
                return
            try:
                writer.write(data)
            except RuntimeError:  # It was half-closed: the response is lost.
                continue
            await writer.drain()
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():
        return
    own: socket.socket | None = writer.get_extra_info("socket")
    if own is not None and own.family != socket.AF_UNIX:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
