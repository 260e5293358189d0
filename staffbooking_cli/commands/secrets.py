"""`secrets`: what is stored sealed, and its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Stored secrets, and the keys that seal them.", no_args_is_help=True)

RESEAL_BATCH_SIZE = 100


@app.callback()
def secrets() -> None:
    """A group, although it has one command."""


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Seal stored secrets anew with the first key of STAFFBOOKING_SECRET_KEY, which every process
    must know by then; the others may be taken out of the setting afterwards. Exit 1 where no
    key opens some of them."""
    resealed, broken = run_command(_reseal_all)
    if as_json:
        render.print_json({"resealed": resealed, "broken": broken})
    else:
        typer.echo(f"Secrets of {resealed} webhooks were sealed anew.")
    if broken:
        named = ", ".join(map(str, broken))
        render.print_note(f"staffbooking: no key of STAFFBOOKING_SECRET_KEY opens webhooks {named}")
        raise typer.Exit(1)


async def _reseal_all(ports: Ports) -> tuple[int, list[int]]:
    """How many endpoints' secrets were sealed anew, and the endpoints that can't be opened."""
    from staffbooking_core.usecases.webhooks import endpoints

    resealed, last = 0, 0
    broken: list[int] = []
    with render.progress("webhooks sealed anew") as tell:
        while (done := await endpoints.reseal_secrets(ports, last, RESEAL_BATCH_SIZE)).last_id:
            resealed, last = resealed + done.changed, done.last_id
            broken += done.broken
            tell(resealed)
    return resealed, broken
