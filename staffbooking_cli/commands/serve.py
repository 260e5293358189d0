"""`serve`: the HTTP server."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import garbage, render
from staffbooking_cli.errors import CommandRefused, error_line, innermost
from staffbooking_cli.session import read_settings, ready_ports

if TYPE_CHECKING:
    import socket

    import anyio

    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports


def serve(
    host: Annotated[
        str, typer.Option(help="The address to listen on; :: means all.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 selects a free port.", min=0, max=65535)] = 8000,
) -> None:
    """Run the HTTP server. SIGTERM stops it after the requests in flight are finished."""
    import anyio

    from staffbooking_adapters.logs import configure_logging
    from staffbooking_cli.running import open_socket

    garbage.collect_while_loading()
    logging_settings = read_settings()
    configure_logging(logging_settings.log_format, logging_settings.log_level)
    with open_socket(host, port) as listening:
        address, bound_port = listening.getsockname()[:2]
        settings = read_settings(address, STAFFBOOKING_BASE_URL=_default_base_url(host, bound_port))
        anyio.run(_run_server, settings, listening, backend_options={"use_uvloop": True})


def _default_base_url(host: str, port: int) -> str:
    """The base URL if none is set: this server's address as seen from its own machine."""
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"


async def _run_server(settings: Settings, listening: socket.socket) -> None:
    import anyio

    from staffbooking_cli.running import start_server, stop_on_signal
    from staffbooking_worker.jobs import SANDBOX_EVENTS_JOB
    from staffbooking_worker.main import run_jobs

    async with stop_on_signal() as stop, AsyncExitStack() as stack:
        host, port = listening.getsockname()[:2]
        ports = await _open_ports(settings, listening, stop, stack)
        if ports is None:
            return
        jobs = await stack.enter_async_context(anyio.create_task_group())
        await start_server(jobs, settings, listening, stop, ports)
        listening.close()  # The server has duplicated it.
        render.print_note(f"Listening on {host} port {port}; Ctrl-C stops it.")
        if "STAFFBOOKING_BASE_URL" not in os.environ:
            address = settings.policy.base_url
            render.print_note(f"STAFFBOOKING_BASE_URL is not set: links lead to {address}")
        # A real processor posts its events; the fake one needs this job to deliver them.
        jobs.start_soon(run_jobs, ports, stop, [SANDBOX_EVENTS_JOB])


async def _open_ports(
    settings: Settings, listening: socket.socket, stop: anyio.Event, stack: AsyncExitStack
) -> Ports | None:
    """The ports, which the stack closes; None if `stop` was set meanwhile. Maintenance responses
    are served while they can't be opened: the database is out of reach or has another schema, or
    the disk of uploaded images fails."""
    from staffbooking_core.errors import StoreUnavailable
    from staffbooking_http.server.server import serve_maintenance

    ports, last_problem = None, None

    async def is_ready() -> bool:
        nonlocal ports, last_problem
        try:
            ports = await stack.enter_async_context(ready_ports(settings, is_long_running=True))
        except Exception as error:
            if not isinstance(innermost(error), CommandRefused | StoreUnavailable):
                raise
            if (problem := error_line(error)) != last_problem:
                host, port = listening.getsockname()[:2]
                render.print_note(f"Answering 503 on {host} port {port} for now: {problem}")
            last_problem = problem
        return ports is not None

    if not await is_ready():
        await serve_maintenance(settings, listening_socket=listening, stop=stop, is_ready=is_ready)
    return ports
