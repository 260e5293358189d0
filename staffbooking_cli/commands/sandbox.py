"""`sandbox`: shows and advances the service's business clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import options, render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Test tools of a sandbox deployment.", no_args_is_help=True)
clock = typer.Typer(help="The service's clock.", no_args_is_help=True)
app.add_typer(clock, name="clock")


def _run_and_show(work: Callable[[Ports], Awaitable[datetime]], as_json: bool) -> None:
    from staffbooking_core.representations.json_types import format_instant

    now = format_instant(run_command(work))
    if as_json:
        render.print_json({"now": now})
    else:
        typer.echo(now)


@clock.command()
def show(as_json: AsJson = False) -> None:
    """Show the business time, used by bookings, refunds and payouts."""
    from staffbooking_core.usecases import sandbox

    async def work(ports: Ports) -> datetime:
        sandbox.require_sandbox(ports)
        return await ports.clock.business()

    _run_and_show(work, as_json)


@clock.command()
def advance(
    by: Annotated[
        timedelta,
        typer.Argument(parser=options.duration, metavar="DURATION", help="90s, 30m, 72h."),
    ],
    as_json: AsJson = False,
) -> None:
    """Advance the clock; the worker then does the work that became due."""
    from staffbooking_core.usecases import sandbox

    _run_and_show(lambda ports: sandbox.advance_clock(ports, by), as_json)


@clock.command("set")
def set_(
    to: Annotated[
        datetime,
        typer.Argument(parser=options.instant, metavar="INSTANT", help="2027-03-01T18:00:00Z."),
    ],
    as_json: AsJson = False,
) -> None:
    """Set the clock to an instant not before its current time; it runs on from there."""
    from staffbooking_core.usecases import sandbox

    _run_and_show(lambda ports: sandbox.set_clock(ports, to), as_json)
