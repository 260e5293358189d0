"""`secrets`: re-seals stored secrets with the current key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Stored secrets and the keys that seal them.", no_args_is_help=True)

RESEAL_BATCH_SIZE = 100


@app.callback()
def secrets() -> None:
    """A callback makes typer keep `rotate` as a subcommand although it is the only one."""


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Re-seal stored secrets with the first key of STAFFBOOKING_SECRET_KEY.

    Every process must already have this key; the other keys may be removed afterwards. The
    exit code is 1 if some secrets can't be opened with any key.
    """
    resealed, broken = run_command(_reseal_all)
    if as_json:
        render.print_json({"resealed": resealed, "broken": broken})
    else:
        typer.echo(f"Secrets of {resealed} webhooks were re-sealed.")
    if broken:
        named = ", ".join(map(str, broken))
        render.print_note(f"staffbooking: no key of STAFFBOOKING_SECRET_KEY opens webhooks {named}")
        raise typer.Exit(1)


async def _reseal_all(ports: Ports) -> tuple[int, list[int]]:
    """The number of endpoints re-sealed, and the ids of those whose secrets can't be opened."""
    from staffbooking_core.usecases.webhooks import endpoints

    resealed, last = 0, 0
    broken: list[int] = []
    with render.progress("webhooks re-sealed") as tell:
        while (done := await endpoints.reseal_secrets(ports, last, RESEAL_BATCH_SIZE)).last_id:
            resealed, last = resealed + done.changed, done.last_id
            broken += done.broken
            tell(resealed)
    return resealed, broken
