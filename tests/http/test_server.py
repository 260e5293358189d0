"""The server itself, on a real socket: bounds, shapes of refusals, and a clean end."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.abc
import httpx
import pytest

from staffbooking_adapters.settings import load_settings
from staffbooking_http import server
from staffbooking_http.server import serve
from tests.http.world import World, ok, refused

pytestmark = pytest.mark.anyio

SETTINGS = load_settings({})


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[tuple[int, anyio.Event]]:
    """A server of the world's ports: its port, and the event that stops it."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        job = partial(serve, SETTINGS, host="127.0.0.1", port=0, stop=stop, ports=world.ports)
        port: int = await tasks.start(job)
        yield port, stop
        stop.set()


async def raw(port: int, sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of what comes back until the server hangs up."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(sent)
        got = b""
        with anyio.fail_after(5):
            async for part in stream:
                got += part
    head, _, body = got.partition(b"\r\n\r\n")
    return head, body


async def test_it_answers_on_a_real_socket(world: World) -> None:
    """The whole way, through the parser and back."""
    async with serving(world) as (port, _), httpx.AsyncClient() as client:
        headers = {"authorization": f"Bearer {world.key}"}
        url = f"http://127.0.0.1:{port}/api/v1/companions"
        answer = await client.get(f"{url}?location=lisbon", headers=headers)
        assert len(ok(answer)["companions"]) == 1
        assert "server" not in answer.headers
        head = await client.head(url, headers=headers)
        assert (head.status_code, head.content) == (200, b"")
        refused(await client.get(f"{url}/%zz%00", headers=headers), 404, "not_found")


@pytest.mark.parametrize(
    "sent",
    [
        b"garbage\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 70_000,
    ],
    ids=["garbage", "version", "path", "header", "length", "smuggling", "huge head"],
)
async def test_what_is_no_request_is_400(world: World, sent: bytes) -> None:
    """Even where no request comes about, the answer has the contract's shape."""
    async with serving(world) as (port, _):
        head, body = await raw(port, sent)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert json.loads(body)["code"] == "malformed_request"


async def test_a_head_that_never_ends_is_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither silence nor a trickle holds a connection."""
    monkeypatch.setattr(server, "HEAD_DEADLINE", 0.05)
    async with serving(world) as (port, _):
        assert await raw(port, b"") == (b"", b"")
        assert await raw(port, b"GET / HTTP/1.1\r\nx: y") == (b"", b"")
        full = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
        head, _ = await raw(port, full + b"GET /hea")
        assert head.startswith(b"HTTP/1.1 200 ")


async def test_too_many_connections_are_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection over the bound is told to come again."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 0)
    async with serving(world) as (port, _):
        head, body = await raw(port, b"")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in head
    assert json.loads(body)["code"] == "unavailable"


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (1024, 10_000, (5000, 10_000)),
        (1024, 2048, (2048, 2048)),
        (1024, resource.RLIM_INFINITY, (5000, resource.RLIM_INFINITY)),
        (8000, 10_000, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_files_are_allowed_for_all_connections(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: tuple[int, int] | None
) -> None:
    """As many as are needed, or as many as may be; never fewer than there are."""
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    server.allow_files(5000)
    assert made == ([] if then is None else [then])


async def test_what_is_in_flight_ends(world: World) -> None:
    """Asked to stop, the server answers what it has begun, and then ends."""
    begun, go_on = anyio.Event(), anyio.Event()

    class Slow:
        async def look(self, *given: object) -> object:
            begun.set()
            await go_on.wait()
            return await world.store.admission.look(*given)  # type: ignore[arg-type]

    world.restart(admission=Slow())
    found: list[httpx.Response] = []

    async def ask(port: int) -> None:
        async with httpx.AsyncClient() as client:
            found.append(await client.get(f"http://127.0.0.1:{port}/nope"))

    async with anyio.create_task_group() as tasks, serving(world) as (port, stop):
        tasks.start_soon(ask, port)
        await begun.wait()
        stop.set()
        await anyio.sleep(0.2)
        go_on.set()
    refused(found[0], 404, "not_found")


async def test_a_taken_port_is_an_error(world: World) -> None:
    """Who composes the server hears that the port can't be had."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError):
            await serve(
                SETTINGS, host="127.0.0.1", port=port, stop=anyio.Event(), ports=world.ports
            )
