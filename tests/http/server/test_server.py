"""The server on a real socket: limits, error responses, and shutdown."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from staffbooking_adapters.settings import load_settings
from staffbooking_http.server import http_protocol, server
from staffbooking_http.server.listening import open_listening_socket
from staffbooking_http.server.server import serve, serve_maintenance
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.anyio

SETTINGS = load_settings({})


@asynccontextmanager
async def serving(world: HttpDeployment) -> AsyncIterator[tuple[int, anyio.Event]]:
    """Run a server on the world's ports; yields its TCP port and the event that stops it."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        with open_listening_socket("127.0.0.1", 0) as listening:
            job = partial(serve, SETTINGS, listening_socket=listening, stop=stop, ports=world.ports)
            port: int = await tasks.start(job)
        yield port, stop
        stop.set()


async def raw(port: int, sent: bytes) -> tuple[bytes, bytes]:
    """Send bytes; returns head and body of what is received until the server closes the
    connection."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(sent)
        got = b""
        with anyio.fail_after(5):
            async for part in stream:
                got += part
    head, _, body = got.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize("method", ["BREW", "PLAY"])
@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/companions", b"405"), ("/api/v1/nope", b"404"), ("/find", b"405")],
)
async def test_an_unknown_method_is_refused_as_any_other(
    world: HttpDeployment, path: str, status: bytes, method: str
) -> None:
    """An unknown method is 405 with the allowed methods, or 404 on an unknown path, with the limit
    headers of the interface."""
    async with serving(world) as (port, _):
        head, body = await raw(
            port, f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
        )
    assert head.startswith(b"HTTP/1.1 " + status)
    assert json.loads(body)["code"] in ("method_not_allowed", "not_found")
    assert (b"\r\nallow: " in head) is (status == b"405")
    assert (b"x-ratelimit-limit: " in head) is path.startswith("/api/")


async def test_it_answers_on_a_real_socket(world: HttpDeployment) -> None:
    """Requests over a real socket are parsed and answered."""
    async with serving(world) as (port, _), httpx.AsyncClient() as client:
        headers = {"authorization": f"Bearer {world.api_key}"}
        url = f"http://127.0.0.1:{port}/api/v1/companions"
        answer = await client.get(f"{url}?location=lisbon", headers=headers)
        assert len(json_body(answer)["companions"]) == 1
        assert "server" not in answer.headers
        head = await client.head(url, headers=headers)
        assert (head.status_code, head.content) == (200, b"")
        error_body(await client.get(f"{url}/%zz%00", headers=headers), 404, "not_found")


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
async def test_a_malformed_request_is_400(world: HttpDeployment, sent: bytes) -> None:
    """A malformed HTTP request is 400 in the contract's format."""
    async with serving(world) as (port, _):
        head, body = await raw(port, sent)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert json.loads(body)["code"] == "malformed_request"


async def test_an_incomplete_head_times_out(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that sends no complete request head is closed after the timeout."""
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_SECONDS", 0.05)
    async with serving(world) as (port, _):
        assert await raw(port, b"") == (b"", b"")
        assert await raw(port, b"GET / HTTP/1.1\r\nx: y") == (b"", b"")
        full = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
        head, _ = await raw(port, full + b"GET /hea")
        assert head.startswith(b"HTTP/1.1 200 ")


async def test_too_many_connections_are_503(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection over the limit is 503 with a Retry-After header."""
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 0)
    async with serving(world) as (port, _):
        head, body = await raw(port, b"")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in head
    assert json.loads(body)["code"] == "overloaded"


IMAGE = b"GET /media/large.png HTTP/1.1\r\nhost: x\r\n\r\n"
LARGE = 30 * 2**20
"""Bytes: more than the socket buffers of systems hold."""


@asynccontextmanager
async def unread_response(
    world: HttpDeployment, port: int
) -> AsyncIterator[anyio.abc.SocketStream]:
    """A connection that has requested a large image and reads only its start."""
    await world.ports.files.put("large.png", bytes(LARGE))
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(IMAGE)
        assert (await stream.receive(12)).startswith(b"HTTP/1.1 200")
        yield stream


async def test_an_unread_response_times_out(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose response is not read is closed after the timeout."""
    monkeypatch.setattr(server, "UNREAD_TIMEOUT_SECONDS", 0.05)
    lost, end = anyio.Event(), http_protocol.BoundedHttpProtocol.connection_lost

    def noted(protocol: http_protocol.BoundedHttpProtocol, error: Exception | None) -> None:
        lost.set()
        end(protocol, error)

    monkeypatch.setattr(http_protocol.BoundedHttpProtocol, "connection_lost", noted)
    async with serving(world) as (port, _), unread_response(world, port):
        with anyio.fail_after(5):
            await lost.wait()


async def test_a_slow_reader_stays_connected(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is aborted only if nothing of the same response was read between two checks."""
    made: list[http_protocol.BoundedHttpProtocol] = []
    begin = http_protocol.BoundedHttpProtocol.connection_made

    def noted(protocol: http_protocol.BoundedHttpProtocol, transport: Any) -> None:
        made.append(protocol)
        begin(protocol, transport)

    monkeypatch.setattr(http_protocol.BoundedHttpProtocol, "connection_made", noted)
    async with serving(world) as (port, _), unread_response(world, port) as stream:
        waited = server.abort_stalled_connections(made, {})
        assert set(waited.values()) != set()
        for _ in range(2):
            await _take(stream, LARGE // 3)
            waited = server.abort_stalled_connections(made, waited)
            assert not made[0].transport.is_closing()
        another: server.UnreadBytes = {(made[0], "another request"): 1}
        assert server.abort_stalled_connections(made, another) == waited
        assert not made[0].transport.is_closing()
        server.abort_stalled_connections(made, waited)
        assert made[0].transport.is_closing()


async def _take(stream: anyio.abc.SocketStream, number: int) -> None:
    """Read at least so many bytes."""
    while number > 0:
        number -= len(await stream.receive())


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
def test_the_open_file_limit_is_raised(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: tuple[int, int] | None
) -> None:
    """The open file limit is raised to the required number or the hard limit, and never lowered."""
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    server.raise_open_file_limit(5000)
    assert made == ([] if then is None else [then])


async def test_a_request_in_progress_is_completed(world: HttpDeployment) -> None:
    """A server that is stopped completes the request in progress."""
    begun, go_on = anyio.Event(), anyio.Event()

    class Slow:
        async def peek(self, *given: object) -> object:
            begun.set()
            await go_on.wait()
            return await world.store.admission.peek(*given)  # type: ignore[arg-type]

    world.restart(admission=Slow())
    found: list[httpx.Response] = []

    async def ask(port: int) -> None:
        async with httpx.AsyncClient() as client:
            found.append(await client.get(f"http://127.0.0.1:{port}/api/v1/companions"))

    async with anyio.create_task_group() as tasks, serving(world) as (port, stop):
        tasks.start_soon(ask, port)
        await begun.wait()
        stop.set()
        await anyio.sleep(0.2)
        go_on.set()
    error_body(found[0], 401, "unauthenticated")


@pytest.mark.parametrize(
    ("accepted", "media_type"),
    [(b"*/*", b"application/json"), (b"text/html", b"text/html; charset=utf-8")],
)
async def test_a_request_that_a_stop_cuts_off_is_503(
    world: HttpDeployment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    accepted: bytes,
    media_type: bytes,
) -> None:
    """A request that does not end before the server stops is 503 with Retry-After, in the form that
    its client accepts, and has a line of the log without a traceback."""
    monkeypatch.setattr(server, "_SHUTDOWN_TIMEOUT_SECONDS", 0.05)
    head = b"POST /auth/login HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\naccept: %b\r\n\r\n{"
    got = b""
    async with (
        serving(world) as (port, stop),
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(head % accepted)
        await raw(port, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        stop.set()
        with anyio.fail_after(5):
            async for part in stream:
                got += part
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"content-type: " + media_type in head
    assert b"retry-after: 2" in head
    assert b"connection: close" in head
    if media_type == b"application/json":
        assert json.loads(body)["code"] == "unavailable"
    assert "request %s to %s was cut off: the server stops" in [each.msg for each in caplog.records]
    assert not any(each.exc_info for each in caplog.records)


def test_all_addresses_are_those_of_ipv4_too() -> None:
    """A socket on `::` accepts connections over IPv6 and IPv4."""
    if not socket.has_dualstack_ipv6():
        skip_or_fail("ipv6", "IPv6", "this machine has no IPv6")
    with open_listening_socket("::", 0) as listening:
        port = listening.getsockname()[1]
        for host in ("::1", "127.0.0.1"):
            socket.create_connection((host, port), timeout=5).close()


def test_a_taken_port_is_an_error() -> None:
    """Listening on a taken port raises OSError."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        open_listening_socket("127.0.0.1", taken.getsockname()[1])


# Before the store is available ----------------------------------------------------------


@asynccontextmanager
async def maintained_socket(ready: anyio.Event, stop: anyio.Event) -> AsyncIterator[socket.socket]:
    """A socket with a maintenance server, until `ready` is set."""

    async def is_ready() -> bool:
        return ready.is_set()

    with open_listening_socket("127.0.0.1", 0) as listening:
        async with anyio.create_task_group() as tasks:
            job = partial(
                serve_maintenance,
                SETTINGS,
                listening_socket=listening,
                stop=stop,
                is_ready=is_ready,
            )
            tasks.start_soon(job)
            yield listening


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READINESS_CHECK_INTERVAL_SECONDS", 0.01)


@pytest.mark.usefixtures("haste")
async def test_before_it_is_ready_a_server_is_alive() -> None:
    """Before it is ready a server answers /healthz, and all other paths with 503 and
    Retry-After."""
    ready = anyio.Event()
    async with maintained_socket(ready, anyio.Event()) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            for path in ("/readyz", "/api/v1/companions", "/", "/nope"):
                answer = await client.get(path)
                error_body(answer, 503, "unavailable")
                assert answer.headers["retry-after"] == "2"
            assert (await client.head("/readyz")).content == b""
        ready.set()


@pytest.mark.usefixtures("haste")
async def test_before_it_is_ready_a_channel_is_refused() -> None:
    """Before it is ready a server refuses WebSocket handshakes with 503."""
    ready = anyio.Event()
    async with maintained_socket(ready, anyio.Event()) as listening:
        with pytest.raises(InvalidStatus) as caught:
            await connect(f"ws://127.0.0.1:{listening.getsockname()[1]}/ws")
        assert caught.value.response.status_code == 503
        ready.set()


@pytest.mark.usefixtures("haste")
async def test_a_connection_between_the_servers_is_served(world: HttpDeployment) -> None:
    """A connection made after the maintenance server and before the other one is served."""
    stop = anyio.Event()

    async def is_ready() -> bool:
        return True

    with open_listening_socket("127.0.0.1", 0) as listening:
        await serve_maintenance(SETTINGS, listening_socket=listening, stop=stop, is_ready=is_ready)
        async with anyio.create_task_group() as tasks:
            port = listening.getsockname()[1]
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            await tasks.start(
                partial(serve, SETTINGS, listening_socket=listening, stop=stop, ports=world.ports)
            )
            with anyio.fail_after(5):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            await stream.aclose()
            stop.set()


@pytest.mark.usefixtures("haste")
async def test_a_server_that_never_gets_ready_stops() -> None:
    """A maintenance server that is never ready ends when it is stopped."""
    stop = anyio.Event()
    with anyio.fail_after(5):
        async with maintained_socket(anyio.Event(), stop):
            stop.set()
