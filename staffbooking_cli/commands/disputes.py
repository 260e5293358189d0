"""`disputes`: lists disputes, shows their evidence and records the operator's resolution."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import options, render
from staffbooking_cli.commands.bookings import TIMELINE_COLUMNS, booking_record, print_page
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Code, Limit, Page, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.ports import Ports
    from staffbooking_core.usecases.bookings.disputes import DisputeConversation
    from staffbooking_core.usecases.payments.ledger_check import BookingLedger

app = typer.Typer(help="Disputes and their resolution.", no_args_is_help=True)

COLUMNS = (
    "booking_code",
    "disputed_at",
    "respond_by",
    "by=disputed_by",
    "reason=dispute_reason",
    "companion=companion_name",
    "customer=customer_name",
    "total=total_amount currency",
    "chargeback=chargeback_status",
)
STATEMENT_COLUMNS = ("at", "by", "text", "files")
OPERATION_COLUMNS = (
    "id",
    "kind",
    "amount",
    "status",
    "settlement",
    "attempts",
    "created_at",
    "last_error",
)


def _dispute_record(booking: Booking) -> dict[str, Any]:
    """The booking's record with the dispute and chargeback fields."""
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.representations.json_types import format_instant

    charged = Currency(booking.currency).to_decimal(booking.chargeback_amount)
    return {
        **booking_record(booking),
        "disputed_by": booking.disputed_by,
        "dispute_reason": booking.dispute_reason,
        "respond_by": format_instant(booking.dispute_respond_by),
        "chargeback_ref": booking.chargeback_ref,
        "chargeback_status": booking.chargeback_status,
        "chargeback_amount": None if booking.chargeback_ref is None else charged,
    }


@app.command("list")
def list_(limit: Limit = 50, page: Page = 1, as_json: AsJson = False) -> None:
    """List a page of the bookings under dispute: overdue ones first, then by their deadline."""
    from staffbooking_core.usecases.bookings import disputes

    found = run_command(lambda ports: disputes.list_disputes(ports, page, limit))
    print_page("disputes", COLUMNS, [*map(_dispute_record, found)], page, limit, as_json)


@app.command()
def show(code: Code, as_json: AsJson = False) -> None:
    """Show the evidence: the booking, what its parties stated, timeline, payment operations."""
    from staffbooking_core.usecases.bookings import disputes
    from staffbooking_core.usecases.payments import ledger_check

    async def work(ports: Ports) -> tuple[BookingLedger, DisputeConversation | None]:
        book = await ledger_check.get_booking_ledger(ports, code)
        if book.booking.disputed_at is None:
            return book, None
        return book, await disputes.get_dispute_by_code(ports, code)

    book, conversation = run_command(work)
    if conversation is None:
        raise CommandRefused(f"booking {code} was never under dispute")
    record = {**_evidence_record(book), **_conversation_record(conversation)}
    render.print_result("dispute", record, as_json)
    if not as_json:
        render.print_table(STATEMENT_COLUMNS, record["statements"], title="statements")
        if (resolution := record["resolution"]) is not None:
            render.print_table(tuple(resolution), [resolution], title="resolution")
        render.print_table(TIMELINE_COLUMNS, record["timeline"], title="timeline")
        render.print_table(tuple(record["money"]), [record["money"]], title="money")
        render.print_table(OPERATION_COLUMNS, record["operations"], title="operations")


def _conversation_record(found: DisputeConversation) -> dict[str, Any]:
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.representations.disputes import dispute_record

    record = dispute_record(found.dispute, found.statements, Currency(found.booking.currency))
    return {
        "dispute_status": record["status"],
        "statements": record["statements"],
        "resolution": record["resolution"],
    }


def _evidence_record(book: BookingLedger) -> dict[str, Any]:
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.representations.administration import operation_record

    booking, currency = book.booking, book.booking.currency
    money = Currency(currency).to_decimal
    return {
        **_dispute_record(booking),
        "payment_ref": None if booking.intent is None else booking.intent.payment_ref,
        "money": {
            "held": money(booking.escrow),
            "refunded": money(booking.refunded_amount),
            "paid_out": money(booking.paid_out),
            "owed_by_staff": money(booking.owed_by_staff),
        },
        "operations": [operation_record(operation, currency) for operation in book.operations],
    }


@app.command()
def resolve(
    code: Code,
    release: Annotated[
        bool, typer.Option("--release", help="Decide for the staff member: pay out.")
    ] = False,
    refund: Annotated[
        bool, typer.Option("--refund", help="Decide for the customer: refund everything.")
    ] = False,
    split: Annotated[
        Decimal | None,
        typer.Option(
            parser=options.amount, metavar="AMOUNT", help="Refund this amount, pay out on the rest."
        ),
    ] = None,
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a dispute: exactly one of --release, --refund, --split."""
    from staffbooking_core.operator_inputs import ResolutionOutcome
    from staffbooking_core.usecases.bookings import actions, disputes

    if release + refund + (split is not None) != 1:
        raise typer.BadParameter("give exactly one of --release, --refund, --split AMOUNT")
    outcome = (
        ResolutionOutcome.RELEASE
        if release
        else ResolutionOutcome.REFUND
        if refund
        else ResolutionOutcome.SPLIT
    )

    async def work(ports: Ports) -> Booking:
        booking = await actions.get_by_code(ports, code)
        amount = _to_minor(booking, split)
        return await disputes.resolve_dispute(ports, code, outcome, amount, reason)

    booking = run_operator_command(work, "resolve", "dispute", code, reason=reason, by=by)
    render.print_result("booking", booking_record(booking), as_json)


def _to_minor(booking: Booking, amount: Decimal | None) -> int:
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.errors import invalid_field

    try:
        return 0 if amount is None else Currency(booking.currency).to_minor(amount)
    except ValueError as error:
        raise invalid_field("split", str(error)) from None
