"""`db`: the database's schema."""

from __future__ import annotations

import typer

from staffbooking_cli import render
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import read_settings

app = typer.Typer(help="The database's schema.", no_args_is_help=True)


def _print_state(text: str, as_json: bool) -> None:
    if as_json:
        render.print_json({"schema": "current"})
    else:
        typer.echo(text)


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Create the schema or upgrade it to this version; existing data is kept."""
    import anyio

    from staffbooking_adapters import wiring

    anyio.run(wiring.upgrade_schema, read_settings())
    _print_state("The schema is this version's.", as_json)


@app.command()
def check(as_json: AsJson = False) -> None:
    """Exit with 1 and the mismatch if the schema is not this version's."""
    import anyio

    from staffbooking_adapters import wiring

    if mismatch := anyio.run(wiring.find_schema_problem, read_settings()):
        raise CommandRefused(mismatch)
    _print_state("The schema is this version's.", as_json)
