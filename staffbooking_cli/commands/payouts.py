"""`payouts`: lists, holds, releases and retries open payouts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.disputes import OPERATION_COLUMNS
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Code, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.ports import Ports
    from staffbooking_core.representations.administration import AdminPayoutRecord

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


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=100_000)] = 1000,
    as_json: AsJson = False,
) -> None:
    """List payouts that are scheduled, failed or frozen, earliest due first.

    A payout is frozen while it is on hold or its booking is under dispute.
    """
    from staffbooking_core.usecases.payments import payouts

    async def work(ports: Ports) -> None:
        found = (await payouts.list_payouts(ports, limit=limit))[:limit]
        await render.print_list("payouts", COLUMNS, _payout_records(ports, found), as_json)

    run_command(work)


async def _payout_records(
    ports: Ports, found: Sequence[Booking]
) -> AsyncIterator[AdminPayoutRecord]:
    from staffbooking_core.representations.administration import admin_payout_record
    from staffbooking_core.usecases.accounts import administration
    from staffbooking_core.usecases.payments import payouts

    emails = await administration.emails_of(ports, {each.companion_id for each in found})
    sent = await payouts.payout_operations(ports, found)
    for booking in found:
        yield admin_payout_record(booking, sent.get(booking.id), ports.policy, emails)


@app.command()
def show(code: Code, as_json: AsJson = False) -> None:
    """Show one booking's payout with its payout and reversal operations."""
    from staffbooking_core.domain.payments.processor import OperationKind
    from staffbooking_core.representations.administration import operation_record
    from staffbooking_core.usecases.payments import ledger_check

    async def work(ports: Ports) -> dict[str, Any]:
        book = await ledger_check.get_booking_ledger(ports, code)
        operations = [
            operation_record(one, book.booking.currency)
            for one in book.operations
            if one.kind in (OperationKind.PAY_OUT, OperationKind.REVERSE_PAYOUT)
        ]
        [payout] = [each async for each in _payout_records(ports, [book.booking])]
        return {**payout, "operations": operations}

    record = run_command(work)
    render.print_result("payout", record, as_json)
    if not as_json:
        render.print_table(OPERATION_COLUMNS, record["operations"], title="operations")


@app.command()
def hold(code: Code, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Hold a payout: nothing is sent until it is released."""
    from staffbooking_core.usecases.payments import payouts

    _run_and_show(
        lambda ports: payouts.hold_payout(ports, code, reason), "hold", code, reason, by, as_json
    )


@app.command()
def release(code: Code, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Release a payout that is on hold: the worker sends it when it is due."""
    from staffbooking_core.usecases.payments import payouts

    _run_and_show(
        lambda ports: payouts.release_payout(ports, code), "release", code, reason, by, as_json
    )


@app.command()
def retry(code: Code, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Retry now a payout that failed or is waiting for its next retry."""
    from staffbooking_core.usecases.payments import payouts

    _run_and_show(
        lambda ports: payouts.retry_payout(ports, code), "retry", code, reason, by, as_json
    )


def _run_and_show(
    work: Callable[[Ports], Awaitable[Booking]],
    act: str,
    code: str,
    reason: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    async def done(ports: Ports) -> AdminPayoutRecord:
        [record] = [each async for each in _payout_records(ports, [await work(ports)])]
        return record

    record = run_operator_command(done, act, "payout", code, reason=reason, by=by)
    render.print_result("payout", record, as_json)
