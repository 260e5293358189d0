"""`payouts`: lists, holds, releases and retries open payouts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.disputes import OPERATION_COLUMNS, operation_record
from staffbooking_cli.options import AsJson, Code
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.domain.payments.processor import Operation
    from staffbooking_core.policy import Policy
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Open payouts: list, hold, release, retry.", no_args_is_help=True)

COLUMNS = (
    "booking_code",
    "status",
    "companion=companion_name",
    "payout=left currency",
    "payout_status",
    "due=payout_due_at",
    "released=released_at",
    "attempts",
    "last_error",
)


def _payout_record(booking: Booking, policy: Policy) -> dict[str, Any]:
    """The payout of a booking; `left` is the amount not yet sent."""
    from staffbooking_core.domain.bookings.timers import payout_deadline
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.representations.json_types import format_instant

    money = Currency(booking.currency).to_decimal
    due_at = booking.payout_due_at
    return {
        "booking_code": booking.code,
        "status": booking.status,
        "companion_id": booking.companion_id,
        "companion_name": booking.companion_name,
        "currency": booking.currency,
        "price": money(booking.price),
        "platform_fee": money(booking.platform_fee),
        "payout_amount": money(booking.payout_amount),
        "left": money(booking.payout_left),
        "payout_status": booking.payout_status,
        "payout_due_at": format_instant(due_at),
        "released_at": format_instant(booking.payout_released_at),
        "promised_by": format_instant(due_at and payout_deadline(due_at, policy)),
        "completed_at": format_instant(booking.completed_at),
    }


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=100_000)] = 1000,
    as_json: AsJson = False,
) -> None:
    """List payouts that are scheduled, failed or frozen, earliest due first.

    A payout is frozen while it is on hold or its booking is under dispute.
    """
    from staffbooking_core.usecases.accounts import administration

    async def work(ports: Ports) -> None:
        found = await administration.list_payouts(ports, limit)
        await render.print_list("payouts", COLUMNS, _records_with_attempts(ports, found), as_json)

    run_command(work)


async def _records_with_attempts(
    ports: Ports, found: Sequence[Booking]
) -> AsyncIterator[dict[str, Any]]:
    """The payouts' records; released ones with the attempts of their operation and its last
    error."""
    async with ports.store.read_view() as view:
        for booking in found:
            sent: Operation | None = None
            if booking.payout_released_at is not None:
                operations = await view.operations.operations_of(booking.id)
                sent = next((one for one in operations if one.n == booking.payout_n), None)
            yield {
                **_payout_record(booking, ports.policy),
                "attempts": 0 if sent is None else sent.attempts,
                "last_error": None if sent is None else sent.last_error,
            }


@app.command()
def show(code: Code, as_json: AsJson = False) -> None:
    """Show one booking's payout with its payout and reversal operations."""
    from staffbooking_core.domain.payments.processor import OperationKind
    from staffbooking_core.usecases.payments import ledger_check

    async def work(ports: Ports) -> dict[str, Any]:
        book = await ledger_check.get_booking_ledger(ports, code)
        operations = [
            operation_record(one, book.booking.currency)
            for one in book.operations
            if one.kind in (OperationKind.PAY_OUT, OperationKind.REVERSE_PAYOUT)
        ]
        return {**_payout_record(book.booking, ports.policy), "operations": operations}

    record = run_command(work)
    render.print_result("payout", record, as_json)
    if not as_json:
        render.print_table(OPERATION_COLUMNS, record["operations"], title="operations")


@app.command()
def hold(
    code: Code,
    note: Annotated[str | None, typer.Option(help="The reason, kept on record.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hold a payout: nothing is sent until it is released."""
    from staffbooking_adapters.inputs import structure
    from staffbooking_cli.inputs import OperatorNote
    from staffbooking_core.usecases.payments import payouts

    checked_note = structure(OperatorNote, {"note": note})
    _run_and_show(lambda ports: payouts.hold_payout(ports, code, checked_note.note), as_json)


@app.command()
def release(code: Code, as_json: AsJson = False) -> None:
    """Release a payout that is on hold: the worker sends it when it is due."""
    from staffbooking_core.usecases.payments import payouts

    _run_and_show(lambda ports: payouts.release_payout(ports, code), as_json)


@app.command()
def retry(code: Code, as_json: AsJson = False) -> None:
    """Retry now a payout that failed or is waiting for its next retry."""
    from staffbooking_core.usecases.payments import payouts

    _run_and_show(lambda ports: payouts.retry_payout(ports, code), as_json)


def _run_and_show(work: Callable[[Ports], Awaitable[Booking]], as_json: bool) -> None:
    async def done(ports: Ports) -> dict[str, Any]:
        return _payout_record(await work(ports), ports.policy)

    render.print_result("payout", run_command(done), as_json)
