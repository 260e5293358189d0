"""The service as a Litestar application, which serves the pages and supports plugins, middleware
and a lifespan.

Each request is first looked up in one table of endpoints and pages. Endpoints, the channel and
unknown paths are handled without Litestar, in the contract's formats (decision 0003).
"""

import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias
from urllib.parse import quote

from attrs import evolve, frozen
from litestar import Litestar
from litestar.config.compression import CompressionConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException, MethodNotAllowedException
from litestar.handlers import ASGIRouteHandler
from litestar.plugins import PluginProtocol
from litestar.types import Middleware
from litestar.utils import normalize_path

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.extras import MissingExtra, has_extra
from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.ports import Ports
from staffbooking_core.request_id import CURRENT_REQUEST_ID
from staffbooking_http.api.access_log import AccessLog
from staffbooking_http.api.endpoint import (
    REQUEST_ID_KEY,
    AppContext,
    AsgiMessage,
    Endpoint,
    Header,
    Receive,
    Reply,
    Scope,
    Send,
)
from staffbooking_http.api.errors import method_not_allowed_reply, unknown_path_error
from staffbooking_http.api.mounting import base_path, origin, strip_mount_path
from staffbooking_http.api.pipeline import Pipeline, Resource, allow_header, send_reply
from staffbooking_http.api.request_id import find_request_id
from staffbooking_http.api.router import Router
from staffbooking_http.api.security_headers import API_CONTENT_SECURITY_POLICY, security_headers
from staffbooking_http.channel.frames import CHANNEL_PATH, SOCKETIO_PATHS
from staffbooking_http.channel.handshake import normalize_origins, send_error
from staffbooking_http.channel.hub import ChannelHub
from staffbooking_http.channel.socketio_loader import SocketIoLoader
from staffbooking_http.channel.websocket import WebSocketApp
from staffbooking_http.docs import openapi
from staffbooking_http.pages import app as pages
from staffbooking_http.pages.problems import accepts_html, handle_error, problem_reply
from staffbooking_http.pages.rendering import create_environment, create_template_config
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG

AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Lifespan: TypeAlias = Callable[[Litestar], AbstractAsyncContextManager[Any]]


_LARGE_PAGE_COMPRESSION = CompressionConfig(backend="gzip", minimum_size=64 * 1024)
"""For the documentation: pages with somebody's data are smaller."""


@frozen
class PageResource:
    """The table entry of a page: its allowed methods."""

    methods: Sequence[str]
    allow: bytes

    def takes(self, method: str) -> bool:
        return method in self.methods


TableEntry: TypeAlias = "Resource | PageResource | SocketIoLoader | WebSocketApp"
Found: TypeAlias = "tuple[TableEntry, Sequence[str]] | None"
"""A table entry and the values of the path's parameters."""


def create_app(
    ports: Ports,
    *,
    trusted_proxies: tuple[IpNetwork, ...] = (),
    allowed_origins: Iterable[str] = (),
    plugins: Sequence[PluginProtocol] = (),
    middleware: Sequence[Middleware] = (),
    lifespan: Sequence[Lifespan] = (),
    access_log: AccessLog | None = None,
) -> "StaffbookingApp":
    """The service as a Litestar application. The ports must stay open while it serves.

    `allowed_origins` may open the channel, in addition to the base URL's origin.
    `plugins`, `middleware` and `lifespan` are passed to Litestar; the middleware wraps endpoints,
    the channel and pages. If the service is mounted below a prefix, the policy's base URL must end
    in that prefix. `access_log` gets a line for each request. Without the extra `socketio` the
    channel has WebSockets alone.
    """
    policy = ports.policy
    families = {**ENDPOINTS_BY_TAG}
    if policy.sandbox and ports.sandbox is not None:
        families |= SANDBOX_ENDPOINTS_BY_TAG
    document = openapi.ServedDocument(families, policy)
    hub = ChannelHub(ports)
    site = AppContext(
        ports,
        document.encode,
        trusted_proxies,
        security_headers(policy, API_CONTENT_SECURITY_POLICY),
        channel_metrics=hub.metrics,
    )
    origins = normalize_origins([origin(policy), *allowed_origins])
    return StaffbookingApp(
        site,
        families,
        document,
        hub,
        _make_socketio_app(site, hub, origins),
        WebSocketApp(site, hub, origins),
        plugins=[*plugins],
        middleware=[*middleware],
        lifespan=[*lifespan],
        access_log=access_log,
    )


def _make_socketio_app(
    site: AppContext, hub: ChannelHub, origins: Collection[str]
) -> SocketIoLoader | None:
    if not has_extra("socketio"):
        logging.getLogger("staffbooking.channel").info("%s", MissingExtra("socketio"))
        return None
    return SocketIoLoader(site, hub, origins)


class StaffbookingApp(Litestar):
    """The application that `create_app` composes. The channel is open during the lifespan.

    Further routes may be registered. Litestar handles them without the service's pipeline.
    """

    def __init__(
        self,
        site: AppContext,
        families: Mapping[str, Sequence[Endpoint]],
        document: openapi.ServedDocument,
        hub: ChannelHub,
        socketio: SocketIoLoader | None,
        websocket: WebSocketApp,
        *,
        access_log: AccessLog | None,
        lifespan: Sequence[Lifespan],
        **options: Any,
    ) -> None:
        policy = site.ports.policy
        is_logged = access_log is not None and access_log.is_enabled()
        self._access_log = access_log if is_logged else None
        self.hub = hub
        self._socketio = socketio
        self.site = site
        self._base_path = base_path(policy)
        self._database_seconds = policy.request_database_time.total_seconds()
        self._pipeline = Pipeline(site, self.to_error_page)
        content_policy = pages.content_security_policy(policy, site.ports.payments.checkout_origin)
        self._page_content_policy = content_policy.encode()
        self._page_security_headers = (
            *security_headers(policy, content_policy),
            (b"permissions-policy", pages.PERMISSIONS_POLICY.encode()),
            (b"cross-origin-opener-policy", b"same-origin"),
        )
        self._demo_bars = pages.make_demo_bars(site.ports)
        handlers = pages.page_handlers(
            sandbox=site.ports.sandbox is not None, testers=self._demo_bars is not None
        )
        endpoints: list[tuple[str, TableEntry]] = [
            (path, Resource(site, rows)) for path, rows in _endpoints_by_path(families)
        ]
        page_methods = pages.page_methods(handlers)
        self._shared_paths = page_methods.keys() & {path for path, _ in endpoints}
        page_entries: list[tuple[str, TableEntry]] = [
            (path, PageResource(methods, allow_header(methods)))
            for path, methods in page_methods.items()
            if path not in self._shared_paths
        ]
        transports: list[tuple[str, TableEntry]] = (
            [] if socketio is None else [(path, socketio) for path in SOCKETIO_PATHS]
        )
        self._tables: dict[str, Router[TableEntry]] = {
            "http": Router([*endpoints, *page_entries, *transports]),
            "websocket": Router([(CHANNEL_PATH, websocket), *transports]),
        }
        super().__init__(
            handlers,
            lifespan=[*lifespan, lambda _: self._run_channel()],
            state=State({"site": site, "document": document, **pages.page_state()}),
            template_config=create_template_config(self._base_path),
            exception_handlers={Exception: handle_error},
            compression_config=_LARGE_PAGE_COMPRESSION,
            openapi_config=None,
            logging_config=None,
            **options,
        )
        self._middleware_stack = self._build_middleware_stack()

    @asynccontextmanager
    async def _run_channel(self) -> AsyncIterator[None]:
        """Keep the channel open until the context ends."""
        socketio = nullcontext() if self._socketio is None else self._socketio.running()
        async with socketio, self.hub.running():
            yield
        if self._access_log is not None:
            self._access_log.flush()

    async def retire(self) -> None:
        """Refuse new channel connections and close the open ones, before a restart."""
        if self._socketio is not None:
            self._socketio.retire()
        await self.hub.retire()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request or a WebSocket, or run the lifespan."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        elif scope["type"] == "http":
            with DatabaseTime(self._database_seconds):
                await self._handle(scope, receive, send)
        else:  # A WebSocket: each of its events has a limit of its own.
            await self._handle(scope, receive, send)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request or a WebSocket."""
        scope = strip_mount_path(scope, self._base_path)
        request_id = scope[REQUEST_ID_KEY] = find_request_id(self.site, scope)
        outer = CURRENT_REQUEST_ID.set(request_id)
        access_log = self._access_log if scope["type"] == "http" else None
        entry = None if access_log is None else access_log.begin(scope, send)
        try:
            await self._route(scope, receive, send if entry is None else entry.send)
        finally:
            if access_log is not None and entry is not None:
                access_log.end(entry)
            CURRENT_REQUEST_ID.reset(outer)

    def _route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        found = self._tables[scope["type"]].find(scope["path"])
        if found is None and self._has_litestar_route(scope):
            return super().__call__(scope, receive, send)  # type: ignore[arg-type]
        if found and self._is_page(found[0], scope):
            return self._show_page(scope, receive, send)
        if self._middleware_stack is None:
            return self._answer(found, scope, receive, send)
        return self._answer_through_middleware(self._middleware_stack, scope, receive, send)

    def _is_page(self, entry: TableEntry, scope: Scope) -> bool:
        """Whether a page answers. A path may be a page to browsers, and a call of programs."""
        if isinstance(entry, PageResource):
            return entry.takes(scope["method"])
        is_shared = scope["path"] in self._shared_paths
        return is_shared and scope["method"] in ("GET", "HEAD") and accepts_html(scope)

    def _has_litestar_route(self, scope: Scope) -> bool:
        """Whether a further route matches. Litestar ignores doubled and trailing slashes; with
        them, a path of the service itself is unknown."""
        path = normalize_path(scope["path"])
        if self._tables[scope["type"]].find(path) is not None:
            return False
        try:
            self.asgi_router.handle_routing(path=path, method=scope.get("method"))
        except MethodNotAllowedException:
            return True
        except HTTPException:
            return False
        return True

    def _answer(self, found: Found, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Respond without Litestar: endpoints, the channel and unknown paths."""
        if found is None:
            return self._answer_unknown_path(scope, receive, send)
        entry, params = found
        if isinstance(entry, Resource):
            return self._pipeline(scope, receive, send, entry, params)
        if isinstance(entry, PageResource):
            return self._refuse_method(entry, scope, send)
        return entry(scope, receive, send)

    async def _refuse_method(self, page: PageResource, scope: Scope, send: Send) -> None:
        """Respond to a method that a page does not take. A browser that loads the address of a
        form, which only takes POST, is led to the nearest page above it."""
        if scope["method"] in ("GET", "HEAD") and accepts_html(scope):
            reply = Reply(303, headers=((b"location", self._page_above(scope["path"])),))
        else:
            reply = method_not_allowed_reply(scope["method"], page.allow)
            reply = self.to_error_page(scope, reply)
        await send_reply(send, reply, self.page_headers(scope[REQUEST_ID_KEY]))

    def _page_above(self, path: str) -> bytes:
        """The address of the nearest page above a path."""
        while path := path.rpartition("/")[0]:
            found = self._tables["http"].find(path)
            if path in self._shared_paths:
                break
            if found and isinstance(found[0], PageResource) and found[0].takes("GET"):
                break
        return f"{self._base_path}{quote(path) or '/'}".encode()

    def to_error_page(self, scope: Scope, reply: Reply) -> Reply:
        """The response to an unknown path or method in the form that the client accepts."""
        if not reply.body or not accepts_html(scope):
            return reply
        page = problem_reply(create_environment(self._base_path), scope, reply)
        own = (b"content-security-policy", self._page_content_policy)
        return evolve(page, headers=(*page.headers, own))

    async def _answer_unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._pipeline(scope, receive, send, None)
        else:
            await receive()
            await send_error(self.site, scope, send, unknown_path_error(), "no route")

    def has_limit_headers(self, path: str) -> bool:
        """Whether the responses of a path have the headers of rate limits (CONTRACT 8)."""
        entry = (self._tables["http"].find(path) or [None])[0]
        return entry is None or (isinstance(entry, Resource) and entry.is_rate_limited)

    def _build_middleware_stack(self) -> AsgiApp | None:
        """Wrap the configured middleware around what `_answer` handles; None without middleware."""
        if not self.middleware:
            return None

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            found = self._tables[scope["type"]].find(scope["path"])
            await self._answer(found, scope, receive, send)

        stack: Any = answer
        for middleware in reversed(self.middleware):
            stack = middleware(app=stack)
        self._table_handler = ASGIRouteHandler(fn=answer, is_mount=False)
        result: AsgiApp = stack
        return result

    async def _answer_through_middleware(
        self, stack: AsgiApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Call the middleware as Litestar calls a route's. Its errors get error responses."""
        is_started = False

        async def note_start(message: AsgiMessage) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        routing = {"route_handler": self._table_handler, "path_params": {}}
        scope = {**scope, **routing, "app": self, "litestar_app": self}
        scope.setdefault("state", {})
        try:
            await stack(scope, receive, note_start)
        except Exception as error:
            if is_started:
                raise
            await send_error(self.site, scope, send, error, "middleware")

    async def _show_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Litestar respond, with the headers of pages; HEAD is GET without a body."""
        request_id, omits_body = scope[REQUEST_ID_KEY], scope["method"] == "HEAD"

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                own = [self._prefix_location(header) for header in message.get("headers", ())]
                if scope["method"] == "POST" and 400 <= message["status"] < 500:
                    own.append(_REFUSED_FORM_CACHING)
                names = {name for name, _ in own}
                shared = self.page_headers(request_id)
                message["headers"] = [*own, *(pair for pair in shared if pair[0] not in names)]
            elif omits_body:
                message = {**message, "body": b""}
            await send(message)

        method = "GET" if omits_body else scope["method"]
        state = {**scope.get("state", {})}
        if self._demo_bars is not None:
            cookies = b";".join(value for name, value in scope["headers"] if name == b"cookie")
            state["keeps_mails"] = self.site.ports.policy.keeps_mails
            try:
                state["demo"] = await self._demo_bars.make(scope["path"], cookies)
            except Exception as error:
                await send_error(self.site, scope, send, error, "demo bar")
                return
        page_scope = {**scope, "method": method, "state": state}
        await super().__call__(page_scope, receive, send_with_headers)  # type: ignore[arg-type]

    def page_headers(self, request_id: str) -> tuple[Header, ...]:
        """The headers of every page's response."""
        return (*self._page_security_headers, (b"x-request-id", request_id.encode()))

    def _prefix_location(self, header: Header) -> Header:
        """Prefix the target of a page's redirect with the path at which the service is mounted."""
        name, value = header
        if name == b"location" and value.startswith(b"/"):
            return name, self._base_path.encode() + value
        return header


_REFUSED_FORM_CACHING: Header = (b"cache-control", b"private, no-cache")
"""A browser that goes back to the page of a refused form shows it again. Without a stored copy it
would ask to send the form once more (Chromium's ERR_CACHE_MISS)."""


def _endpoints_by_path(
    families: Mapping[str, Sequence[Endpoint]],
) -> Iterator[tuple[str, list[Endpoint]]]:
    rows: dict[str, list[Endpoint]] = {}
    for family in families.values():
        for row in family:
            rows.setdefault(row.path, []).append(row)
    yield from rows.items()
