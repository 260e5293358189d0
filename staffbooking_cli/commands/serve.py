"""`serve`: the HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli.session import ready_ports, settings

if TYPE_CHECKING:
    from staffbooking_adapters.settings import Settings


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Answer HTTP. SIGTERM finishes what is in flight, and stops it."""
    import anyio

    from staffbooking_cli.running import free_port, log_to_stderr

    log_to_stderr()
    wanted = settings()
    anyio.run(_serve, wanted, host, free_port(host, port), backend_options={"use_uvloop": True})


async def _serve(wanted: Settings, host: str, port: int) -> None:
    from staffbooking_cli.running import stopping, together
    from staffbooking_http.server import serve
    from staffbooking_worker.lanes import SANDBOX_EVENTS
    from staffbooking_worker.main import work

    async with stopping() as stop, ready_ports(wanted) as ports:
        await together(
            stop,
            lambda stop: serve(ports, host, port, stop),
            # The pretended processor brings its events by itself, as a real one would.
            lambda stop: work(ports, stop, [SANDBOX_EVENTS]),
        )
