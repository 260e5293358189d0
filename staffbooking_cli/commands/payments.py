"""`payments`: our ledger against the processor's own book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="The processor's book against the ledger.", no_args_is_help=True)

DIFFERENCES = ("booking_code", "difference=text")


@app.command()
def reconcile(
    apply: Annotated[
        bool, typer.Option("--apply", help="First take up what the processor says of them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare every movement of money with the processor's, both ways; exit 1 on a difference.

    What is still under way, as a refund that was just sent, is counted and not compared.
    """
    outcome = run(lambda ports: _reconcile(ports, apply))
    differences = outcome["differences"]
    if as_json:
        render.print_json(outcome)
    else:
        if differences:
            render.print_table(DIFFERENCES, differences, title="differences")
        counts = {**outcome, "differences": len(differences)}
        render.print_table(tuple(counts), [counts])
    if differences:
        of = outcome["checked"]
        render.note(f"staffbooking: {len(differences)} differences in {of} bookings")
        raise typer.Exit(1)


async def _reconcile(ports: Ports, apply: bool) -> dict[str, Any]:
    """`{"checked", "in_flight", "applied", "differences": [{booking_code, text}]}`."""
    from staffbooking_core.usecases.payments import statement

    far, differences = statement.Progress(), []
    with render.progress("bookings compared") as tell:
        async for found in statement.reconcile(ports, apply=apply):
            if isinstance(found, statement.Progress):
                far = found
                tell(far.checked)
            else:
                differences.append({"booking_code": found.booking_code, "text": found.text})
    return {
        "checked": far.checked,
        "in_flight": far.in_flight,
        "applied": far.applied,
        "differences": differences,
    }
