"""Who may open a WebSocket, and how everybody else is refused."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import anyio
import httpx
import pytest
from attrs import evolve
from websockets.exceptions import InvalidStatus

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.accounts import administration
from staffbooking_http.server import server
from tests.http.deployment import BASE_URL, HttpDeployment, error_body
from tests.http.server.test_server import raw
from tests.support.builders import POLICY, SECOND
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    add_shared_conversation,
    serve_channel,
)

pytestmark = pytest.mark.anyio

OTHER = "https://app.example"
HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    async with serve_channel(world.ports, allowed_origins=(OTHER, "http://[::1]:8080")) as made:
        yield made


# Who ------------------------------------------------------------------------------------


async def test_a_session_opens_it(world: HttpDeployment, site: ChannelServer) -> None:
    """Whoever has a session is told `ready`, with their id and the last message."""
    async with site.connect_client(world.customer) as ada:
        assert ada.ready == {"user_id": world.customer.id, "last_message_id": 0}
        said = await ada.send_message(await add_shared_conversation(world), "Hello")
    async with site.connect_client(world.companion) as mia:
        assert mia.ready == {"user_id": world.companion.id, "last_message_id": said["id"]}


NO_SESSION = (None, "", "connect.sid=", "connect.sid=guess", "connect.sid=\xff", "other=1; sid=2")


async def test_without_a_session_it_is_401(site: ChannelServer) -> None:
    """No cookie, an empty one, a garbled one: the answer has the contract's shape, and tells of
    no window."""
    for cookie in NO_SESSION:
        answer, body = await site.rejected_handshake(cookie)
        assert (answer.status_code, body["code"]) == (401, "unauthenticated"), cookie
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"]
        assert not [name for name in answer.headers if name.lower().startswith("x-ratelimit")]


async def test_guesses_spend_no_window(world: HttpDeployment) -> None:
    """However many handshakes fail, the next one is 401, and a call of the address is served."""
    world.raise_limits(general=evolve(POLICY.limits.general, limit=3))
    async with serve_channel(world.ports) as site, httpx.AsyncClient() as client:
        for _ in range(5):
            assert (await site.rejected_handshake("connect.sid=guess"))[0].status_code == 401
        answer = await client.get(f"http://127.0.0.1:{site.port}/nope")
        assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (404, "3")


async def test_a_session_that_has_ended_opens_nothing(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Not after signing out, not after being disabled, not when it has idled out."""
    browser = await world.signed_in_client(world.customer.id)
    signed_out = browser.headers["cookie"].removeprefix("connect.sid=")
    async with site.connect_client(world.customer, signed_out):
        pass
    await browser.post("/auth/logout")
    disabled, idle = await site.sign_in(world.stranger), await site.sign_in(world.customer)
    await administration.disable_user(world.ports, world.stranger.email)
    world.clock.advance(POLICY.session_idle)
    for token in (signed_out, disabled, idle):
        answer, body = await site.rejected_handshake(f"connect.sid={token}")
        assert (answer.status_code, body["code"]) == (401, "unauthenticated")


async def test_opening_it_keeps_a_session_from_idling_out(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A handshake is a use of the session like any other."""
    token = await site.sign_in(world.customer)
    for _ in range(2):
        world.clock.advance(POLICY.session_idle - SECOND)
        async with site.connect_client(world.customer, token):
            pass


async def test_a_key_opens_nothing(world: HttpDeployment, site: ChannelServer) -> None:
    """An Authorization header decides, as everywhere: with it the cookie is not looked at."""
    token = await site.sign_in(world.customer)
    headers = [("authorization", f"Bearer {world.api_key}")]
    answer, body = await site.rejected_handshake(f"connect.sid={token}", headers=headers)
    assert (answer.status_code, body["code"]) == (401, "session_required")


# From where -----------------------------------------------------------------------------


OURS = (
    BASE_URL,
    BASE_URL.upper(),
    OTHER,
    "HTTPS://App.Example",
    f"{OTHER}:443",
    "http://[::1]:8080",
)
FOREIGN = (
    None,
    "",
    "null",
    "*",
    "https://evil.example",
    "https://app.example.evil.example",
    "https://evil-app.example",
    "http://app.example",
    f"{OTHER}:444",
    f"{OTHER}/",
    f"{OTHER}, {OTHER}",
    f"{OTHER}\xe9",
    BASE_URL.replace("127.0.0.1", "localhost"),
    BASE_URL.replace("8000", "80"),
    BASE_URL.removesuffix(":8000"),
    BASE_URL.removeprefix("http://"),
)


async def test_an_origin_of_ours_opens_it(world: HttpDeployment, site: ChannelServer) -> None:
    """Pages of the base URL and of the allowed origins, however they are spelled."""
    for origin in OURS:
        async with site.connect_client(world.customer, origin=origin) as ada:
            assert ada.ready["user_id"] == world.customer.id


async def test_any_other_origin_is_403(world: HttpDeployment, site: ChannelServer) -> None:
    """Foreign, misspelled or missing: a session alone opens nothing."""
    token = await site.sign_in(world.customer)
    for origin in FOREIGN:
        answer, body = await site.rejected_handshake(f"connect.sid={token}", origin=origin)
        assert (answer.status_code, body["code"]) == (403, "foreign_origin"), origin


async def test_who_comes_is_asked_before_where_from(site: ChannelServer) -> None:
    """Without a session a foreign page learns only that there is none."""
    answer, _ = await site.rejected_handshake(None, origin="https://evil.example")
    assert answer.status_code == 401


# How many -------------------------------------------------------------------------------


async def test_the_eleventh_connection_is_429(world: HttpDeployment, site: ChannelServer) -> None:
    """Ten of a user at a time; where one is closed there is room for another."""
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
    """The ten are of a user, wherever they are."""
    token = await site.sign_in(world.customer)
    async with serve_channel(world.ports) as other, AsyncExitStack() as stack:
        for place in (site, other) * 5:
            await stack.enter_async_context(place.connect_client(world.customer, token))
        for place in (site, other):
            assert (await place.rejected_handshake(f"connect.sid={token}"))[0].status_code == 429


async def test_a_refused_handshake_counts_for_nothing(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Eleven from a foreign page leave room for all ten from ours."""
    token = await site.sign_in(world.customer)
    for _ in range(11):
        await site.rejected_handshake(f"connect.sid={token}", origin=None)
    async with AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(site.connect_client(world.customer, token))


# What is no handshake -------------------------------------------------------------------


async def test_another_path_is_404(world: HttpDeployment, site: ChannelServer) -> None:
    """There is one WebSocket; a refusal is JSON, too."""
    token = await site.sign_in(world.customer)
    for path in ("/", "/ws/", "/wss", "/WS", "/api/v1/companions", "/nope"):
        answer, body = await site.rejected_handshake(f"connect.sid={token}", path=path)
        assert (answer.status_code, body["code"]) == (404, "not_found")


async def test_a_plain_request_is_426(world: HttpDeployment, site: ChannelServer) -> None:
    """Whoever only looks is told to ask for a WebSocket."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}") as client:
        for headers in ({}, {"cookie": f"connect.sid={await site.sign_in(world.customer)}"}):
            answer = await client.get("/ws", headers=headers)
            error_body(answer, 426, "upgrade_required")
            assert answer.headers["upgrade"] == "websocket"
            assert answer.headers["sec-websocket-version"] == "13"
            assert "x-ratelimit-limit" not in answer.headers


ODD: tuple[dict[str, str], ...] = (
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
    """What is no handshake to the letter is a plain request."""
    async with httpx.AsyncClient() as client:
        for odd in ODD:
            headers = {**HANDSHAKE, **odd}
            answer = await client.get(f"http://127.0.0.1:{site.port}/ws", headers=headers)
            error_body(answer, 426, "upgrade_required")


async def test_two_of_what_may_come_once_are_426(site: ChannelServer) -> None:
    """Two keys, two versions, two origins: nobody guesses which one is meant."""
    async with httpx.AsyncClient() as client:
        for name in ("sec-websocket-key", "sec-websocket-version", "upgrade", "origin"):
            twice = [
                *HANDSHAKE.items(),
                (name, HANDSHAKE.get(name, BASE_URL)),
                ("origin", BASE_URL),
            ]
            answer = await client.get(f"http://127.0.0.1:{site.port}/ws", headers=twice)
            error_body(answer, 426, "upgrade_required")


async def test_another_method_is_405(site: ChannelServer) -> None:
    """With and without the headers of a handshake."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}") as client:
        for method in ("POST", "PUT", "DELETE"):
            for headers in ({}, HANDSHAKE):
                answer = await client.request(method, "/ws", headers=headers)
                error_body(answer, 405, "method_not_allowed")
                assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_a_head_that_is_too_long_is_426(site: ChannelServer) -> None:
    """Longer than the WebSocket's own parser takes, though a request's head may be."""
    long = "?" + "x" * 9000
    many = {f"x-{number}": "x" for number in range(130)}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}") as client:
        for query, more in ((long, {}), ("", many)):
            answer = await client.get(f"/ws{query}", headers={**HANDSHAKE, **more})
            error_body(answer, 426, "upgrade_required")


async def test_a_path_that_is_not_ascii_is_400(site: ChannelServer) -> None:
    """As it is without the headers of a handshake."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    head, _ = await raw(site.port, b"GET /\xff HTTP/1.1\r\n" + lines.encode() + b"\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")


# What may go wrong ----------------------------------------------------------------------


async def test_a_store_out_of_reach_is_503(world: HttpDeployment) -> None:
    """The answer says when to come again, and nothing is left behind."""
    world.restart(admission=_Gone())
    async with serve_channel(world.ports) as site:
        answer, body = await site.rejected_handshake("connect.sid=guess")
    assert (answer.status_code, body["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


class _Gone:
    async def authenticate_session(self, *_: object) -> None:
        raise StoreUnavailable("gone")


async def test_a_fault_of_ours_is_500(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer tells nothing but the name under which the log tells more."""
    world.restart(admission=_Broken())
    async with serve_channel(world.ports) as site:
        answer, body = await site.rejected_handshake("connect.sid=guess")
    assert (answer.status_code, set(body)) == (500, {"error", "code", "request_id"})
    [told] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert body["request_id"] in told.getMessage()


class _Broken:
    async def authenticate_session(self, *_: object) -> None:
        raise RuntimeError("secret")


async def test_nothing_of_it_is_logged(
    world: HttpDeployment, site: ChannelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither cookies nor what people say, whether a handshake succeeds or fails."""
    caplog.set_level(logging.INFO)
    async with site.connect_client(world.customer) as ada:
        await ada.send_message(await add_shared_conversation(world), "between us")
        await ada.socket.send("garbage")
        await ada.socket.send(b"\xff")
        await ada.next_data("error")
    await site.rejected_handshake("connect.sid=guess")
    await site.rejected_handshake(None, path="/nope")
    async with httpx.AsyncClient() as client:
        await client.get(f"http://127.0.0.1:{site.port}/ws", headers={**HANDSHAKE, **ODD[0]})
    told = [each for each in caplog.records if each.name.startswith(("uvicorn", "staffbooking"))]
    assert told == []


async def test_the_deadline_of_a_head_spares_connections(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is open a connection may be silent for as long as it likes."""
    monkeypatch.setattr(server, "HEAD_TIMEOUT_SECONDS", 0.05)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        assert await raw(site.port, b"") == (b"", b"")  # This took the deadline.
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_nonsense_before_the_answer_ends_it(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever does not wait for the answer, and sends what is no frame, is hung up on."""
    bad_utf_8 = b"\x81\x81\0\0\0\0\xff"
    no_end_of_pieces = b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 2000
    no_frame = b"\xff" * 10
    lines = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
    for nonsense in (bad_utf_8, no_end_of_pieces, no_frame):
        slow = _Slow()
        world.restart(admission=slow)
        async with serve_channel(world.ports) as site:
            async with await anyio.connect_tcp("127.0.0.1", site.port) as stream:
                cookie = "cookie: connect.sid=guess"
                await stream.send(f"GET /ws HTTP/1.1\r\n{lines}{cookie}\r\n\r\n".encode())
                await slow.is_asked.wait()
                await stream.send(nonsense)
                with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS), suppress(anyio.BrokenResourceError):
                    assert [part async for part in stream] == []
            slow.may_answer.set()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


class _Slow:
    """Finds no session, but that takes a while."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = anyio.Event(), anyio.Event()

    async def authenticate_session(self, *_: object) -> None:
        self.is_asked.set()
        await self.may_answer.wait()


async def test_a_silent_handshake_holds_no_connection(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a handshake is cut off like half a request."""
    monkeypatch.setattr(server, "HEAD_TIMEOUT_SECONDS", 0.05)
    async with serve_channel(world.ports) as site:
        assert await raw(site.port, b"GET /ws HTTP/1.1\r\nupgrade: web") == (b"", b"")
