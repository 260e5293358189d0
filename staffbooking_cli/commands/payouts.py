"""`payouts`: what staff members are still to get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.listing import records
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings import Booking
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Payouts that are not made yet.", no_args_is_help=True)

COLUMNS = (
    "booking_code",
    "status",
    "companion=companion_name",
    "payout=payout_amount currency",
    "payout_status",
    "due=payout_due_at",
)


def payout_record(booking: Booking) -> dict[str, Any]:
    from staffbooking_core.domain.money import Currency
    from staffbooking_core.domain.records import instant

    money = Currency(booking.currency).to_decimal
    return {
        "booking_code": booking.code,
        "status": booking.status,
        "companion_id": booking.companion_id,
        "companion_name": booking.companion_name,
        "currency": booking.currency,
        "price": money(booking.price),
        "platform_fee": money(booking.platform_fee),
        "payout_amount": money(booking.payout_amount),
        "payout_status": booking.payout_status,
        "payout_due_at": instant(booking.payout_due_at),
        "completed_at": instant(booking.completed_at),
    }


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=100_000)] = 1000,
    as_json: AsJson = False,
) -> None:
    """Payouts that are scheduled, failed or frozen, the earliest due first."""
    from staffbooking_core.usecases import admin

    async def work(ports: Ports) -> None:
        found = await admin.payouts(ports, limit)
        await render.show_list("payouts", COLUMNS, records(found, payout_record), as_json)

    run(work)
