"""`users`: manages the accounts of customers, staff and admins."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import options, render
from staffbooking_cli.commands.bookings import booking_record
from staffbooking_cli.listing import iterate_pages
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import (
    AsJson,
    BookingsDecisionOption,
    By,
    Email,
    Reason,
    Role,
    Tier,
)
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.accounts.users import User
    from staffbooking_core.domain.bookings.booking import Booking
    from staffbooking_core.ports import Ports
    from staffbooking_core.usecases.bookings.disabling import Obligations

app = typer.Typer(help="Accounts of customers, staff and admins.", no_args_is_help=True)

COLUMNS = (
    "id",
    "email",
    "name=first_name last_name",
    "role",
    "subscription",
    "until=subscription_expires_at",
    "created_at",
    "disabled_at",
)


OBLIGATION_COLUMNS = (
    "booking_code",
    "status",
    "starts_at",
    "companion=companion_name",
    "customer=customer_name",
    "total=total_amount currency",
    "payout=payout_amount",
    "payout_status",
    "payout_due_at",
)


def _user_record(user: User) -> dict[str, Any]:
    """The published record with the time at which the account was disabled."""
    from staffbooking_core.representations import accounts
    from staffbooking_core.representations.json_types import format_instant

    return {**accounts.user_record(user), "disabled_at": format_instant(user.disabled_at)}


def _change_and_show(
    work: Callable[[Ports], Awaitable[User]],
    act: str,
    email: str | None,
    reason: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    user = run_operator_command(work, act, "person", email, reason=reason, by=by)
    render.print_result("user", _user_record(user), as_json)


@app.command()
def create(
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    first_name: Annotated[str, typer.Option()],
    last_name: Annotated[str, typer.Option()],
    password: Annotated[
        str | None, typer.Option(help="Without it nobody can sign in until one is set.")
    ] = None,
    role: Annotated[Role, typer.Option()] = "customer",
    subscription: Annotated[Tier, typer.Option()] = "none",
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Create an account."""
    from staffbooking_adapters.inputs import structure
    from staffbooking_core.operator_inputs import CreateUser
    from staffbooking_core.usecases.accounts import administration

    data = {
        "email": email,
        "first_name": first_name,
        "last_name": last_name,
        "role": role,
        "password": password,
        "subscription": subscription,
    }
    account = structure(CreateUser, data)
    _change_and_show(
        lambda ports: administration.create_user(ports, account),
        "create",
        None,
        reason,
        by,
        as_json,
    )


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all accounts, ordered by id."""
    from staffbooking_core.usecases.accounts import administration

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[dict[str, Any]]:
            async for user in iterate_pages(
                lambda after, limit: administration.list_users_after(ports, after, limit)
            ):
                yield _user_record(user)

        await render.print_list("users", COLUMNS, records(), as_json)

    run_command(work)


@app.command()
def show(email: Email, as_json: AsJson = False) -> None:
    """Show one account."""
    from staffbooking_core.usecases.accounts import administration

    user = run_command(lambda ports: administration.get_user(ports, email))
    render.print_result("user", _user_record(user), as_json)


@app.command()
def subscribe(
    email: Email,
    tier: Annotated[Tier, typer.Argument()],
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=options.instant, metavar="INSTANT", help="When it ends; no end by default."
        ),
    ] = None,
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Set the subscription; API keys require the enterprise subscription."""
    from staffbooking_core.domain.accounts.users import Subscription
    from staffbooking_core.usecases.accounts import administration

    subscription = Subscription(tier)
    _change_and_show(
        lambda ports: administration.set_subscription(ports, email, subscription, until),
        "subscribe",
        email,
        reason,
        by,
        as_json,
    )


@app.command()
def disable(
    email: Email,
    bookings: Annotated[
        BookingsDecisionOption | None,
        typer.Option(help="What becomes of accepted and paid bookings that have not ended."),
    ] = None,
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Disable an account: its sessions and keys stop working, search hides its companion.

    Its requests end, its payouts are held until `payouts release`. Where accepted or paid bookings
    are ahead, --bookings is needed: cancel (full refunds) or keep; without it they are listed and
    nothing is changed.
    """
    from staffbooking_core.operator_inputs import BookingsOfDisabled
    from staffbooking_core.usecases.bookings import disabling

    decision = None if bookings is None else BookingsOfDisabled(bookings)

    async def work(ports: Ports) -> disabling.DisabledAccount:
        try:
            done = await disabling.disable_user(ports, email, decision, reason)
        except disabling.BookingsAhead as error:
            _print_obligations({}, error.obligations, {}, as_json)
            raise
        await _warn_without_admins(ports, done.user)
        return done

    done = run_operator_command(work, "disable", "person", email, reason=reason, by=by)
    _print_obligations(
        {"user": _user_record(done.user)},
        done.obligations,
        {"cancelled": done.cancelled},
        as_json,
    )


async def _warn_without_admins(ports: Ports, disabled: User) -> None:
    """Print what to do if the last admin who could sign in was disabled."""
    from staffbooking_core.domain.accounts.users import AccountState, Role
    from staffbooking_core.usecases.accounts import people

    if disabled.role is not Role.ADMIN:
        return
    admins = people.PeopleFilter(role=Role.ADMIN, state=AccountState.ACTIVE)
    if not (await people.find_people(ports, admins, None, 1)).people:
        render.print_note(
            "staffbooking: no admin is left who can sign in to the operators' pages: "
            "`staffbooking users enable EMAIL` enables one again"
        )


def _print_obligations(
    head: dict[str, Any],
    obligations: Obligations,
    more: Mapping[str, Sequence[Booking]],
    as_json: bool,
) -> None:
    """Print the bookings and payouts of an account, after a record or none."""
    lists = {"bookings": obligations.bookings, "payouts": obligations.payouts, **more}
    records = {name: [*map(booking_record, found)] for name, found in lists.items()}
    if as_json:
        render.print_json({**head, **records})
        return
    for record in head.values():
        render.print_record(record)
    for name, rows in records.items():
        if rows:
            render.print_table(OBLIGATION_COLUMNS, rows, title=name)


@app.command()
def enable(email: Email, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Enable a disabled account."""
    from staffbooking_core.usecases.accounts import administration

    _change_and_show(
        lambda ports: administration.enable_user(ports, email), "enable", email, reason, by, as_json
    )


@app.command()
def export(email: Email) -> None:
    """Print all data stored about a user as one JSON document."""
    from staffbooking_core.usecases import privacy
    from staffbooking_core.usecases.accounts import administration

    async def work(ports: Ports) -> None:
        found = await privacy.export_user_data(
            ports, (await administration.get_user(ports, email)).id
        )
        await render.print_json_stream(found)

    run_command(work)


@app.command()
def erase(email: Email, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Erase a user's personal data permanently. Refused while bookings are open."""
    from staffbooking_core.usecases import privacy
    from staffbooking_core.usecases.accounts import administration

    async def work(ports: Ports) -> User:
        return await privacy.erase_person(ports, (await administration.get_user(ports, email)).id)

    _change_and_show(work, "erase", email, reason, by, as_json)


@app.command("set-password")
def set_password(
    email: Email,
    password: Annotated[
        str | None, typer.Option(help="If omitted, prompted for or read from standard input.")
    ] = None,
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Set a password; every session of the account ends, and its owner is notified."""
    from staffbooking_core.usecases.accounts import administration

    text = _read_password() if password is None else password
    _change_and_show(
        lambda ports: administration.set_password(ports, email, text),
        "set_password",
        email,
        reason,
        by,
        as_json,
    )


def _read_password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
