"""`serve`: the HTTP server."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import render
from staffbooking_cli.session import lacking, ready_ports, settings

if TYPE_CHECKING:
    import socket

    import anyio

    from staffbooking_adapters.settings import Settings


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Answer HTTP. SIGTERM finishes what is in flight, and stops it."""
    import anyio

    from staffbooking_cli.running import listen, log_to_stderr

    log_to_stderr()
    settings()
    with listen(host, port) as listening:
        taken = listening.getsockname()[1]
        wanted = settings(STAFFBOOKING_BASE_URL=_address(host, taken))
        anyio.run(_serve, wanted, listening, backend_options={"use_uvloop": True})


def _address(host: str, port: int) -> str:
    """Where links lead to if nobody says: to this server, as seen from its own machine."""
    near = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"


async def _serve(wanted: Settings, listening: socket.socket) -> None:
    import anyio

    from staffbooking_cli.running import start_server, stopping
    from staffbooking_worker.jobs import SANDBOX_EVENTS
    from staffbooking_worker.main import run_lanes

    async with stopping() as stop, AsyncExitStack() as stack:
        host, port = listening.getsockname()[:2]
        await _wait_for_store(wanted, listening, stop)
        if stop.is_set():
            return
        ports = await stack.enter_async_context(ready_ports(wanted, stays=True))
        jobs = await stack.enter_async_context(anyio.create_task_group())
        await start_server(jobs, wanted, listening, stop, ports)
        listening.close()  # the server has its own
        render.note(f"Listening on {host} port {port}; Ctrl-C stops it.")
        if "STAFFBOOKING_BASE_URL" not in os.environ:
            address = wanted.policy.base_url
            render.note(f"STAFFBOOKING_BASE_URL is not set: links lead to {address}")
        # The pretended processor brings its events by itself, as a real one would.
        jobs.start_soon(run_lanes, ports, stop, [SANDBOX_EVENTS])


async def _wait_for_store(wanted: Settings, listening: socket.socket, stop: anyio.Event) -> None:
    """Until the database is there with its schema, which may come after the server does."""
    from staffbooking_http.server.server import hold

    told = None

    async def is_ready() -> bool:
        nonlocal told
        if (what := await lacking(wanted)) is not None and what != told:
            host, port = listening.getsockname()[:2]
            render.note(f"Answering 503 on {host} port {port} for now: {what}")
            told = what
        return what is None

    if not await is_ready():
        await hold(wanted.policy, listening=listening, stop=stop, is_ready=is_ready)
