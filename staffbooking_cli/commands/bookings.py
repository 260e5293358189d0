"""`bookings`: lists and shows bookings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.options import AsJson, Code, Limit, Page, Status
from staffbooking_cli.session import read_settings, run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.representations.bookings import BookingRecord

app = typer.Typer(help="Bookings of all customers.", no_args_is_help=True)

COLUMNS = (
    "booking_code",
    "status",
    "starts_at",
    "hours=duration_hours",
    "service=service_type",
    "companion=companion_name",
    "customer=customer_name",
    "total=total_amount currency",
    "payment=payment_status",
)
TIMELINE_COLUMNS = ("at", "from", "to", "trigger", "actor", "actor_id", "reason")


def booking_record(booking: Booking) -> BookingRecord:
    """The booking's record for an admin."""
    from staffbooking_core.domain.bookings.lifecycle import Party
    from staffbooking_core.representations import bookings

    return bookings.booking_record(booking, Party.ADMIN, read_settings().policy)


def print_page(
    name: str,
    columns: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    page: int,
    limit: int,
    as_json: bool,
) -> None:
    """Print a page. `records` holds up to `limit` + 1 rows; the extra row means that more
    follow."""
    rows, has_more = records[:limit], len(records) > limit
    if as_json:
        render.print_json({name: rows, "page": page, "limit": limit, "has_more": has_more})
        return
    render.print_table(columns, rows)
    if has_more:
        render.print_note(f"There are more: --page {page + 1}")


@app.command("list")
def list_(
    status: Annotated[Status | None, typer.Option(help="Only with this status.")] = None,
    limit: Limit = 50,
    page: Page = 1,
    as_json: AsJson = False,
) -> None:
    """List a page of all bookings, latest event first."""
    from staffbooking_core.domain.bookings import lifecycle
    from staffbooking_core.usecases.bookings import overview

    status_filter = None if status is None else lifecycle.BookingStatus(status)
    found = run_command(lambda ports: overview.list_all_bookings(ports, status_filter, page, limit))
    print_page("bookings", COLUMNS, [*map(booking_record, found)], page, limit, as_json)


@app.command()
def show(code: Code, as_json: AsJson = False) -> None:
    """Show one booking with its timeline."""
    from staffbooking_core.usecases.bookings import actions

    record = booking_record(run_command(lambda ports: actions.get_by_code(ports, code)))
    render.print_result("booking", record, as_json)
    if not as_json:
        render.print_table(TIMELINE_COLUMNS, record["timeline"], title="timeline")
