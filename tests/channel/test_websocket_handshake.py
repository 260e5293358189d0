"""WebSocket handshakes: sessions, origins, connection limits, malformed requests and failures."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import anyio
import pytest
from attrs import evolve
from websockets.exceptions import InvalidStatus

from staffbooking_adapters.testing.builders import POLICY, SECOND
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.bookings import disabling
from staffbooking_http.server import http_protocol
from tests.http.deployment import BASE_URL, HttpDeployment, error_body
from tests.http.server.test_server import raw
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    add_shared_conversation,
    plain_http_client,
    serve_channel,
)

pytestmark = pytest.mark.anyio

ALLOWED_ORIGIN = "https://app.example"
HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    async with serve_channel(
        world.ports, allowed_origins=(ALLOWED_ORIGIN, "http://[::1]:8080")
    ) as made:
        yield made


# Sessions -------------------------------------------------------------------------------


async def test_a_session_opens_it(world: HttpDeployment, site: ChannelServer) -> None:
    """A client with a session gets `ready` with its user id and the id of the last message."""
    async with site.connect_client(world.customer) as ada:
        assert ada.ready == {"user_id": world.customer.id, "last_message_id": 0}
        message = await ada.send_message(await add_shared_conversation(world), "Hello")
    async with site.connect_client(world.companion) as mia:
        assert mia.ready == {"user_id": world.companion.id, "last_message_id": message["id"]}


INVALID_COOKIES = (
    None,
    "",
    "connect.sid=",
    "connect.sid=guess",
    "connect.sid=\xff",
    "other=1; sid=2",
)


async def test_without_a_session_it_is_401(site: ChannelServer) -> None:
    """A missing, empty or invalid session cookie is refused with 401 and without rate limit
    headers."""
    for cookie in INVALID_COOKIES:
        answer, body = await site.rejected_handshake(cookie)
        assert (answer.status_code, body["code"]) == (401, "unauthenticated"), cookie
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"]
        assert not [name for name in answer.headers if name.lower().startswith("x-ratelimit")]


async def test_refused_handshakes_are_not_rate_limited(world: HttpDeployment) -> None:
    """Refused handshakes are 401 beyond the general limit and leave it unused for other
    requests."""
    world.raise_limits(general=evolve(POLICY.limits.general, limit=3))
    async with serve_channel(world.ports) as site, plain_http_client() as client:
        for _ in range(5):
            assert (await site.rejected_handshake("connect.sid=guess"))[0].status_code == 401
        answer = await client.get(f"http://127.0.0.1:{site.port}/nope")
        assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (404, "3")


async def test_an_ended_session_is_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """A session that was signed out, disabled or idle for too long is refused with 401."""
    browser = await world.signed_in_client(world.customer.id)
    signed_out = browser.headers["cookie"].removeprefix("connect.sid=")
    async with site.connect_client(world.customer, signed_out):
        pass
    await browser.post("/auth/logout")
    disabled, idle = await site.sign_in(world.stranger), await site.sign_in(world.customer)
    await disabling.disable_user(world.ports, world.stranger.email)
    world.clock.advance(POLICY.session_idle)
    for token in (signed_out, disabled, idle):
        answer, body = await site.rejected_handshake(f"connect.sid={token}")
        assert (answer.status_code, body["code"]) == (401, "unauthenticated")


async def test_opening_it_keeps_a_session_from_idling_out(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A handshake keeps a session from expiring by idleness."""
    token = await site.sign_in(world.customer)
    for _ in range(2):
        world.clock.advance(POLICY.session_idle - SECOND)
        async with site.connect_client(world.customer, token):
            pass


async def test_an_api_key_is_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """An API key in the Authorization header is refused with `session_required`, despite a valid
    cookie."""
    token = await site.sign_in(world.customer)
    headers = [("authorization", f"Bearer {world.api_key}")]
    answer, body = await site.rejected_handshake(f"connect.sid={token}", headers=headers)
    assert (answer.status_code, body["code"]) == (401, "session_required")


# Origins --------------------------------------------------------------------------------


ALLOWED_ORIGINS = (
    BASE_URL,
    BASE_URL.upper(),
    ALLOWED_ORIGIN,
    "HTTPS://App.Example",
    f"{ALLOWED_ORIGIN}:443",
    "http://[::1]:8080",
)
REFUSED_ORIGINS = (
    None,
    "",
    "null",
    "*",
    "https://evil.example",
    "https://app.example.evil.example",
    "https://evil-app.example",
    "http://app.example",
    f"{ALLOWED_ORIGIN}:444",
    f"{ALLOWED_ORIGIN}/",
    f"{ALLOWED_ORIGIN}, {ALLOWED_ORIGIN}",
    f"{ALLOWED_ORIGIN}\xe9",
    BASE_URL.replace("127.0.0.1", "localhost"),
    BASE_URL.replace("8000", "80"),
    BASE_URL.removesuffix(":8000"),
    BASE_URL.removeprefix("http://"),
)


async def test_an_allowed_origin_opens_it(world: HttpDeployment, site: ChannelServer) -> None:
    """The origins of the base URL and of the settings are accepted in any spelling."""
    for origin in ALLOWED_ORIGINS:
        async with site.connect_client(world.customer, origin=origin) as ada:
            assert ada.ready["user_id"] == world.customer.id


async def test_any_other_origin_is_403(world: HttpDeployment, site: ChannelServer) -> None:
    """A foreign, malformed or missing origin is refused with `foreign_origin` despite a valid
    session."""
    token = await site.sign_in(world.customer)
    for origin in REFUSED_ORIGINS:
        answer, body = await site.rejected_handshake(f"connect.sid={token}", origin=origin)
        assert (answer.status_code, body["code"]) == (403, "foreign_origin"), origin


async def test_the_session_is_checked_before_the_origin(site: ChannelServer) -> None:
    """Without a session a foreign origin gets 401, since the session is checked first."""
    answer, _ = await site.rejected_handshake(None, origin="https://evil.example")
    assert answer.status_code == 401


# Connection limits ----------------------------------------------------------------------


async def test_the_eleventh_connection_is_429(world: HttpDeployment, site: ChannelServer) -> None:
    """The eleventh connection of a user is 429 until another one is closed, and another user is not
    affected."""
    token = await site.sign_in(world.customer)
    cookie = f"connect.sid={token}"
    async with AsyncExitStack() as stack:
        ten = [
            await stack.enter_async_context(site.connect_client(world.customer, token))
            for _ in range(10)
        ]
        answer, body = await site.rejected_handshake(cookie)
        assert (answer.status_code, body["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) == body["retry_after"] > 0
        await stack.enter_async_context(site.connect_client(world.companion))
        await ten[4].socket.close()
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while not await _can_open(site, cookie):
                pass


async def _can_open(site: ChannelServer, cookie: str) -> bool:
    try:
        async with site.open_websocket(cookie):
            return True
    except InvalidStatus:
        return False


async def test_connections_of_all_servers_count(world: HttpDeployment, site: ChannelServer) -> None:
    """The limit counts the connections of a user on all servers."""
    token = await site.sign_in(world.customer)
    async with serve_channel(world.ports) as other, AsyncExitStack() as stack:
        for place in (site, other) * 5:
            await stack.enter_async_context(place.connect_client(world.customer, token))
        for place in (site, other):
            assert (await place.rejected_handshake(f"connect.sid={token}"))[0].status_code == 429


async def test_refused_handshakes_are_not_counted(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Eleven refused handshakes leave room for ten connections."""
    token = await site.sign_in(world.customer)
    for _ in range(11):
        await site.rejected_handshake(f"connect.sid={token}", origin=None)
    async with AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(site.connect_client(world.customer, token))


# Other requests -------------------------------------------------------------------------


async def test_another_path_is_404(world: HttpDeployment, site: ChannelServer) -> None:
    """A handshake at any other path is refused with 404."""
    token = await site.sign_in(world.customer)
    for path in ("/", "/ws/", "/wss", "/WS", "/api/v1/companions", "/nope"):
        answer, body = await site.rejected_handshake(f"connect.sid={token}", path=path)
        assert (answer.status_code, body["code"]) == (404, "not_found")


async def test_a_plain_request_is_426(world: HttpDeployment, site: ChannelServer) -> None:
    """A GET without upgrade is 426 with the required headers and without rate limit headers."""
    async with plain_http_client(base_url=f"http://127.0.0.1:{site.port}") as client:
        for headers in ({}, {"cookie": f"connect.sid={await site.sign_in(world.customer)}"}):
            answer = await client.get("/ws", headers=headers)
            error_body(answer, 426, "upgrade_required")
            assert answer.headers["upgrade"] == "websocket"
            assert answer.headers["sec-websocket-version"] == "13"
            assert "x-ratelimit-limit" not in answer.headers


MALFORMED_HEADERS: tuple[dict[str, str], ...] = (
    {"sec-websocket-version": "12"},
    {"sec-websocket-version": ""},
    {"sec-websocket-key": ""},
    {"sec-websocket-key": "short"},
    {"sec-websocket-key": "!" * 24},
    {"upgrade": "h2c"},
    {"connection": "upgrade, a b"},
    {"x-long": "x" * 9000},
)


async def test_a_malformed_handshake_is_426(site: ChannelServer) -> None:
    """A handshake with an invalid or overlong header is 426."""
    async with plain_http_client() as client:
        for changes in MALFORMED_HEADERS:
            headers = {**HANDSHAKE, **changes}
            answer = await client.get(f"http://127.0.0.1:{site.port}/ws", headers=headers)
            error_body(answer, 426, "upgrade_required")


async def test_a_repeated_header_is_426(site: ChannelServer) -> None:
    """A handshake with a repeated key, version, upgrade or another origin is 426."""
    async with plain_http_client() as client:
        for name in ("sec-websocket-key", "sec-websocket-version", "upgrade", "origin"):
            twice = [
                *HANDSHAKE.items(),
                (name, HANDSHAKE.get(name, "https://other.test")),
                ("origin", BASE_URL),
            ]
            answer = await client.get(f"http://127.0.0.1:{site.port}/ws", headers=twice)
            error_body(answer, 426, "upgrade_required")


async def test_another_method_is_405(site: ChannelServer) -> None:
    """Other methods are 405, with and without handshake headers."""
    async with plain_http_client(base_url=f"http://127.0.0.1:{site.port}") as client:
        for method in ("POST", "PUT", "DELETE"):
            for headers in ({}, HANDSHAKE):
                answer = await client.request(method, "/ws", headers=headers)
                error_body(answer, 405, "method_not_allowed")
                assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_a_head_that_is_too_long_is_426(site: ChannelServer) -> None:
    """A handshake is 426 with a head longer than the WebSocket parser accepts."""
    long = "?" + "x" * 9000
    many = {f"x-{number}": "x" for number in range(130)}
    async with plain_http_client(base_url=f"http://127.0.0.1:{site.port}") as client:
        for query, more in ((long, {}), ("", many)):
            answer = await client.get(f"/ws{query}", headers={**HANDSHAKE, **more})
            error_body(answer, 426, "upgrade_required")


async def test_a_path_that_is_not_ascii_is_400(site: ChannelServer) -> None:
    """A handshake with a non-ASCII path is 400."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    head, _ = await raw(site.port, b"GET /\xff HTTP/1.1\r\n" + lines.encode() + b"\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")


# Failures -------------------------------------------------------------------------------


async def test_a_store_out_of_reach_is_503(world: HttpDeployment) -> None:
    """A handshake is 503 with `retry-after` when the store is unreachable."""
    world.restart(admission=_UnreachableAdmission())
    async with serve_channel(world.ports) as site:
        answer, body = await site.rejected_handshake("connect.sid=guess")
    assert (answer.status_code, body["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


class _UnreachableAdmission:
    async def authenticate_session(self, *_: object) -> None:
        raise StoreUnavailable("gone")


async def test_an_unexpected_error_is_500(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is 500, and the log has one record with the request id of the
    response."""
    world.restart(admission=_BrokenAdmission())
    async with serve_channel(world.ports) as site:
        answer, body = await site.rejected_handshake("connect.sid=guess")
    assert (answer.status_code, set(body)) == (500, {"error", "code", "request_id"})
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert body["request_id"] in record.getMessage()


class _BrokenAdmission:
    async def authenticate_session(self, *_: object) -> None:
        raise RuntimeError("secret")


async def test_nothing_of_it_is_logged(
    world: HttpDeployment, site: ChannelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Successful and refused handshakes and their frames are not logged at INFO."""
    caplog.set_level(logging.INFO)
    async with site.connect_client(world.customer) as ada:
        await ada.send_message(await add_shared_conversation(world), "between us")
        await ada.socket.send("garbage")
        await ada.socket.send(b"\xff")
        await ada.next_data("error")
    await site.rejected_handshake("connect.sid=guess")
    await site.rejected_handshake(None, path="/nope")
    async with plain_http_client() as client:
        await client.get(
            f"http://127.0.0.1:{site.port}/ws", headers={**HANDSHAKE, **MALFORMED_HEADERS[0]}
        )
    records = [each for each in caplog.records if each.name.startswith(("uvicorn", "staffbooking"))]
    assert records == []


async def test_the_head_timeout_does_not_close_connections(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout of a request head does not close an open connection."""
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_SECONDS", 0.05)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        assert await raw(site.port, b"") == (b"", b"")  # The timeout has passed.
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_invalid_frames_before_the_answer_end_it(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """Invalid frames before the answer end the connection without an answer or a warning."""
    invalid_utf_8 = b"\x81\x81\0\0\0\0\xff"
    many_fragments = b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 2000
    invalid_header = b"\xff" * 10
    lines = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    for frames in (invalid_utf_8, many_fragments, invalid_header):
        slow = _SlowAdmission()
        world.restart(admission=slow)
        async with serve_channel(world.ports) as site:
            async with await anyio.connect_tcp("127.0.0.1", site.port) as stream:
                cookie = "host: localhost\r\ncookie: connect.sid=guess"
                await stream.send(f"GET /ws HTTP/1.1\r\n{lines}{cookie}\r\n\r\n".encode())
                await slow.has_request.wait()
                await stream.send(frames)
                with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS), suppress(anyio.BrokenResourceError):
                    assert [part async for part in stream] == []
            slow.may_answer.set()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


class _SlowAdmission:
    """Finds no session, but answers only when `may_answer` is set."""

    def __init__(self) -> None:
        self.has_request, self.may_answer = anyio.Event(), anyio.Event()

    async def authenticate_session(self, *_: object) -> None:
        self.has_request.set()
        await self.may_answer.wait()


async def test_an_unfinished_handshake_times_out(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unfinished handshake is closed without an answer after the head timeout."""
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_SECONDS", 0.05)
    async with serve_channel(world.ports) as site:
        assert await raw(site.port, b"GET /ws HTTP/1.1\r\nupgrade: web") == (b"", b"")
