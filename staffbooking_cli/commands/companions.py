"""`companions`: approval, and import from files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.listing import PAGE_SIZE
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import Approval, AsJson, By, Id, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import ImportProgress, Ports

app = typer.Typer(help="Companions: approval and import.", no_args_is_help=True)

COLUMNS = (
    "id",
    "status",
    "active",
    "name=first_name last_name",
    "email",
    "city=location_city",
    "hourly=hourly_rate",
    "daily=daily_rate",
    "service_types",
    "tier",
)
_SKIPPED_COLUMNS = ("line", "email", "reason")


@app.command("list")
def list_(
    status: Annotated[Approval | None, typer.Option(help="Only with this status.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all companions, ordered by id, including those that search does not show."""
    from staffbooking_core.domain.companions import companion as companions_companion
    from staffbooking_core.representations.administration import admin_companion_record
    from staffbooking_core.usecases.accounts import administration
    from staffbooking_core.usecases.companions import approvals

    approval = None if status is None else companions_companion.Approval(status)

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[Mapping[str, Any]]:
            last_id = 0
            while page := await approvals.list_companions_after(
                ports, last_id, PAGE_SIZE, approval
            ):
                emails = await administration.emails_of(ports, [each.id for each in page])
                for each in page:
                    yield admin_companion_record(each, ports.policy.currency, emails)
                last_id = page[-1].id

        await render.print_list("companions", COLUMNS, records(), as_json)

    run_command(work)


@app.command()
def approve(
    companion_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False
) -> None:
    """Approve a companion: search shows it and it can be booked."""
    _decide(companion_id, "approve", "approved", reason, by, as_json)


@app.command()
def suspend(
    companion_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False
) -> None:
    """Suspend a companion: search hides it; accepted bookings stay."""
    _decide(companion_id, "reject", "suspended", reason, by, as_json)


def _decide(
    companion_id: int,
    act: str,
    approval: Approval,
    reason: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    from staffbooking_core.domain.companions import companion as companions_companion
    from staffbooking_core.representations.administration import admin_companion_record
    from staffbooking_core.usecases.accounts import administration
    from staffbooking_core.usecases.companions import approvals

    async def work(ports: Ports) -> Mapping[str, Any]:
        decided = companions_companion.Approval(approval)
        changed = await approvals.set_approval(ports, companion_id, decided)
        emails = await administration.emails_of(ports, [companion_id])
        return admin_companion_record(changed, ports.policy.currency, emails)

    record = run_operator_command(work, act, "companion", companion_id, reason=reason, by=by)
    render.print_result("companion", record, as_json)


@app.command("import")
def import_(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, a JSON array or JSON Lines, in UTF-8.")
    ],
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Start over instead of resuming an interrupted import."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import companions; a row with a known e-mail updates the fields that it contains.

    Invalid rows are listed and skipped, the others are imported; the exit code is 1 if any row
    was skipped. An interrupted import resumes when it is started again with the same file. A
    JSON array is held in memory as a whole, unlike JSON Lines and CSV. Fields: email,
    password, first_name, last_name, tagline, bio, profile_photo, hourly_rate, daily_rate,
    location_city, location_country, timezone, service_types, languages, tier, badges,
    weekly, overrides, payout_account, approved. In CSV, lists are separated by `;`; weekly
    and overrides are JSON.
    """
    from staffbooking_cli.bulk import import_file, iterate_skipped_rows
    from staffbooking_cli.importing import ImportFile
    from staffbooking_core.usecases.companions import imports

    file = ImportFile(path)

    async def work(ports: Ports) -> ImportProgress:
        begun = await imports.begin_import(ports, file.fingerprint, restart=restart)
        if begun.line:
            render.print_note(
                f"staffbooking: resuming after line {begun.line}, as of {begun.at:%F %T}Z"
            )
        with render.progress(
            f"importing {path.name}", file.size, "rows", as_json
        ) as report_progress:
            done = await import_file(ports, file, begun, report_progress)
        counts = {"imported": done.imported, "updated": done.updated}
        await render.print_outcome(
            counts, "skipped", _SKIPPED_COLUMNS, iterate_skipped_rows(ports, done), as_json
        )
        await imports.finish_import(ports, file.fingerprint)
        return done

    done = run_command(work)
    if names := sorted(ascii(name[:40]) for name in file.unknown_names):
        render.print_note(f"staffbooking: ignored, since no such fields exist: {', '.join(names)}")
    if done.skipped:
        render.print_note(f"staffbooking: {done.skipped} of {done.row_count} rows were skipped")
        raise typer.Exit(1)
