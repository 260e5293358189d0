"""`refunds`: lists and retries failed refunds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.bookings import booking_record
from staffbooking_cli.commands.disputes import operation_record
from staffbooking_cli.listing import iterate_records
from staffbooking_cli.options import AsJson, Code
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.domain.payments.processor import Operation
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


def _refund_record(failed: tuple[Booking, Operation]) -> dict[str, Any]:
    """The record of a refund that was refused or whose money was returned."""
    booking, operation = failed
    return {
        "booking_code": booking.code,
        "customer_id": booking.customer_id,
        "customer_name": booking.customer_name,
        "currency": booking.currency,
        **operation_record(operation, booking.currency),
    }


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=100_000)] = 1000,
    as_json: AsJson = False,
) -> None:
    """List refunds that were refused or returned and have not been retried, oldest first."""
    from staffbooking_core.usecases.payments import refunds

    async def work(ports: Ports) -> None:
        found = await refunds.list_failed_refunds(ports, limit)
        await render.print_list("refunds", COLUMNS, iterate_records(found, _refund_record), as_json)

    run_command(work)


@app.command()
def retry(code: Code, as_json: AsJson = False) -> None:
    """Retry every failed refund of a booking now, as new operations."""
    from staffbooking_core.usecases.payments import refunds

    booking = run_command(lambda ports: refunds.retry_refunds(ports, code))
    render.print_result("booking", booking_record(booking), as_json)
