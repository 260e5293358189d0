"""Serving the application with uvicorn, embedded: whoever composes it owns the signals."""

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager

import anyio
import uvicorn
from anyio.abc import TaskStatus
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from staffbooking_adapters.settings import Settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.api.errors import problem
from staffbooking_http.app import Application
from staffbooking_http.channel.frames import FRAME_BYTES
from staffbooking_http.channel.uvicorn_protocol import WebSocketProtocol, is_handshake
from staffbooking_http.server.maintenance import Waiting

DRAIN = 15
"""Seconds that requests in flight have to end, once the server is asked to stop."""
HEAD_DEADLINE = 5.0
"""Seconds that the head of a request may take to come."""
HEAD_BYTES = 64 * 1024
UNREAD_DEADLINE = 60.0
"""Seconds in which a client takes something of the answer that waits for it. What the system has
taken on to send it is not counted."""
LOOK_AGAIN = 1.0
"""Seconds until it is looked again whether the service can be served."""
BACKLOG = 2048
MOST_CONNECTIONS = 4000
"""Of HTTP and of the channel together."""
PING_EVERY = 20.0
"""Seconds between pings of an open WebSocket; one that does not answer for as long is cut off."""
OTHER_FILES = 500
"""Files that a process may have open besides its connections."""


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on. Who connects waits until somebody does. OSError where the port can't
    be had; 0 takes a free one."""
    listening = socket.create_server((host, port), family=_family(host), backlog=BACKLOG)
    # Its connections inherit it. asyncio sees to it for some sockets only, and then an
    # answer's body waits 40 ms for the client to acknowledge its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve(
    settings: Settings,
    *,
    listening: socket.socket,
    stop: anyio.Event,
    ports: Ports | None = None,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is set, then let what is in flight end. The socket stays the caller's.

    Opens ports of its own unless some are given. `task_status` is started with the port.
    """
    allow_files(MOST_CONNECTIONS + OTHER_FILES)
    async with AsyncExitStack() as stack:
        own = stack.enter_context(listening.dup())
        if ports is None:
            ports = await stack.enter_async_context(open_ports(settings))
        application = Application(
            ports, proxies=settings.trusted_proxies, origins=settings.allowed_origins
        )
        server = _Server(_config(application))
        await stack.enter_async_context(application.running())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_with, server, application, stop)
            task_status.started(own.getsockname()[1])
            await _run(server, own)
            tasks.cancel_scope.cancel()


async def hold(
    policy: Policy,
    *,
    listening: socket.socket,
    stop: anyio.Event,
    is_ready: Callable[[], Awaitable[bool]],
) -> None:
    """Answer 503 to all but the question whether the process is alive (CONTRACT 9), until the
    service can be served or `stop` is set. The socket stays the caller's: who connects after the
    end waits for `serve`."""
    server = _Server(_config(Waiting(policy)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_once, server, stop, is_ready)
        await _run(server, listening.dup())
        tasks.cancel_scope.cancel()


async def _end_once(
    server: uvicorn.Server, stop: anyio.Event, is_ready: Callable[[], Awaitable[bool]]
) -> None:
    while not stop.is_set() and not await is_ready():
        with anyio.move_on_after(LOOK_AGAIN):
            await stop.wait()
    server.should_exit = True


async def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    """Let it run to its end, at which it closes the socket."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_readers, server)
        await server.serve(sockets=[listening])
        tasks.cancel_scope.cancel()


def allow_files(number: int) -> None:
    """Let the process have so many files open, or as many as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        number = min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _config(application: Application | Waiting) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=Protocol,
        ws=WebSocketProtocol,
        ws_max_size=FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_EVERY,
        ws_ping_timeout=PING_EVERY,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
    )


async def _stop_with(server: uvicorn.Server, application: Application, stop: anyio.Event) -> None:
    await stop.wait()
    await application.retire()
    server.should_exit = True


Unread = dict[tuple["Protocol", object], int]
"""Bytes that wait for a client, by its connection and the last request on it."""


async def _watch_readers(server: uvicorn.Server) -> None:
    waited: Unread = {}
    while True:
        await anyio.sleep(UNREAD_DEADLINE)
        waited = cut_off(server.server_state.connections, waited)


def cut_off(connections: Iterable[object], waited: Unread) -> Unread:
    """End the connections of those who took nothing since the last look; what waits for whom now.

    Each would hold its place and its answer, an image at worst, for as long as it likes.
    """
    waiting: Unread = {
        (each, each.cycle): left
        for each in connections
        if isinstance(each, Protocol) and (left := each.transport.get_write_buffer_size())
    }
    for (connection, request), left in waiting.items():
        if left >= waited.get((connection, request), left + 1):
            connection.transport.abort()
    return waiting


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The caller has them: uvicorn's own handlers would end the process half-way."""
        yield


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, with bounds on the head of a request and on connections, and
    with answers of the contract's shape where no request comes about."""

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _head_is_open = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._end(503, problem("unavailable", "Too many connections"), b"retry-after: 2\r\n")
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_complete()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_is_open and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("The head of the request is too large")
            else:
                self._watch_head()

    def on_message_begin(self) -> None:
        self._head_is_open = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_is_complete()
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        """A handshake that is not well-formed is a request like any other."""
        return (
            super()._should_upgrade()
            and (self.parser.get_method(), self.parser.get_http_version()) == (b"GET", "1.1")
            and is_handshake(self.url, self.headers)
        )

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for what is not there is told so: it is nothing for our log."""

    def send_400_response(self, msg: str) -> None:
        self._end(400, problem("malformed_request", msg))

    def _watch_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_DEADLINE, self.transport.close)

    def _head_is_complete(self) -> None:
        self._head_is_open, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end(self, status: int, body: bytes, more: bytes = b"") -> None:
        """Answer without a request, and close."""
        head = (
            b"content-type: application/json\r\nx-content-type-options: nosniff\r\n"
            b"cache-control: no-store\r\nconnection: close\r\n"
        )
        length = b"content-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + more + length + body)
        self.transport.close()
