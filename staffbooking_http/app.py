"""The ASGI application: the interface's pipeline, the channel, and Litestar with the pages.

What is in the table goes straight to the pipeline, past the framework; a path of nothing
ends there too. So every answer of the interface has the shapes and headers of the contract.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_adapters.settings import Network
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.api.endpoint import Endpoint, Header, Message, Receive, Scope, Send, Site
from staffbooking_http.api.errors import other_method, unknown_path
from staffbooking_http.api.pipeline import Pipeline, Resource, respond
from staffbooking_http.api.router import Router
from staffbooking_http.channel import handshake, socketio
from staffbooking_http.channel.frames import CHANNEL_PATH
from staffbooking_http.channel.hub import Switchboard
from staffbooking_http.channel.socketio import SocketIo
from staffbooking_http.channel.websocket import WebSocket
from staffbooking_http.docs import openapi
from staffbooking_http.pages import app
from staffbooking_http.routes import FAMILIES, SANDBOX


@frozen
class _Page:
    """What the router finds where a page is."""

    allow: bytes

    def answers(self, method: str) -> bool:
        return method.encode() in self.allow.split(b", ")


class Application:
    """One service over HTTP, on ports that are open as long as it serves. The channel is open
    while it is `running`."""

    def __init__(
        self, ports: Ports, *, proxies: tuple[Network, ...] = (), origins: Iterable[str] = ()
    ) -> None:
        """`origins` are those whose pages may open the channel, besides the base URL's."""
        bench = ports.policy.sandbox and ports.sandbox is not None
        families = {**FAMILIES, **SANDBOX} if bench else FAMILIES
        document = openapi.document(families, ports.policy)
        headers = security_headers(ports.policy, API_POLICY)
        self.switchboard = Switchboard(ports)
        encoded, traffic = codec.encode(document), self.switchboard.traffic
        site = Site(ports, encoded, proxies, headers, traffic=traffic)
        allowed = handshake.origins(ports.policy.base_url, origins)
        self._site = site
        self._websocket = WebSocket(site, self.switchboard, allowed)
        self._socketio = SocketIo(site, self.switchboard, allowed)
        self._pages = app.create_pages(sandbox=ports.sandbox is not None)
        self._of_pages = {"site": site, "document": document}
        self._pipeline = Pipeline(site)
        self._page_headers = security_headers(ports.policy, app.POLICY)
        entries: list[tuple[str, Resource | _Page]] = [
            (path, Resource(site, rows)) for path, rows in _by_path(families)
        ]
        entries += [
            (path, _Page(", ".join((*methods, "OPTIONS")).encode()))
            for path, methods in app.methods(self._pages).items()
        ]
        self._router = Router(entries)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the channel open; when the context ends, its connections do."""
        async with self._socketio.running(), self.switchboard.running():
            yield

    async def retire(self) -> None:
        """Take no more connections of the channel, and end those that are there: for a restart."""
        self._socketio.retire()
        await self.switchboard.retire()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, send)
            case "websocket":
                await self._connect(scope, receive, send)
            case _:
                await self._pages(scope, receive, send)  # type: ignore[arg-type]

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == CHANNEL_PATH:
            await self._websocket(scope, receive, send)
        elif scope["path"] in socketio.PATHS:
            await self._socketio(scope, receive, send)
        else:
            await receive()
            await handshake.refuse(self._site, scope, send, unknown_path())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in socketio.PATHS:
            await self._socketio(scope, receive, send)
            return
        match self._router.find(scope["path"]):
            case None:
                await self._pipeline(scope, receive, send, None)
            case Resource() as resource, params:
                await self._pipeline(scope, receive, send, resource, params)
            case page, _:
                await self._page(page, scope, receive, send)

    async def _page(self, page: _Page, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Litestar answer, with our headers; HEAD is GET without a body."""
        method = scope["method"]
        if method == "OPTIONS" or not page.answers(method):
            await respond(send, other_method(method, page.allow), self._page_headers)
            return
        bodiless = method == "HEAD"

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._page_headers]
            elif bodiless:
                message = {**message, "body": b""}
            await send(message)

        state = {**scope.get("state", {}), **self._of_pages}
        asked = {**scope, "method": "GET" if bodiless else method, "state": state}
        await self._pages(asked, receive, dressed)  # type: ignore[arg-type]


API_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""JSON shows and loads nothing, wherever a browser may open it."""


def security_headers(policy: Policy, content_policy: str) -> tuple[Header, ...]:
    """What every response bears (RELIABILITY 2.1)."""
    headers: tuple[Header, ...] = (
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", content_policy.encode("ascii")),
    )
    if policy.base_url.startswith("https:"):
        headers += ((b"strict-transport-security", b"max-age=31536000"),)
    return headers


def _by_path(families: dict[str, tuple[Endpoint, ...]]) -> Iterator[tuple[str, list[Endpoint]]]:
    rows = [row for family in families.values() for row in family]
    for path in dict.fromkeys(row.path for row in rows):
        yield path, [row for row in rows if row.path == path]
