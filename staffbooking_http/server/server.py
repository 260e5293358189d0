"""The application served by an embedded uvicorn; the caller handles the process's signals."""

import resource
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager

import anyio
import uvicorn
from anyio.abc import TaskStatus

from staffbooking_adapters.settings import Settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.ports import Ports
from staffbooking_http.api.access_log import AccessLog
from staffbooking_http.app import StaffbookingApp, create_app
from staffbooking_http.channel.frames import MAX_FRAME_BYTES
from staffbooking_http.server.http_protocol import (
    MAX_CONNECTIONS,
    BoundedHttpProtocol,
    CountedWebSocketProtocol,
    EdgeConfig,
)
from staffbooking_http.server.maintenance import MaintenanceApp
from staffbooking_http.server.overload import Overload
from staffbooking_http.server.peer_connections import PeerConnections

_SHUTDOWN_TIMEOUT_SECONDS = 15
"""Seconds for requests in flight to finish after the server is asked to stop."""
UNREAD_TIMEOUT_SECONDS = 60.0
"""Seconds in which a client must read part of its unread response. The kernel's send buffer is not
counted."""
READINESS_CHECK_INTERVAL_SECONDS = 1.0
"""Seconds between readiness checks."""
WEBSOCKET_PING_INTERVAL_SECONDS = 20.0
"""Seconds between pings of a WebSocket, and seconds to wait for a pong before it is closed."""
_RESERVED_OPEN_FILES = 500
"""Open files reserved for uses other than connections."""


async def serve(
    settings: Settings,
    *,
    listening_socket: socket.socket,
    stop: anyio.Event,
    ports: Ports | None = None,
    access_log: AccessLog | None = None,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is set, then finish the requests in flight. The caller keeps the socket.

    Opens the ports if none are given. `task_status` is started with the port number.
    """
    raise_open_file_limit(MAX_CONNECTIONS + _RESERVED_OPEN_FILES)
    async with AsyncExitStack() as stack:
        own = stack.enter_context(listening_socket.dup())
        if ports is None:
            ports = await stack.enter_async_context(open_ports(settings))
        application = create_app(
            ports,
            trusted_proxies=settings.trusted_proxies,
            allowed_origins=settings.allowed_origins,
            access_log=access_log,
        )
        server = _SignalFreeServer(_uvicorn_config(application, settings))
        await stack.enter_async_context(application.lifespan())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_event, server, application, stop)
            task_status.started(own.getsockname()[1])
            await _run_server(server, own)
            tasks.cancel_scope.cancel()


async def serve_maintenance(
    settings: Settings,
    *,
    listening_socket: socket.socket,
    stop: anyio.Event,
    is_ready: Callable[[], Awaitable[bool]],
) -> None:
    """Respond 503 to all but the liveness check (CONTRACT 9), until `is_ready` returns true or
    `stop` is set. The caller keeps the socket: later clients wait in its backlog for `serve`."""
    server = _SignalFreeServer(_uvicorn_config(MaintenanceApp(settings.policy), settings))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_when_ready, server, stop, is_ready)
        await _run_server(server, listening_socket.dup())
        tasks.cancel_scope.cancel()


async def _stop_when_ready(
    server: uvicorn.Server, stop: anyio.Event, is_ready: Callable[[], Awaitable[bool]]
) -> None:
    while not stop.is_set() and not await is_ready():
        with anyio.move_on_after(READINESS_CHECK_INTERVAL_SECONDS):
            await stop.wait()
    server.should_exit = True


async def _run_server(server: uvicorn.Server, listening_socket: socket.socket) -> None:
    """Run the server until it exits; it closes the socket."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_stalled_clients, server)
        await server.serve(sockets=[listening_socket])
        tasks.cancel_scope.cancel()


def raise_open_file_limit(wanted_limit: int) -> None:
    """Raise the soft limit of open files to `wanted_limit`, or to the hard limit if lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted_limit = min(wanted_limit, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_limit, hard))


def _uvicorn_config(
    application: StaffbookingApp | MaintenanceApp, settings: Settings
) -> EdgeConfig:
    config = EdgeConfig(
        application,
        http=BoundedHttpProtocol,
        ws=CountedWebSocketProtocol,
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=WEBSOCKET_PING_INTERVAL_SECONDS,
        ws_ping_timeout=WEBSOCKET_PING_INTERVAL_SECONDS,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_SECONDS,
    )
    config.peers = PeerConnections(settings.connections_per_address, settings.trusted_proxies)
    if isinstance(application, StaffbookingApp):
        config.overload = Overload(application)
    return config


async def _stop_on_event(
    server: uvicorn.Server, application: StaffbookingApp, stop: anyio.Event
) -> None:
    await stop.wait()
    await application.retire()
    server.should_exit = True


UnreadBytes = dict[tuple[BoundedHttpProtocol, object], int]
"""Unread bytes by connection and the last request on it."""


async def _watch_stalled_clients(server: uvicorn.Server) -> None:
    unread_before: UnreadBytes = {}
    while True:
        await anyio.sleep(UNREAD_TIMEOUT_SECONDS)
        unread_before = abort_stalled_connections(server.server_state.connections, unread_before)


def abort_stalled_connections(
    connections: Iterable[object], unread_before: UnreadBytes
) -> UnreadBytes:
    """Abort connections that read nothing since the last check; returns the unread bytes now.

    A stalled client would otherwise hold its connection and its response indefinitely.
    """
    unread_now: UnreadBytes = {
        (each, each.cycle): left
        for each in connections
        if isinstance(each, BoundedHttpProtocol)
        and (left := each.transport.get_write_buffer_size())
    }
    for (connection, request), left in unread_now.items():
        if left >= unread_before.get((connection, request), left + 1):
            connection.transport.abort()
    return unread_now


class _SignalFreeServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install nothing: the caller handles signals; uvicorn's handlers would interfere."""
        yield
