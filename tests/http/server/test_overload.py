"""Requests while a server has more than it can serve: 503 `overloaded` (CONTRACT 1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import count

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from attrs import evolve
from websockets.asyncio.client import connect

from staffbooking_adapters.testing.builders import add_session
from staffbooking_core.domain.accounts.users import csrf_token
from staffbooking_http import create_app
from staffbooking_http.server import load_limiter, overload
from staffbooking_http.server.http_protocol import BoundedHttpProtocol
from staffbooking_http.server.overload import Overload
from tests.http.deployment import BASE_URL, HttpDeployment
from tests.http.server.test_server import raw, serving

pytestmark = pytest.mark.anyio

SEARCH = b"GET /api/v1/companions HTTP/1.1\r\nhost: x\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
CLOSE = b"connection: close\r\n\r\n"


@pytest.fixture
async def server(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[int, anyio.Event]]:
    """A server that serves no reading: one request waits, each further is refused. Its port, and
    the event that stops it."""
    monkeypatch.setattr(overload, "MAX_RUNNING_READS", 0)
    monkeypatch.setattr(load_limiter, "MAX_WAITING", 1)
    monkeypatch.setattr(load_limiter, "MAX_WAIT_SECONDS", 60.0)
    async with (
        serving(world) as (port, stop),
        await anyio.connect_tcp("127.0.0.1", port) as waiting,
    ):
        await waiting.send(SEARCH + b"\r\n")
        await raw(port, HEALTH[:-2] + CLOSE)  # The server has read what was sent before.
        yield port, stop


@pytest.fixture
def port(server: tuple[int, anyio.Event]) -> int:
    return server[0]


class Connection:
    """A connection that stays open, for several requests."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream

    async def ask(self, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the response to a request that is sent in parts."""
        for part in parts:
            await self._stream.send(part)
            await anyio.wait_all_tasks_blocked()
        got = b""
        with anyio.fail_after(5):
            while b"\r\n\r\n" not in got:
                got += await self._stream.receive()
            head, _, body = got.partition(b"\r\n\r\n")
            start, *lines = head.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            while len(body) < int(headers["content-length"]):
                body += await self._stream.receive()
        return int(start.split(" ")[1]), headers, body


@pytest.fixture
async def connection(port: int) -> AsyncIterator[Connection]:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        yield Connection(stream)


async def test_a_refusal_says_when_to_try_again(connection: Connection) -> None:
    """A refusal is 503 with the contract's body, Retry-After, the rate limit headers, an id, and
    the security headers of every response."""
    status, headers, body = await connection.ask(SEARCH + b"\r\n")
    assert status == 503
    assert json.loads(body)["code"] == "overloaded"
    assert headers["retry-after"] == "2"
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("1000", "1000")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-request-id"]


async def test_an_early_refusal_is_the_same_as_a_later_one(connection: Connection) -> None:
    """A request that arrives in parts, which is parsed, gets the response of one that is whole, but
    for its id."""
    early = await connection.ask(SEARCH + b"\r\n")
    later = await connection.ask(SEARCH, b"\r\n")
    assert early[1].pop("x-request-id") != later[1].pop("x-request-id")
    assert early[1].pop("x-ratelimit-reset")
    assert later[1].pop("x-ratelimit-reset")
    later[1].pop("date", None)
    assert early == later


async def test_a_refusal_reads_no_body(port: int, connection: Connection) -> None:
    """A request with a body is refused at its head; the connection goes on after the body."""
    head = b"GET /api/v1/companions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n"
    assert (await connection.ask(head))[0] == 503
    assert (await connection.ask(b"a" * 5 + HEALTH))[0] == 200


async def test_a_head_request_gets_no_body(port: int) -> None:
    """The refusal of HEAD has no body."""
    head, body = await raw(port, SEARCH.replace(b"GET", b"HEAD") + CLOSE)
    assert head.startswith(b"HTTP/1.1 503 ")
    assert body == b""


@pytest.mark.parametrize(
    ("language", "heading"), [(b"en", "out of reach"), (b"de", "nicht erreichbar")]
)
async def test_a_browser_gets_a_page(connection: Connection, language: bytes, heading: str) -> None:
    """A browser outside of /api gets a page in its language, with the request's id."""
    asked = b"GET /find HTTP/1.1\r\nhost: x\r\naccept: text/html\r\naccept-language: %b\r\n\r\n"
    for _ in range(2):
        status, headers, body = await connection.ask(asked % language)
        assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert headers["retry-after"] == "2"
        assert heading in body.decode()
        assert headers["x-request-id"] in body.decode()


async def test_the_page_of_a_refusal_is_each_visitors_own(connection: Connection) -> None:
    """The page has the CSRF token of its visitor's session, and not of another one's."""
    asked = b"GET /find HTTP/1.1\r\nhost: x\r\naccept: text/html\r\n"
    for token in ("first", "second", ""):
        cookie = b"cookie: connect.sid=%b\r\n" % token.encode() if token else b""
        _, _, body = await connection.ask(asked + cookie + b"\r\n")
        own = csrf_token(token) if token else ""
        assert f'<meta name="csrf-token" content="{own}">' in body.decode()


async def test_pages_have_no_limit_headers(connection: Connection) -> None:
    """The refusal of a page has no rate limit headers, as pages have no such limits."""
    status, headers, _ = await connection.ask(b"GET /find HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status == 503
    assert "x-ratelimit-limit" not in headers


async def test_operators_are_served(connection: Connection) -> None:
    """Liveness, readiness and metrics are served; the metrics count the refusals."""
    await connection.ask(SEARCH + b"\r\n")
    for path in (b"/healthz", b"/readyz"):
        assert (await connection.ask(HEALTH.replace(b"/healthz", path)))[0] == 200
    status, _, body = await connection.ask(HEALTH.replace(b"/healthz", b"/metrics"))
    assert status == 200
    assert b"staffbooking_http_overloaded_total 1.0" in body


async def test_what_changes_something_is_served(connection: Connection) -> None:
    """Reading and changing have slots of their own: a flood of reading lets people sign in, on the
    connection of a refused request too."""
    assert (await connection.ask(SEARCH + b"\r\n"))[0] == 503
    body = b'{"email": "nobody@example.com", "password": "a-long-enough-one"}'
    head = b"POST /auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    length = b"content-length: %d\r\n\r\n" % len(body)
    assert (await connection.ask(head + length + body))[0] == 401


async def test_the_channel_is_served(world: HttpDeployment, port: int) -> None:
    """The channel opens, and its messages arrive, while the interface refuses requests."""
    token, now = world.ports.ids.token(), world.clock.wall()
    await add_session(world.store, world.customer.id, token=token, created_at=now, seen_at=now)
    headers = {"Cookie": f"connect.sid={token}", "Origin": BASE_URL}
    async with connect(f"ws://127.0.0.1:{port}/ws", additional_headers=headers) as channel:
        assert json.loads(await channel.recv())["event"] == "ready"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/socket.io/", "/ws"])
@pytest.mark.parametrize("prefix", ["", "/booking"])
async def test_operators_and_the_channel_take_no_slot(
    world: HttpDeployment, prefix: str, path: str
) -> None:
    """Operations paths and the channel take no slot and are not held, with the base path before
    them and without it, as a proxy may strip it."""
    policy = evolve(world.ports.policy, base_url=f"{BASE_URL}/booking")
    limiting = Overload(create_app(evolve(world.ports, policy=policy)))
    assert limiting.limiter_of("GET", prefix + path) is None
    assert limiting.is_exempt(f"GET {prefix}{path}?a=b HTTP/1.1\r\n".encode())


async def test_a_slow_sender_holds_no_slot(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose body does not arrive leaves its slot to others."""
    monkeypatch.setattr(overload, "MAX_RUNNING_CHANGES", 1)
    head = b"POST /auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    async with serving(world) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as slow:
        await slow.send(head + b"content-length: 100\r\n\r\n{")
        got, _ = await raw(port, head + b"content-length: 2\r\n" + CLOSE + b"{}")
    assert got.startswith(b"HTTP/1.1 400 ")


async def test_the_log_has_one_line_a_second(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Refusals have one line of the log together, with their number."""
    monkeypatch.setattr(overload, "LOG_INTERVAL_SECONDS", 0)
    refusing = Overload(world.app)
    for _ in range(3):
        refusing.count_refusal()
    while not caplog.messages:
        await anyio.lowlevel.checkpoint()
    assert caplog.messages == ["overloaded: 3 requests were refused within a second"]


class _Holding:
    """Counts the requests that it was let look at."""

    received = 0

    def receive_held(self) -> None:
        self.received += 1


async def test_held_requests_are_looked_at_some_at_a_time(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a millisecond of looking at held requests the others wait as long again."""
    monkeypatch.setattr(overload, "HOLD_SECONDS", 0)
    monkeypatch.setattr(overload, "monotonic", partial(next, count(0, 0.0004)))
    limiting, connection = Overload(world.app), _Holding()
    for _ in range(5):
        limiting.hold(connection)
    received = []
    while connection.received < 5:
        await anyio.lowlevel.checkpoint()
        received.append(connection.received)
    assert sorted({*received} - {0}) == [2, 4, 5]


async def test_a_client_that_leaves_responses_unread_gets_no_more(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the socket of a client is full, its next refusal waits until the client reads."""
    protocols: list[BoundedHttpProtocol] = []

    def receive_at_once(_: Overload, protocol: BoundedHttpProtocol) -> None:
        protocols.append(protocol)
        protocol.receive_held()

    monkeypatch.setattr(Overload, "hold", receive_at_once)
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        connection = Connection(stream)
        assert (await connection.ask(SEARCH + b"\r\n"))[0] == 503
        [protocol] = protocols
        protocol.flow.pause_writing()
        await stream.send(SEARCH + b"\r\n")
        while len(protocols) == 1:
            await anyio.lowlevel.checkpoint()
        assert not protocol.cycle.response_complete
        protocol.flow.resume_writing()
        assert (await connection.ask())[0] == 503


async def test_responses_keep_the_order_of_their_requests(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is held is answered before a later one of its connection."""
    monkeypatch.setattr(overload, "HOLD_SECONDS", 60)
    assert (await connection.ask(SEARCH + b"\r\n", HEALTH))[0] == 503


async def test_operators_do_not_wait_for_what_is_held(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Liveness is answered at once while other requests are held."""
    monkeypatch.setattr(overload, "HOLD_SECONDS", 60)
    assert (await connection.ask(HEALTH))[0] == 200


async def test_a_server_that_stops_answers_what_it_holds(
    server: tuple[int, anyio.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is held is answered when the server stops."""
    monkeypatch.setattr(overload, "HOLD_SECONDS", 60)
    is_held = anyio.Event()
    monkeypatch.setattr(Overload, "hold", lambda *_: is_held.set())
    port, stop = server
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(SEARCH + b"\r\n")
        await is_held.wait()
        stop.set()
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_what_a_client_asked_that_left_is_dropped(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that is held is dropped if its client has left."""
    monkeypatch.setattr(overload, "HOLD_SECONDS", 0.05)
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(SEARCH + b"\r\n")
    await raw(port, HEALTH[:-2] + CLOSE)  # It has come behind, and is held as well.
    assert caplog.messages == []
