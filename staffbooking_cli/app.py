"""The command tree.

Command modules import only typer at module level and everything else inside each command, so
`--help` loads no database driver and no web framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from staffbooking_cli.commands import (
    audit,
    bookings,
    companions,
    db,
    demo,
    disputes,
    doctor,
    inquiries,
    keys,
    ledger,
    openapi,
    payments,
    payouts,
    portfolio,
    refunds,
    reviews,
    sandbox,
    secrets,
    serve,
    users,
    webhooks,
    worker,
)
from staffbooking_cli.errors import error_line, innermost


class Commands(TyperGroup):
    """The root group: an error prints one line on standard error and exits with code 1."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _errors_as_one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _errors_as_one_line():
            return super().invoke(ctx)


class FaultNamingCommand(TyperCommand):
    """A command whose usage error names every wrong or missing option and argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if len(faults := self._faults(ctx, given)) > 1:
                ctx.fail(" ".join(faults))
            error.message = _without_kind(error.message)
            raise

    def _faults(self, ctx: Any, args: list[str]) -> list[str]:
        options, rest, _ = self.make_parser(ctx).parse_args(args=args)
        faults = []
        for parameter in self.get_params(ctx):
            try:
                parameter.handle_parse_result(ctx, options, rest)
            except typer.BadParameter as fault:
                fault.message = _without_kind(fault.message)
                faults.append(fault.format_message())
        return faults


def _without_kind(message: str) -> str:
    """A message about a value, without the words that typer from 0.29 puts before it."""
    return message.removeprefix("Value error, ")


@contextmanager
def _errors_as_one_line() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        line = error_line(error)
        if line is None and isinstance(error, BaseExceptionGroup):
            raise innermost(error) from None
        if line is None:
            raise
        typer.echo(f"staffbooking: {line}", err=True)
        raise typer.Exit(1) from None


app = typer.Typer(
    cls=Commands,
    epilog="Settings come from the environment (STAFFBOOKING_...).",
    no_args_is_help=True,
    # Plain help: rich formatting would take longer than everything else that help does.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from staffbooking_core import __version__

        typer.echo(f"staffbooking {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """A booking service for freelance staff."""


app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.add_typer(db.app, name="db")
app.add_typer(users.app, name="users")
app.add_typer(companions.app, name="companions")
app.add_typer(portfolio.app, name="portfolio")
app.add_typer(reviews.app, name="reviews")
app.add_typer(keys.app, name="keys")
app.add_typer(bookings.app, name="bookings")
app.add_typer(disputes.app, name="disputes")
app.add_typer(payouts.app, name="payouts")
app.add_typer(refunds.app, name="refunds")
app.add_typer(payments.app, name="payments")
app.add_typer(ledger.app, name="ledger")
app.add_typer(audit.app, name="audit")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(inquiries.app, name="inquiries")
app.add_typer(secrets.app, name="secrets")
app.add_typer(sandbox.app, name="sandbox")
app.command("openapi")(openapi.openapi)
app.command("doctor")(doctor.doctor)


def _name_all_faults(group: typer.Typer) -> None:
    """Make every command of a group and of its subgroups a `FaultNamingCommand`."""
    for command in group.registered_commands:
        command.cls = FaultNamingCommand
    for subgroup in group.registered_groups:
        if subgroup.typer_instance is not None:
            _name_all_faults(subgroup.typer_instance)


_name_all_faults(app)
