"""`worker`: runs due background work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import garbage, render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import lasting_ports, read_settings, run_command

if TYPE_CHECKING:
    from staffbooking_adapters.settings import Settings


def worker(
    drain: Annotated[
        bool, typer.Option("--drain", help="Do all due work, in due order, then exit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a worker: timers, payment operations, notifications and webhook deliveries. Any
    number of workers may run. SIGTERM stops it."""
    import anyio

    from staffbooking_adapters.logs import configure_logging
    from staffbooking_worker.main import drain as drain_all

    settings = read_settings()
    configure_logging(settings.log_format, settings.log_level)
    if not drain:
        garbage.collect_while_loading()
        anyio.run(_run_until_stopped, settings, backend_options={"use_uvloop": True})
        return
    done = run_command(drain_all)
    if as_json:
        render.print_json({"done": done})
    else:
        typer.echo(f"{done} pieces of work done, nothing is due.")


async def _run_until_stopped(settings: Settings) -> None:
    from staffbooking_cli.running import stop_on_signal
    from staffbooking_worker.main import run_worker

    async with stop_on_signal() as stop, lasting_ports(settings, stop) as ports:
        if ports is None:
            return
        garbage.collect_as_usual()
        render.print_note("The worker runs; Ctrl-C stops it.")
        await run_worker(ports, stop)
