"""The edge on a real socket: which requests are refused before the application sees them (RFC 9112,
CONTRACT 10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from attrs import evolve

from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_http.server import http_protocol, server
from staffbooking_http.server.listening import open_listening_socket
from staffbooking_http.server.peer_connections import PeerConnections
from tests.http.server.test_server import raw

pytestmark = pytest.mark.anyio

HOST = b"host: x\r\n"
GET = b"GET / HTTP/1.1\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
END = b"GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
SETTINGS = load_settings({})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Respond with what the application is told of a request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    headers = [[name.decode(), value.decode()] for name, value in scope["headers"]]
    seen = {
        "method": scope["method"],
        "path": scope["path"],
        "headers": headers,
        "body": body.decode(),
    }
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode() + b"\n"})


@asynccontextmanager
async def edge(settings: Settings = SETTINGS, application: Any = echo) -> AsyncIterator[int]:
    """Run a server with an application that echoes; yields its port."""
    uvicorn_server = server._SignalFreeServer(server._uvicorn_config(application, settings))
    with open_listening_socket("127.0.0.1", 0) as listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(uvicorn_server.serve, sockets=[listening.dup()]))
            yield listening.getsockname()[1]
            uvicorn_server.should_exit = True


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server that all tests share."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(edge()) as port:
        yield port


async def seen(port: int, sent: bytes) -> list[dict[str, Any]]:
    """What the application is told of the requests, before the connection ends."""
    head, body = await raw(port, sent)
    assert head.startswith(b"HTTP/1.1 200 "), head
    return [json.loads(line) for line in body.split(b"\n") if line.startswith(b"{")]


REFUSED = {
    "no host": GET + b"\r\n",
    "no host in 1.0": b"GET / HTTP/1.0\r\n\r\n",
    "two hosts": GET + HOST + HOST + b"\r\n",
    "two hosts in 1.0": b"GET / HTTP/1.0\r\n" + HOST + HOST + b"\r\n",
    "an empty host": GET + b"host:\r\n\r\n",
    "a host with a space": GET + b"host: a b\r\n\r\n",
    "a list of hosts": GET + b"host: a,b\r\n\r\n",
    "a host with a path": GET + b"host: a/b\r\n\r\n",
    "a host with a user": GET + b"host: u@a\r\n\r\n",
    "a host with a wrong port": GET + b"host: a:b\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a wrong scheme": b"GET ftp://x/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a user in the target": b"GET http://u@x/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "an asterisk": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT x:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a relative target": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "a folded header": GET + HOST + b"x: a\r\n b\r\n\r\n",
    "a folded first header": GET + b" x: a\r\n" + HOST + b"\r\n",
    "a bare line feed": GET + b"host: x\nx: y\r\n\r\n",
    "a bare carriage return": GET + HOST + b"x: a\rb\r\n\r\n",
    "a NUL": GET + HOST + b"x: a\0b\r\n\r\n",
    "a nameless header": GET + HOST + b": a\r\n\r\n",
    "two lengths": POST + b"content-length: 1\r\ncontent-length: 1\r\n\r\na",
    "a list of lengths": POST + b"content-length: 1, 1\r\n\r\na",
    "a signed length": POST + b"content-length: +1\r\n\r\na",
    "a huge length": POST + b"content-length: 99999999999999999999\r\n\r\na",
    "a length and chunks": POST
    + b"transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n"
    + LAST_CHUNK,
    "another coding": POST + b"transfer-encoding: gzip, chunked\r\n\r\n" + LAST_CHUNK,
    "an unknown coding": POST + b"transfer-encoding: xchunked\r\n\r\n" + LAST_CHUNK,
    "two codings": POST + b"transfer-encoding: identity\r\n" + CHUNKED[len(POST) :] + LAST_CHUNK,
    "chunks in 1.0": CHUNKED.replace(b"1.1", b"1.0") + LAST_CHUNK,
    "a chunk size with a prefix": CHUNKED + b"0x1\r\na\r\n" + LAST_CHUNK,
    "a chunk size with a sign": CHUNKED + b"+1\r\na\r\n" + LAST_CHUNK,
    "a chunk size with a space": CHUNKED + b"1 \r\na\r\n" + LAST_CHUNK,
    "a huge chunk size": CHUNKED + b"FFFFFFFFFFFFFFFFF\r\na\r\n" + LAST_CHUNK,
    "a chunk line with a line feed": CHUNKED + b"1;a\nb\r\na\r\n" + LAST_CHUNK,
    "a chunk longer than its size": CHUNKED + b"1\r\nab\r\n" + LAST_CHUNK,
    "a length in a trailer": CHUNKED + b"0\r\ncontent-length: 3\r\n\r\n",
    "a long head": GET + HOST + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
    "a very long head": GET + HOST + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n",
    "a long chunk line": CHUNKED + b"1;" + b"y" * 200_000 + b"\r\na\r\n" + LAST_CHUNK,
    "long trailers": CHUNKED + b"0\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    "many trailers": CHUNKED + b"0\r\n" + b"x: y\r\n" * 30_000 + b"\r\n",
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_no_request_is_400(port: int, sent: bytes) -> None:
    """Input that HTTP/1.1 or the contract refuses is 400, and the connection is closed."""
    head, body = await raw(port, sent)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "malformed_request"


FOREIGN_METHODS = [
    *("ANNOUNCE", "DESCRIBE", "FLUSH", "GET_PARAMETER", "PAUSE", "PLAY", "PRI", "RECORD"),
    *("REDIRECT", "SETUP", "SET_PARAMETER", "TEARDOWN"),
]
"""Methods of RTSP and HTTP/2."""


@pytest.mark.parametrize("method", ["BREW", "get", "GETS", "x-Y!", "A" * 64, *FOREIGN_METHODS])
async def test_a_method_that_nobody_knows_is_for_the_application(port: int, method: str) -> None:
    """A request whose method is unknown reaches the application, with its body, and the connection
    goes on."""
    head = f"{method} /a?b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"
    first, second = await seen(port, head.encode() + END)
    assert (first["method"], first["path"], first["body"]) == (method, "/a", "hi")
    assert second["method"] == "GET"


@pytest.mark.parametrize("method", [b"", b"\x16\x03\x01", b"B\xc3\xa4", b"A" * 65, b"A:"])
async def test_what_is_no_method_is_400(port: int, method: bytes) -> None:
    """A request line that begins with no token, or with a long one, is 400."""
    head, _ = await raw(port, method + b" / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")


async def test_an_unknown_method_in_two_pieces_is_400(port: int) -> None:
    """An unknown method of which only a part has come is 400: the rest is no method."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"XB")
        await anyio.sleep(0.05)
        await stream.send(b"REW / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")


async def test_each_request_of_a_connection_has_a_valid_host(port: int) -> None:
    """A wrong Host is 400 after requests of the same connection that had a valid one."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        for host, status in ((HOST, b"200"), (HOST, b"200"), (b"host: a b\r\n", b"400")):
            await stream.send(GET + host + b"\r\n")
            got = b""
            while b"}" not in got:
                got += await stream.receive()
            assert got.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    "host",
    ["x", "x:8000", "x:", "sub.example.org", "127.0.0.1:80", "[::1]", "[::1]:8000", "a%20b", "a_b"],
)
async def test_a_valid_host_is_taken(port: int, host: str) -> None:
    """A Host is a name, an IPv4 address or an IPv6 address in brackets, with or without a port."""
    sent = f"GET / HTTP/1.1\r\nHost:  {host} \r\nconnection: close\r\n\r\n"
    assert len(await seen(port, sent.encode())) == 1


@pytest.mark.parametrize("size", [http_protocol.MAX_HEAD_BYTES, http_protocol.MAX_HEAD_BYTES + 1])
@pytest.mark.parametrize("before", [b"", GET + HOST + b"\r\n"], ids=["first", "second"])
async def test_the_longest_head_has_64_kib(port: int, size: int, before: bytes) -> None:
    """A head of 64 KiB on the wire is taken, and one byte more is refused, also in a later
    request."""
    head = END.removesuffix(b"\r\n\r\n") + b"\r\nx:"
    sent = head + b" " * (size - len(head) - 5) + b"y\r\n\r\n"
    assert len(sent) == size
    _, body = await raw(port, before + sent)
    assert (b"/end" in body) == (size == http_protocol.MAX_HEAD_BYTES)


async def test_trailer_fields_are_never_headers(port: int) -> None:
    """Trailer fields are dropped; the headers and the body are unchanged, and so is the next
    request."""
    sent = CHUNKED + b"1\r\na\r\n0\r\nauthorization: t\r\nx-forwarded-for: 1.1.1.1\r\n\r\n"
    first, second = await seen(port, sent + END)
    assert first["headers"] == [["host", "x"], ["transfer-encoding", "chunked"]]
    assert first["body"] == "a"
    assert second["headers"] == [["host", "x"], ["connection", "close"]]


@pytest.mark.parametrize(
    ("target", "path"),
    [("http://y:80/z", "/z"), ("HTTPS://y:80", "/"), ("http://y:80?q", "/")],
)
async def test_an_absolute_target_names_the_host(port: int, target: str, path: str) -> None:
    """The authority of an absolute target replaces the Host (RFC 9112, 3.2.2)."""
    sent = f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    (request,) = await seen(port, sent.encode())
    assert request["path"] == path
    assert request["headers"][0] == ["host", "y:80"]


@pytest.mark.parametrize("body", [b"content-length: 3\r\n\r\nabc", b"\r\n"], ids=["body", "none"])
async def test_an_unknown_upgrade_is_ignored(port: int, body: bytes) -> None:
    """A request to upgrade to an unknown protocol is answered in HTTP/1.1, with its body, and so
    is the next one."""
    sent = POST + b"connection: upgrade\r\nupgrade: h2c\r\n" + body
    first, second = await seen(port, sent + END)
    assert first["body"] == body.partition(b"\r\n\r\n")[2].decode()
    assert [name for name, _ in first["headers"]].count("content-length") == body.count(b"length")
    assert second["path"] == "/end"


async def test_a_chunked_body_survives_an_unknown_upgrade(port: int) -> None:
    """The chunks of a request that asks for an unknown protocol are its body."""
    head = CHUNKED.removesuffix(b"\r\n") + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"
    first, second = await seen(port, head + b"1\r\na\r\n0\r\nx: y\r\n\r\n" + END)
    assert (first["body"], second["path"]) == ("a", "/end")


async def test_a_handshake_with_a_body_is_no_handshake(port: int) -> None:
    """A WebSocket handshake with a body is handled as a request."""
    handshake = (
        b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )
    first, _ = await seen(port, handshake + b"content-length: 3\r\n\r\nabc" + END)
    assert first["body"] == "abc"


@pytest.mark.parametrize(("second", "count"), [(b"http://a", 1), (b"http://b", 2)])
async def test_two_equal_origins_are_one(port: int, second: bytes, count: int) -> None:
    """Of two equal Origin headers the application sees one, of different ones both."""
    origins = b"origin: http://a\r\norigin: " + second + b"\r\n"
    (request,) = await seen(port, GET + HOST + origins + b"connection: close\r\n\r\n")
    assert [name for name, _ in request["headers"]].count("origin") == count


async def test_a_request_before_malformed_input_is_answered(port: int) -> None:
    """A whole request that precedes malformed input gets its own response, then the connection is
    closed."""
    (request,) = await seen(port, GET + HOST + b"\r\ngarbage\r\n\r\n")
    assert request["path"] == "/"


async def test_a_body_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose client still sends the body after the response is closed in time."""
    monkeypatch.setattr(http_protocol, "UNREAD_BODY_TIMEOUT_SECONDS", 0.05)

    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with (
        edge(application=hasty) as port,
        await anyio.connect_tcp("127.0.0.1", port) as stream,
    ):
        await stream.send(POST + b"content-length: 100\r\n\r\n")
        assert b" 200 " in await stream.receive()
        await stream.send(b"a")
        with anyio.fail_after(3):
            async for _ in stream:
                pass


async def test_the_refusal_of_a_large_body_arrives() -> None:
    """A client that sends megabytes before it reads gets the response that refused them."""

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"connection", b"close"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body"})

    size = 20 * 2**20
    async with edge(application=refuse) as port:
        head, _ = await raw(port, POST + b"content-length: %d\r\n\r\n" % size + bytes(size))
    assert head.startswith(b"HTTP/1.1 413 ")


async def test_blank_lines_do_not_hold_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection on which only blank lines follow a response is closed in time."""
    monkeypatch.setattr(http_protocol, "UNREAD_BODY_TIMEOUT_SECONDS", 0.05)
    async with edge() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(GET + HOST + b"\r\n")
        received = b""
        while not received.endswith(LAST_CHUNK):
            received += await stream.receive()
        await stream.send(b"\r\n")
        with anyio.fail_after(3), pytest.raises(anyio.EndOfStream):
            await stream.receive()


# Connections of one peer ----------------------------------------------------------------


LIMITED = evolve(SETTINGS, connections_per_address=2)


async def is_served(stream: anyio.abc.SocketStream) -> bool:
    try:
        await stream.send(GET + HOST + b"\r\n")
        return b" 200 " in await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return False


async def test_one_address_has_a_limit_of_connections() -> None:
    """One connection more than an address may hold is closed unanswered, and there is room again
    when another ends."""
    async with edge(LIMITED) as port:
        one, two, three = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(3)]
        assert [await is_served(stream) for stream in (one, two, three)] == [True, True, False]
        await one.aclose()
        await three.aclose()
        assert await is_served(two)
        async with await anyio.connect_tcp("127.0.0.1", port) as four:
            assert await is_served(four)
        await two.aclose()


async def test_a_trusted_proxy_has_no_limit() -> None:
    """Connections of trusted proxies are not counted."""
    trusted = load_settings({"STAFFBOOKING_TRUSTED_PROXIES": "127.0.0.0/8"})
    async with edge(evolve(LIMITED, trusted_proxies=trusted.trusted_proxies)) as port:
        streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(3)]
        assert [await is_served(stream) for stream in streams] == [True] * 3
        for stream in streams:
            await stream.aclose()


class Transport:
    """A transport of a peer."""

    def __init__(self, host: str) -> None:
        self.host = host

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1234)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::2:0:0:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
async def test_an_ipv6_network_is_one_peer(one: str, other: str, *, is_same: bool) -> None:
    """Addresses of one IPv6 /64 count together, and an IPv4-mapped one as its IPv4 address."""
    peers = PeerConnections(1)
    first: Any = Transport(one)
    second: Any = Transport(other)
    assert peers.add(first)
    assert peers.add(second) is not is_same
    peers.remove(second)
    peers.remove(first)
    assert peers.add(second)
