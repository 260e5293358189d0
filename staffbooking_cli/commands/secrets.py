"""`secrets`: re-seals stored secrets with the current key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict

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
    """Re-seal stored secrets with the first key of STAFFBOOKING_SECRET_KEY: those of webhooks, and
    the addresses of calendars.

    Every process must already have this key; the other keys may be removed afterwards. The
    exit code is 1 if some secrets can't be opened with any key.
    """
    webhooks, calendars = run_command(_reseal_all)
    if as_json:
        render.print_json({**webhooks, "calendars": calendars})
    else:
        typer.echo(f"Secrets of {webhooks['resealed']} webhooks were re-sealed.")
        typer.echo(f"Addresses of {calendars['resealed']} calendars were re-sealed.")
    for name, broken in (("webhooks", webhooks["broken"]), ("calendars", calendars["broken"])):
        if broken:
            named = ", ".join(map(str, broken))
            render.print_note(
                f"staffbooking: no key of STAFFBOOKING_SECRET_KEY opens {name} {named}"
            )
    if webhooks["broken"] or calendars["broken"]:
        raise typer.Exit(1)


class _Resealed(TypedDict):
    """The number of rows re-sealed, and the ids of those that can't be opened."""

    resealed: int
    broken: list[int]


class _Batch(Protocol):
    @property
    def last_id(self) -> int: ...
    @property
    def changed(self) -> int: ...
    @property
    def broken(self) -> Sequence[int]: ...


async def _reseal_all(ports: Ports) -> tuple[_Resealed, _Resealed]:
    """What was re-sealed of webhooks, and of calendars."""
    from staffbooking_core.usecases.companions import calendar_subscriptions
    from staffbooking_core.usecases.webhooks import endpoints

    with render.progress("webhooks re-sealed") as report_progress:
        webhooks = await _reseal_batches(ports, endpoints.reseal_secrets, report_progress)
    with render.progress("calendars re-sealed") as report_progress:
        calendars = await _reseal_batches(
            ports, calendar_subscriptions.reseal_addresses, report_progress
        )
    return webhooks, calendars


async def _reseal_batches(
    ports: Ports,
    reseal: Callable[[Ports, int, int], Awaitable[_Batch]],
    report_progress: Callable[[int], None],
) -> _Resealed:
    resealed, last = 0, 0
    broken: list[int] = []
    while (done := await reseal(ports, last, RESEAL_BATCH_SIZE)).last_id:
        resealed, last = resealed + done.changed, done.last_id
        broken += done.broken
        report_progress(resealed)
    return {"resealed": resealed, "broken": broken}
