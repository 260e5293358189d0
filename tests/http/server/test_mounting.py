"""The application below a prefix: in Litestar, in plain ASGI, behind a proxy; with an embedder's
plugin, middleware, lifespan and routes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve
from litestar import Litestar, WebSocket, asgi, get, websocket
from litestar.config.app import AppConfig
from litestar.exceptions import NotAuthorizedException
from litestar.middleware import ASGIMiddleware
from litestar.params import FromPath
from litestar.plugins import InitPlugin
from litestar.testing import AsyncTestClient
from litestar.types import ASGIApp, Receive, Scope, Send

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import add_session
from staffbooking_http import create_app
from staffbooking_http.app import StaffbookingApp
from staffbooking_http.channel.frames import CHANNEL_PATH
from tests.http.deployment import BASE_URL, TEST_PASSWORD, HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

PREFIX = "/booking"
AnyApp = Callable[[Any, Any, Any], Any]


class HeaderMiddleware(ASGIMiddleware):
    """Adds a header to responses, and refuses requests with a `refuse` header."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        if any(name == b"refuse" for name, _ in scope["headers"]):
            raise NotAuthorizedException("Not here")

        async def mark(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-embedder", b"yes")]
            await send(message)

        await next_app(scope, receive, mark)


@get("/hello/{name:str}")
async def show_hello(name: FromPath[str]) -> str:
    return f"Hello {name}"


@get("/failing")
async def fail() -> str:
    raise RuntimeError("planted")


@websocket("/echo")
async def echo(socket: WebSocket[Any, Any, Any]) -> None:
    await socket.accept()
    await socket.send_text(await socket.receive_text())
    await socket.close()


class RoutesPlugin(InitPlugin):
    """Adds routes and the middleware."""

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        app_config.route_handlers += [show_hello, fail, echo]
        app_config.middleware.append(HeaderMiddleware())
        return app_config


def mount_in_litestar(app: StaffbookingApp) -> AnyApp:
    """Mount in another Litestar application."""

    @asgi(PREFIX, is_mount=True, copy_scope=True)
    async def mount(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return Litestar([mount], openapi_config=None, logging_config=None)


def mount_with_full_path(app: StaffbookingApp) -> AnyApp:
    """Mount as the ASGI specification says: the path begins with the root path."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": PREFIX}, receive, send)

    return outer


def mount_with_stripped_path(app: StaffbookingApp) -> AnyApp:
    """Mount as older frameworks do: the path excludes the root path."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"].removeprefix(PREFIX)
        await app({**scope, "root_path": PREFIX, "path": path}, receive, send)

    return outer


def mount_nowhere(app: StaffbookingApp) -> AnyApp:
    """No mount: the server knows no prefix, and every path contains it."""
    return app


MOUNTS = [mount_in_litestar, mount_with_full_path, mount_with_stripped_path, mount_nowhere]


def mount_world(
    world: HttpDeployment, mount: Callable[[StaffbookingApp], AnyApp]
) -> StaffbookingApp:
    """Serve the deployment below the prefix, with the plugin; returns the application itself."""
    base_url = f"{BASE_URL}{PREFIX}"
    processor = FakeProcessor(
        MemoryFakeDocumentStore(), world.clock, base_url=base_url, secret=b"s" * 32
    )
    policy = evolve(world.ports.policy, base_url=base_url)
    world.restart(policy=policy, payments=processor, sandbox=processor.sandbox)
    app = create_app(world.ports, plugins=[RoutesPlugin()])
    world.app = mount(app)  # type: ignore[assignment]
    return app


@pytest.mark.parametrize("mount", MOUNTS)
async def test_a_booking_is_paid_below_a_prefix(world: HttpDeployment, mount: Any) -> None:
    """A booking is requested, accepted and paid below a prefix, which links and the document
    contain."""
    mount_world(world, mount)
    customer = await world.signed_in_client(world.customer.id)
    staff = await world.signed_in_client(world.companion.id)
    made = await world.client_with_key().post(
        f"{PREFIX}/api/v1/bookings", json=world.request_body()
    )
    path = f"{PREFIX}/bookings/{json_body(made, 201)['booking']['id']}"
    json_body(await staff.post(f"{path}/accept"))
    page = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert page.startswith(f"{BASE_URL}{PREFIX}/sandbox/checkout/")
    assert (await customer.get(page)).status_code == 200
    assert json_body(await customer.post(page, json={"outcome": "succeed"}))["state"] == "paid"
    shown = await customer.get(path)
    assert json_body(shown)["booking"]["status"] == "paid"
    assert shown.headers["x-embedder"] == "yes"
    document = json_body(await customer.get(f"{PREFIX}/openapi.json"))
    assert document["servers"] == [{"url": f"{BASE_URL}{PREFIX}"}]
    error_body(await customer.get(f"{PREFIX}/bookings/"), 404, "not_found")
    error_body(await customer.get(f"{PREFIX}/nothing"), 404, "not_found")


@pytest.mark.parametrize("mount", MOUNTS)
async def test_people_sign_in_below_a_prefix(world: HttpDeployment, mount: Any) -> None:
    """Redirects, forms, links and the cookie's path have the prefix."""
    mount_world(world, mount)
    client = world.client()
    led = await client.get(f"{PREFIX}/account")
    assert led.headers["location"] == f"{PREFIX}/account/sign-in?next=%2Faccount"
    form = await client.get(led.headers["location"])
    assert form.headers["x-embedder"] == "yes"
    wanted = {"email": "ada@example.com", "password": TEST_PASSWORD}
    answer = await client.post(led.headers["location"], data=wanted)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}/account")
    assert f"; Path={PREFIX}; " in answer.headers["set-cookie"]
    account = await client.get(answer.headers["location"])
    links = re.findall(r'(?:href|action|src)="([^"]*)"', account.text)
    assert len(links) > 5
    assert [link for link in links if not link.startswith((PREFIX, "?", "#"))] == []
    home = await client.get(PREFIX)
    assert (home.status_code, "Sign out" in home.text) == (200, True)


@pytest.mark.parametrize("mount", MOUNTS)
async def test_the_channel_opens_below_a_prefix(world: HttpDeployment, mount: Any) -> None:
    """WebSocket and Socket.IO handshakes succeed below a prefix."""
    app = mount_world(world, mount)
    token = world.ports.ids.token()
    await add_session(world.store, world.customer.id, token=token, seen_at=world.clock.now)
    client = world.client(cookie=f"connect.sid={token}", origin=BASE_URL)
    async with app.lifespan():
        answer = await client.get(f"{PREFIX}/socket.io/?EIO=4&transport=polling")
        assert (answer.status_code, answer.text[:1]) == (200, "0")
        sent = await open_websocket(world.app, f"{PREFIX}{CHANNEL_PATH}", token)
        assert sent[0]["type"] == "websocket.accept"
        nothing = await open_websocket(world.app, f"{PREFIX}{CHANNEL_PATH}/", token)
        assert nothing[0]["status"] == 404


async def open_websocket(app: Any, path: str, token: str) -> list[dict[str, Any]]:
    """Connect, send a word and disconnect; returns the messages sent to the client."""
    sent: list[dict[str, Any]] = []
    told: Iterator[dict[str, Any]] = iter(
        [
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "text": "word"},
            {"type": "websocket.disconnect", "code": 1000},
        ]
    )

    async def receive() -> dict[str, Any]:
        return next(told)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "extensions": {"websocket.http.response": {}},
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (b"cookie", f"connect.sid={token}".encode()),
            (b"origin", BASE_URL.encode()),
        ],
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("mount", [mount_in_litestar, mount_nowhere])
async def test_an_embedders_routes_are_served(world: HttpDeployment, mount: Any) -> None:
    """An embedder's routes and WebSockets are served, and a failure there is 500 `internal`."""
    mount_world(world, mount)
    client = world.client()
    hello = await client.get(f"{PREFIX}/hello/you")
    assert (hello.text, hello.headers["x-embedder"]) == ("Hello you", "yes")
    assert (await client.post(f"{PREFIX}/hello/you")).status_code == 405
    failed = error_body(await client.get(f"{PREFIX}/failing"), 500, "internal")
    assert failed["request_id"]
    sent = await open_websocket(world.app, f"{PREFIX}/echo", "none")
    assert [each["type"] for each in sent][:2] == ["websocket.accept", "websocket.send"]


async def test_middleware_may_refuse(world: HttpDeployment) -> None:
    """An exception of the middleware is the response of endpoints, unknown paths and pages."""
    mount_world(world, mount_nowhere)
    client = world.client(refuse="yes")
    for path in ("/healthz", "/nothing", "/docs"):
        error_body(await client.get(f"{PREFIX}{path}"), 401, "unauthorized")
    assert "Not here" in (await client.get(PREFIX, headers={"accept": "text/html"})).text


async def test_litestars_test_client_runs_it(world: HttpDeployment) -> None:
    """The embedder's lifespan is entered and left, and the channel is open during it."""
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        entered.append("entered")
        yield
        entered.append("left")

    app = create_app(world.ports, lifespan=[lifespan])
    async with AsyncTestClient(app) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert app.hub.is_open
        assert entered == ["entered"]
    assert entered == ["entered", "left"]
    assert not app.hub.is_open


async def test_an_errors_request_id_is_that_of_the_header(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request id in the error of a page is that of the response's header."""

    class Broken:
        async def find_companions(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("planted")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("planted")

    world.restart(store=Broken())
    customer = await world.signed_in_client(world.customer.id)
    for path in ("/find?location=Lisbon", "/bookings"):
        answer = await customer.get(path)
        assert error_body(answer, 500, "internal")["request_id"] == answer.headers["x-request-id"]


async def test_every_response_has_a_request_id(world: HttpDeployment) -> None:
    """Every response has a different request id, for endpoints, pages, other methods and unknown
    paths."""
    client = world.client()
    answers = [
        await client.request(method, path)
        for method in ("GET", "OPTIONS", "DELETE")
        for path in ("/healthz", "/docs", "/nothing")
    ]
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


def test_the_package_loads_the_application_at_first_use() -> None:
    """`import staffbooking_http` loads no framework until `create_app` is accessed."""
    code = (
        "import sys, staffbooking_http; assert 'litestar' not in sys.modules; "
        "staffbooking_http.create_app; assert 'litestar' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_has_nothing_else() -> None:
    """An unknown name of the package is an AttributeError."""
    import staffbooking_http

    with pytest.raises(AttributeError, match="nothing"):
        _ = staffbooking_http.nothing
