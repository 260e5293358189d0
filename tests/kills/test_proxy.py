"""The proxy cuts, half-closes, stalls and refuses connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.kills.proxy import Proxy

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def echo_behind_proxy() -> AsyncIterator[tuple[Proxy, list[bytes]]]:
    """A proxy before a server that sends lines back, and the lines that reached the server."""
    lines: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while line := await reader.readline():
                lines.append(line)
                writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Proxy(lambda: asyncio.open_connection("127.0.0.1", port)) as proxy:
        yield proxy, lines


async def say(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection over which a line was echoed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"first\n")
    assert await reader.readline() == b"first\n"
    return reader, writer


async def test_a_cut_connection_is_reset() -> None:
    """A cut connection is reset and not closed."""
    async with echo_behind_proxy() as (proxy, _):
        reader, writer = await say(proxy)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_the_response_of_a_half_closed_connection_is_lost() -> None:
    """Data that a client sends after the half-close reaches the server; the response is lost."""
    async with echo_behind_proxy() as (proxy, lines):
        reader, writer = await say(proxy)
        proxy.half_close()
        assert await reader.read() == b""
        writer.write(b"second\n")
        writer.write_eof()
        await proxy.wait_until_unused()
        assert lines == [b"first\n", b"second\n"]
        writer.close()


async def test_a_stalled_connection_continues() -> None:
    """Nothing is forwarded while the proxy stalls, and everything after that."""
    async with echo_behind_proxy() as (proxy, lines):
        reader, writer = await say(proxy)
        proxy.stall()
        writer.write(b"second\n")
        await asyncio.sleep(0)
        assert lines == [b"first\n"]
        proxy.resume()
        assert await reader.readline() == b"second\n"
        writer.close()


async def test_a_refusing_proxy_ends_new_connections() -> None:
    """A new connection ends at once, before it reaches the server."""
    async with echo_behind_proxy() as (proxy, lines):
        proxy.is_refusing = True
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await reader.read() == b""
        assert lines == []
        writer.close()
