"""Processes that stay: they stop when they are told to, and finish what is in flight."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from staffbooking_cli.errors import Refused

GRACE = 18.0
"""Seconds that work in flight may take after the signal: the promise is 20 (CONTRACT 9)."""

Job = Callable[[anyio.Event], Awaitable[None]]


def log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


@asynccontextmanager
async def stopping() -> AsyncIterator[anyio.Event]:
    """An event that SIGTERM or SIGINT sets. What then doesn't end within GRACE seconds, or
    until a second signal, is cancelled."""
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        await group.start(_listen, stop, group.cancel_scope)
        yield stop
        group.cancel_scope.cancel()


async def _listen(
    stop: anyio.Event,
    scope: anyio.CancelScope,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        await anext(signals)
        stop.set()
        with anyio.move_on_after(GRACE):
            await anext(signals)
        scope.cancel()


async def together(stop: anyio.Event, *jobs: Job) -> None:
    """Run jobs side by side; where one ends, all are told to stop."""

    async def one(job: Job) -> None:
        try:
            await job(stop)
        finally:
            stop.set()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(one, job)


def free_port(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises Refused where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refused(
                f"port {port} of {host}: {error.strerror}; --port takes another"
            ) from None
        taken: int = probe.getsockname()[1]
        return taken


async def when_listening(host: str, port: int) -> None:
    """Return as soon as somebody listens there."""
    while True:
        try:
            async with await anyio.connect_tcp(host, port):
                return
        except OSError:
            await anyio.sleep(0.05)
