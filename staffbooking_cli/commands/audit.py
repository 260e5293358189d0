"""`audit`: lists operators' changes."""

from __future__ import annotations

import typer

from staffbooking_cli.commands.bookings import print_page
from staffbooking_cli.options import AsJson, Limit, Page
from staffbooking_cli.session import run_command

app = typer.Typer(help="The audit of operators' changes.", no_args_is_help=True)

COLUMNS = ("id", "at", "actor", "act", "subject", "of=subject_id", "reason", "from")


@app.callback()
def audit() -> None:
    """A callback makes typer keep `list` as a subcommand although it is the only one."""


@app.command("list")
def list_(limit: Limit = 50, page: Page = 1, as_json: AsJson = False) -> None:
    """List a page of operators' changes, newest first: who, what, why and from where."""
    from staffbooking_core.representations.administration import audit_record
    from staffbooking_core.usecases.accounts import audit as accounts_audit

    found = run_command(lambda ports: accounts_audit.list_audit_entries(ports, page, limit))
    print_page("audit", COLUMNS, [*map(audit_record, found)], page, limit, as_json)
