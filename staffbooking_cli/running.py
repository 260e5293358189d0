"""Long-running processes: logging, graceful shutdown on a signal, the listening socket."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from staffbooking_cli import garbage
from staffbooking_cli.errors import CommandRefused

if TYPE_CHECKING:
    import socket

    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports

SHUTDOWN_GRACE_SECONDS = 17.0
"""Seconds for work in flight to finish after the signal; the contract allows 20 (CONTRACT 9)."""


@asynccontextmanager
async def stop_on_signal() -> AsyncIterator[anyio.Event]:
    """An event that SIGTERM or SIGINT sets. Work still running SHUTDOWN_GRACE_SECONDS later, or
    at a second signal, is cancelled."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        await group.start(_wait_for_signal, stop, group.cancel_scope)
        yield stop
        group.cancel_scope.cancel()


async def _wait_for_signal(
    stop: anyio.Event,
    scope: anyio.CancelScope,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        await anext(signals)
        stop.set()
        with anyio.move_on_after(SHUTDOWN_GRACE_SECONDS):
            await anext(signals)
        scope.cancel()


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 selects a free port. Raises CommandRefused if the port is not
    available, and MissingExtra."""
    from staffbooking_adapters.extras import check_extra

    check_extra("http")
    from staffbooking_http.server.listening import open_listening_socket

    try:
        return open_listening_socket(host, port)
    except OSError as error:
        raise CommandRefused(f"port {port} of {host}: {error.strerror}") from None


async def start_server(
    jobs: anyio.abc.TaskGroup,
    settings: Settings,
    listening: socket.socket,
    stop: anyio.Event,
    ports: Ports,
) -> None:
    """Start the HTTP server as a task of `jobs`. On return the server has duplicated the socket,
    and the caller may close `listening`."""
    from staffbooking_adapters.logs import render_access_line
    from staffbooking_http.api.access_log import AccessLog
    from staffbooking_http.server.server import serve

    access_log = AccessLog(partial(render_access_line, settings.log_format), ports.clock.wall)
    await jobs.start(
        partial(
            serve,
            settings,
            listening_socket=listening,
            stop=stop,
            ports=ports,
            access_log=access_log,
        )
    )
    garbage.collect_as_usual()
