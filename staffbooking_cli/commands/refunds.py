"""`refunds`: lists and retries failed refunds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.bookings import booking_record
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Code, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Refunds that failed.", no_args_is_help=True)

COLUMNS = (
    "booking_code",
    "customer=customer_name",
    "refund=amount currency",
    "status",
    "settlement",
    "attempts",
    "created_at",
    "last_error",
)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=100_000)] = 1000,
    as_json: AsJson = False,
) -> None:
    """List refunds that were refused or returned and have not been retried, oldest first."""
    from staffbooking_core.representations.administration import admin_refund_record
    from staffbooking_core.usecases.accounts import administration
    from staffbooking_core.usecases.payments import refunds

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[Mapping[str, Any]]:
            found = (await refunds.list_failed_refunds(ports, limit=limit))[:limit]
            emails = await administration.emails_of(ports, {each.customer_id for each, _ in found})
            for booking, operation in found:
                yield admin_refund_record(booking, operation, emails)

        await render.print_list("refunds", COLUMNS, records(), as_json)

    run_command(work)


@app.command()
def retry(code: Code, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Retry every failed refund of a booking now, as new operations."""
    from staffbooking_core.usecases.payments import refunds

    booking = run_operator_command(
        lambda ports: refunds.retry_refunds(ports, code),
        "retry",
        "refund",
        code,
        reason=reason,
        by=by,
    )
    render.print_result("booking", booking_record(booking), as_json)
