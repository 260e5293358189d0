"""Socket.IO handshakes: authentication, origins, and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import socketio
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.errors import StoreUnavailable
from tests.channel.socketio_clients import (
    SOCKETIO_PATH,
    WEBSOCKET_ONLY,
    connect_client,
    connect_polling_client,
)
from tests.http.deployment import BASE_URL, HttpDeployment, error_body
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    plain_http_client,
    serve_channel,
)

pytestmark = pytest.mark.anyio

ALLOWED_ORIGIN = "https://app.example"
WEBSOCKET_PATH = f"{SOCKETIO_PATH}?EIO=4&transport=websocket"


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    async with serve_channel(world.ports, allowed_origins=(ALLOWED_ORIGIN,)) as made:
        yield made


async def test_the_handshake_returns_the_parameters(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """The handshake returns upgrades, ping figures and the maximum payload, and a post's answer has
    `nosniff` and `no-store`, but neither cookies nor CORS headers."""
    async with connect_polling_client(site, world.customer) as ada:
        parameters = await ada.open()
        assert parameters | {"sid": ""} == {
            "sid": "",
            "upgrades": ["websocket"],
            "pingInterval": 20_000,
            "pingTimeout": 20_000,
            "maxPayload": 64 * 1024,
        }
        answer = await ada.post("40")
        assert (answer.status_code, answer.text) == (200, "ok")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


async def test_the_trailing_slash_is_optional(world: HttpDeployment, site: ChannelServer) -> None:
    """A handshake works with and without the trailing slash, and a longer path is 404."""
    async with connect_polling_client(site, world.customer) as ada:
        asked = {"EIO": "4", "transport": "polling"}
        for path in ("/socket.io/", "/socket.io"):
            assert (await ada.http.get(path, params=asked)).text.startswith("0{")
        error_body(await ada.http.get(f"{SOCKETIO_PATH}more", params=asked), 404, "not_found")


async def test_without_a_session_it_is_401(site: ChannelServer) -> None:
    """A handshake without a valid session is refused with 401, by polling and over a WebSocket."""
    for cookie in (None, "connect.sid=", "connect.sid=guess", "io=1"):
        headers = {} if cookie is None else {"cookie": cookie}
        async with connect_polling_client(site, **headers) as ada:
            answer = await ada.get()
            error_body(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"
        refusal, body = await site.rejected_handshake(cookie, path=WEBSOCKET_PATH)
        assert (refusal.status_code, body["code"]) == (401, "unauthenticated")


async def test_an_api_key_is_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """An API key in the Authorization header is refused with `session_required`, despite a valid
    cookie."""
    async with connect_polling_client(
        site, world.customer, authorization=f"Bearer {world.api_key}"
    ) as ada:
        error_body(await ada.get(), 401, "session_required")


async def test_allowed_origins_and_programs_connect(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A handshake succeeds with an allowed origin, without an origin, and with `sec-fetch-site`
    `same-origin` or `none`."""
    cookie = f"connect.sid={await site.sign_in(world.customer)}"
    for origin in (None, BASE_URL, ALLOWED_ORIGIN):
        headers = {} if origin is None else {"origin": origin}
        async with connect_polling_client(site, world.customer, **headers) as ada:
            await ada.connect()
        async with site.open_websocket(cookie, path=WEBSOCKET_PATH, origin=origin) as socket:
            assert str(await socket.recv()).startswith("0{")
    for where in ("same-origin", "none"):
        async with connect_polling_client(site, world.customer, **{"sec-fetch-site": where}) as ada:
            await ada.open()


async def test_foreign_origins_are_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """A foreign origin or a cross-site request is refused with `foreign_origin`."""
    cookie = f"connect.sid={await site.sign_in(world.customer)}"
    for origin in (
        "https://evil.example",
        "null",
        "",
        f"{ALLOWED_ORIGIN}.evil.example",
        "http://app.example",
    ):
        async with connect_polling_client(site, world.customer, origin=origin) as ada:
            answer = await ada.get()
        error_body(answer, 403, "foreign_origin")
        assert "access-control-allow-origin" not in answer.headers
        refusal, body = await site.rejected_handshake(cookie, path=WEBSOCKET_PATH, origin=origin)
        assert (refusal.status_code, body["code"]) == (403, "foreign_origin")
    for where in ("cross-site", "same-site", ""):
        async with connect_polling_client(site, world.customer, **{"sec-fetch-site": where}) as ada:
            error_body(await ada.get(), 403, "foreign_origin")


async def test_allowed_pages_may_read_answers(world: HttpDeployment, site: ChannelServer) -> None:
    """Answers and refusals carry CORS headers with the allowed origin of the request, and
    credentials."""
    for origin in (ALLOWED_ORIGIN, BASE_URL):
        async with connect_polling_client(site, world.customer, origin=origin) as ada:
            for answer in (await ada.get(), await ada.get(sid="nobody"), await ada.post("40")):
                assert answer.headers["access-control-allow-origin"] == origin
                assert answer.headers["access-control-allow-credentials"] == "true"
                assert answer.headers["vary"] == "origin"


async def test_preflight_requests(site: ChannelServer) -> None:
    """A preflight request of an allowed origin succeeds, and one of a foreign origin gets no CORS
    headers."""
    async with plain_http_client(base_url=f"http://127.0.0.1:{site.port}") as http:
        asked = {"access-control-request-method": "POST"}
        answer = await http.options(SOCKETIO_PATH, headers={"origin": ALLOWED_ORIGIN, **asked})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (
            204,
            ALLOWED_ORIGIN,
        )
        assert "POST" in answer.headers["access-control-allow-methods"]
        answer = await http.options(
            SOCKETIO_PATH, headers={"origin": "https://evil.example", **asked}
        )
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_other_protocols_are_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """Other versions and transports are refused with `bad_handshake`, by polling and over a
    WebSocket."""
    wrong = ({"EIO": "3"}, {"EIO": ""}, {"transport": "websocket"}, {"transport": "flash"})
    async with connect_polling_client(site, world.customer) as ada:
        for query in wrong:
            error_body(await ada.get(**query), 400, "bad_handshake")
        await ada.connect()
    cookie = f"connect.sid={await site.sign_in(world.customer)}"
    for asked in ("EIO=3&transport=websocket", "EIO=4&transport=polling", "EIO=4", ""):
        answer, body = await site.rejected_handshake(cookie, path=f"{SOCKETIO_PATH}?{asked}")
        assert (answer.status_code, body["code"]) == (400, "bad_handshake")


async def test_jsonp_is_not_supported(world: HttpDeployment, site: ChannelServer) -> None:
    """A request for JSONP is answered with plain text."""
    async with connect_polling_client(site, world.customer) as ada:
        answer = await ada.get(j="0")
        assert answer.text.startswith("0{")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_connection_begins_with_get(world: HttpDeployment, site: ChannelServer) -> None:
    """A POST without a connection is refused, and other methods than GET, POST and OPTIONS are
    405."""
    asked = {"EIO": "4", "transport": "polling"}
    async with connect_polling_client(site, world.customer) as ada:
        error_body(await ada.http.post(SOCKETIO_PATH, params=asked), 400, "bad_handshake")
        for method in ("HEAD", "PUT", "DELETE", "PATCH"):
            answer = await ada.http.request(method, SOCKETIO_PATH, params=asked)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST, OPTIONS")


async def test_a_connection_belongs_to_its_session(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A connection's id is 404 with another session, for polls, posts and upgrades, and 401 without
    one."""
    async with (
        connect_polling_client(site, world.customer) as ada,
        connect_polling_client(site, world.customer) as eve,
    ):
        await ada.connect()
        eve.sid = ada.sid
        error_body(await eve.get(sid=ada.sid), 404, "not_found")
        error_body(await eve.post("41"), 404, "not_found")
        error_body(await ada.get(sid="nobody"), 404, "not_found")
        path = f"{WEBSOCKET_PATH}&sid={ada.sid}"
        answer, body = await site.rejected_handshake(eve.http.headers["cookie"], path=path)
        assert (answer.status_code, body["code"]) == (404, "not_found")
        answer, body = await site.rejected_handshake(None, path=path)
        assert (answer.status_code, body["code"]) == (401, "unauthenticated")
        await ada.post('42["nothing",{}]')
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_an_id_is_no_credential(world: HttpDeployment, site: ChannelServer) -> None:
    """A connection's id without the session's cookie is 401, and from a foreign origin 403, for
    polls and posts."""
    async with (
        connect_polling_client(site, world.customer) as ada,
        connect_polling_client(site) as nobody,
    ):
        await ada.connect()
        nobody.sid = ada.sid
        error_body(await nobody.get(sid=ada.sid), 401, "unauthenticated")
        error_body(await nobody.post("41"), 401, "unauthenticated")
        for foreign in ({"origin": "https://other.test"}, {"sec-fetch-site": "cross-site"}):
            ada.http.headers.update(foreign)
            error_body(await ada.get(sid=ada.sid), 403, "foreign_origin")
            error_body(await ada.post("41"), 403, "foreign_origin")
            for name in foreign:
                del ada.http.headers[name]
        await ada.post('42["nothing",{}]')
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_the_python_client_connects_with_default_transports(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """python-socketio's client, which polls first, sends its Origin twice and the cookie with the
    handshake alone, connects and is upgraded to a WebSocket."""
    cookie = f"connect.sid={await site.sign_in(world.customer)}"
    client = socketio.AsyncClient(reconnection=False, handle_sigint=False)
    ready = anyio.Event()
    client.on("ready", lambda _: ready.set())
    await client.connect(
        f"http://127.0.0.1:{site.port}", headers={"Cookie": cookie, "Origin": BASE_URL}
    )
    try:
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            await ready.wait()
        assert client.transport() == "websocket"
    finally:
        await client.disconnect()


async def test_a_websocket_connection_is_not_polled(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A connection over a WebSocket refuses polls and posts, and a second WebSocket closes it."""
    async with connect_client(site, world.customer, WEBSOCKET_ONLY) as ada:
        cookie = f"connect.sid={ada.token}"
        async with connect_polling_client(site, cookie=cookie) as other:
            other.sid = ada.client.eio.sid
            error_body(await other.get(sid=other.sid), 400, "bad_handshake")
            error_body(await other.post("3"), 400, "bad_handshake")
        assert (await ada.call("nothing"))["code"] == "unknown_event"
        answer, _ = await site.rejected_handshake(
            cookie, path=f"{WEBSOCKET_PATH}&sid={ada.client.eio.sid}"
        )
        assert answer.status_code == 400
        await ada.wait_closed()


async def test_a_store_out_of_reach_is_503(world: HttpDeployment) -> None:
    """A handshake is 503 with `retry-after` when the store is unreachable."""

    class UnreachableAdmission:
        async def authenticate_session(self, *_: Any) -> None:
            raise StoreUnavailable("no connection")

    ports = evolve(world.ports, admission=UnreachableAdmission())  # type: ignore[arg-type]
    async with serve_channel(ports) as site:
        async with connect_polling_client(site, cookie="connect.sid=any") as ada:
            answer = await ada.get()
        error_body(answer, 503, "unavailable")
        assert answer.headers["retry-after"]


async def test_refused_handshakes_are_not_rate_limited(world: HttpDeployment) -> None:
    """Refused handshakes are not counted for the general limit and carry no rate limit headers."""
    limits = evolve(POLICY.limits, general=evolve(POLICY.limits.general, limit=1))
    world.restart(policy=evolve(POLICY, limits=limits))
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, cookie="connect.sid=guess") as ada,
    ):
        for _ in range(3):
            answer = await ada.get()
            error_body(answer, 401, "unauthenticated")
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
