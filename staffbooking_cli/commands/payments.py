"""`payments`: reconciles the ledger with the processor's statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Reconciliation with the payment processor.", no_args_is_help=True)

_DIFFERENCE_COLUMNS = ("booking_code", "difference=text")


@app.command()
def reconcile(
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply the processor's state to the bookings first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the ledger with the processor's statement, both ways; exit with 1 on a difference.

    Bookings with operations in flight, such as a refund just sent, are counted but not compared.
    """
    outcome = run_command(lambda ports: _reconcile(ports, apply))
    differences = outcome["differences"]
    if as_json:
        render.print_json(outcome)
    else:
        if differences:
            render.print_table(_DIFFERENCE_COLUMNS, differences, title="differences")
        counts = {**outcome, "differences": len(differences)}
        render.print_table(tuple(counts), [counts])
    if differences:
        of = outcome["checked"]
        render.print_note(f"staffbooking: {len(differences)} differences in {of} bookings")
        raise typer.Exit(1)


async def _reconcile(ports: Ports, apply: bool) -> dict[str, Any]:
    """`{"checked", "in_flight", "applied", "differences": [{booking_code, text}]}`."""
    from staffbooking_core.usecases.payments import statement

    progress, differences = statement.ReconciliationProgress(), []
    with render.progress("bookings compared") as report_progress:
        async for found in statement.reconcile_statement(ports, apply=apply):
            if isinstance(found, statement.ReconciliationProgress):
                progress = found
                report_progress(progress.checked)
            else:
                differences.append({"booking_code": found.booking_code, "text": found.text})
    return {
        "checked": progress.checked,
        "in_flight": progress.in_flight,
        "applied": progress.applied,
        "differences": differences,
    }
