"""The ASGI application: the interface's pipeline, the channel, and Litestar with the pages.

What is in the table goes straight to the pipeline, past the framework; a path of nothing
ends there too. So every answer of the interface has the shapes and headers of the contract.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.api.endpoint import (
    AppContext,
    AsgiMessage,
    Endpoint,
    Header,
    Receive,
    Scope,
    Send,
)
from staffbooking_http.api.errors import method_not_allowed_reply, unknown_path_error
from staffbooking_http.api.pipeline import Pipeline, Resource, send_reply
from staffbooking_http.api.router import Router
from staffbooking_http.channel import handshake, socketio
from staffbooking_http.channel.frames import CHANNEL_PATH
from staffbooking_http.channel.hub import ChannelHub
from staffbooking_http.channel.socketio import SocketIoApp
from staffbooking_http.channel.websocket import WebSocketApp
from staffbooking_http.docs import openapi
from staffbooking_http.pages import app
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG


@frozen
class _PageResource:
    """What the router finds where a page is."""

    allow: bytes

    def allows(self, method: str) -> bool:
        return method.encode() in self.allow.split(b", ")


class Application:
    """One service over HTTP, on ports that are open as long as it serves. The channel is open
    while it is `running`."""

    def __init__(
        self,
        ports: Ports,
        *,
        trusted_proxies: tuple[IpNetwork, ...] = (),
        allowed_origins: Iterable[str] = (),
    ) -> None:
        """`origins` are those whose pages may open the channel, besides the base URL's."""
        has_sandbox = ports.policy.sandbox and ports.sandbox is not None
        families = (
            {**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG} if has_sandbox else ENDPOINTS_BY_TAG
        )
        document = openapi.build_document(families, ports.policy)
        headers = security_headers(ports.policy, API_CONTENT_SECURITY_POLICY)
        self.hub = ChannelHub(ports)
        encoded, traffic = codec.encode(document), self.hub.metrics
        site = AppContext(ports, encoded, trusted_proxies, headers, channel_metrics=traffic)
        normalized_origins = handshake.normalize_origins(ports.policy.base_url, allowed_origins)
        self._site = site
        self._websocket = WebSocketApp(site, self.hub, normalized_origins)
        self._socketio = SocketIoApp(site, self.hub, normalized_origins)
        self._pages = app.create_pages(sandbox=ports.sandbox is not None)
        self._page_state = {"site": site, "document": document}
        self._pipeline = Pipeline(site)
        self._page_headers = security_headers(ports.policy, app.PAGE_CONTENT_SECURITY_POLICY)
        entries: list[tuple[str, Resource | _PageResource]] = [
            (path, Resource(site, rows)) for path, rows in _endpoints_by_path(families)
        ]
        entries += [
            (path, _PageResource(", ".join((*methods, "OPTIONS")).encode()))
            for path, methods in app.page_methods(self._pages).items()
        ]
        self._router = Router(entries)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the channel open; when the context ends, its connections do."""
        async with self._socketio.running(), self.hub.running():
            yield

    async def retire(self) -> None:
        """Take no more connections of the channel, and end those that are there: for a restart."""
        self._socketio.retire()
        await self.hub.retire()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._handle_http(scope, receive, send)
            case "websocket":
                await self._handle_websocket(scope, receive, send)
            case _:
                await self._pages(scope, receive, send)  # type: ignore[arg-type]

    async def _handle_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == CHANNEL_PATH:
            await self._websocket(scope, receive, send)
        elif scope["path"] in socketio.SOCKETIO_PATHS:
            await self._socketio(scope, receive, send)
        else:
            await receive()
            await handshake.reject_handshake(self._site, scope, send, unknown_path_error())

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in socketio.SOCKETIO_PATHS:
            await self._socketio(scope, receive, send)
            return
        match self._router.find(scope["path"]):
            case None:
                await self._pipeline(scope, receive, send, None)
            case Resource() as resource, params:
                await self._pipeline(scope, receive, send, resource, params)
            case page, _:
                await self._handle_page(page, scope, receive, send)

    async def _handle_page(
        self, page: _PageResource, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let Litestar answer, with our headers; HEAD is GET without a body."""
        method = scope["method"]
        if method == "OPTIONS" or not page.allows(method):
            await send_reply(send, method_not_allowed_reply(method, page.allow), self._page_headers)
            return
        bodiless = method == "HEAD"

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._page_headers]
            elif bodiless:
                message = {**message, "body": b""}
            await send(message)

        state = {**scope.get("state", {}), **self._page_state}
        page_scope = {**scope, "method": "GET" if bodiless else method, "state": state}
        await self._pages(page_scope, receive, send_with_headers)  # type: ignore[arg-type]


API_CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'"
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


def _endpoints_by_path(
    families: dict[str, tuple[Endpoint, ...]],
) -> Iterator[tuple[str, list[Endpoint]]]:
    rows = [row for family in families.values() for row in family]
    for path in dict.fromkeys(row.path for row in rows):
        yield path, [row for row in rows if row.path == path]
