"""`keys`: API keys of enterprise subscribers and admins."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import options, render
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.listing import iterate_records
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Email, Id, PermissionOption, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports
    from staffbooking_core.representations.accounts import ApiKeyRecord

app = typer.Typer(help="API keys.", no_args_is_help=True)

COLUMNS = (
    "id",
    "name",
    "masked_key",
    "permissions",
    "created_at",
    "last_used_at",
    "expires_at",
    "revoked_at",
)


@app.command()
def create(
    email: Email,
    name: Annotated[str, typer.Option(help="What the key is for.")],
    permission: Annotated[
        list[PermissionOption], typer.Option(help="read or book; repeat for both.")
    ],
    expires_at: Annotated[
        datetime | None,
        typer.Option(parser=options.instant, metavar="INSTANT", help="No expiry by default."),
    ] = None,
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. It is shown only once: the service stores a hash of it."""
    from staffbooking_adapters.inputs import structure
    from staffbooking_core.inputs import CreateApiKey
    from staffbooking_core.representations.accounts import api_key_record
    from staffbooking_core.representations.json_types import format_instant
    from staffbooking_core.usecases.accounts import administration, api_keys

    permissions = list(dict.fromkeys(each.value for each in permission))
    data = {"name": name, "permissions": permissions, "expires_at": format_instant(expires_at)}
    command = structure(CreateApiKey, data)

    async def work(ports: Ports) -> tuple[str, ApiKeyRecord]:
        user = await administration.get_user(ports, email)
        if user.disabled_at is not None:
            raise CommandRefused(f"the account is disabled: `staffbooking users enable {email}`")
        key, made = await api_keys.create(ports, user, command)
        return key, api_key_record(made)

    key, record = run_operator_command(work, "create", "api_key", None, reason=reason, by=by)
    if as_json:
        render.print_json({"key": key, "api_key": record})
    else:
        render.print_record({"key": key, **record})
        render.print_note("This is the only time that the key is shown.")


@app.command("list")
def list_(email: Email, as_json: AsJson = False) -> None:
    """List all keys of an account, newest first, including revoked ones."""
    from staffbooking_core.representations.accounts import api_key_record
    from staffbooking_core.usecases.accounts import administration, api_keys

    async def work(ports: Ports) -> None:
        found = await api_keys.list_keys(ports, await administration.get_user(ports, email))
        await render.print_list("keys", COLUMNS, iterate_records(found, api_key_record), as_json)

    run_command(work)


@app.command()
def revoke(key_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Revoke a key permanently; every process rejects it within seconds."""
    from staffbooking_core.usecases.accounts import api_keys

    run_operator_command(
        lambda ports: api_keys.revoke(ports, None, key_id),
        "revoke",
        "api_key",
        key_id,
        reason=reason,
        by=by,
    )
    if as_json:
        render.print_json({"success": True})
    else:
        typer.echo(f"Key {key_id} is revoked.")
