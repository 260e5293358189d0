"""`ledger`: checks the ledger's invariants and shows the ledger of one booking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.disputes import OPERATION_COLUMNS
from staffbooking_cli.options import AsJson, Code
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports
    from staffbooking_core.usecases.payments.ledger_check import BookingLedger

app = typer.Typer(help="The double-entry ledger.", no_args_is_help=True)

_LEG_COLUMNS = ("at", "posting", "account", "debit", "credit", "balance")
_BALANCE_COLUMNS = ("account", "debits", "credits", "balance")


@app.command()
def check(as_json: AsJson = False) -> None:
    """Check every ledger invariant of every booking; exit with 1 if one is broken."""
    faults, checked = run_command(_find_faults)
    if as_json:
        render.print_json({"faults": faults, "checked": checked})
    elif faults:
        render.print_table(("booking_code", "text"), faults)
    if faults:
        render.print_note(f"staffbooking: {len(faults)} faults in {checked} bookings")
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"{checked} bookings checked, no faults")


async def _find_faults(ports: Ports) -> tuple[list[dict[str, Any]], int]:
    from staffbooking_core.usecases.payments import ledger_check

    faults, checked = [], 0
    with render.progress("bookings checked") as report_progress:
        async for found in ledger_check.check_ledger(ports):
            if isinstance(found, int):
                checked = found
                report_progress(checked)
            else:
                faults.append({"booking_code": found.booking_code, "text": found.text})
    return faults, checked


@app.command()
def show(code: Code, as_json: AsJson = False) -> None:
    """Show one booking's postings with running balances, its operations and its account
    balances: debits are positive, credits negative."""
    from staffbooking_core.representations.administration import ledger_record
    from staffbooking_core.usecases.payments import ledger_check

    book = run_command(lambda ports: ledger_check.get_booking_ledger(ports, code))
    record = ledger_record(book.booking, book.postings, book.operations)
    if as_json:
        render.print_json({"ledger": record})
        return
    title = f"{code}, amounts in {book.booking.currency}"
    render.print_table(_LEG_COLUMNS, [*_leg_rows(book)], title=title)
    render.print_table(OPERATION_COLUMNS, record["operations"], title="operations")
    render.print_table(_BALANCE_COLUMNS, [*_balance_rows(book)], title="balances")


def _leg_rows(book: BookingLedger) -> Iterator[dict[str, Any]]:
    """A row for each leg; the posting's key and time are on its first leg only."""
    from staffbooking_core.domain.shared.money import Currency
    from staffbooking_core.representations.json_types import format_instant

    money = Currency(book.booking.currency).to_decimal
    sums: Counter[str] = Counter()
    for posting in book.postings:
        head = {"at": format_instant(posting.at), "posting": posting.key}
        for leg in posting.legs:
            sums[leg.account] += leg.amount
            side = "debit" if leg.amount > 0 else "credit"
            yield {
                **head,
                "account": leg.account,
                side: money(abs(leg.amount)),
                "balance": money(sums[leg.account]),
            }
            head = {}


def _balance_rows(book: BookingLedger) -> Iterator[dict[str, Any]]:
    """A row for each account with legs of the booking, in the order of `Account`."""
    from staffbooking_core.domain.payments.ledger import Account
    from staffbooking_core.domain.shared.money import Currency

    money = Currency(book.booking.currency).to_decimal
    for account in Account:
        amounts = [
            leg.amount
            for posting in book.postings
            for leg in posting.legs
            if leg.account is account
        ]
        if amounts:
            yield {
                "account": account,
                "debits": money(sum(amount for amount in amounts if amount > 0)),
                "credits": money(-sum(amount for amount in amounts if amount < 0)),
                "balance": money(sum(amounts)),
            }
