"""`keys`: API keys of enterprise subscribers and admins."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import options, render
from staffbooking_cli.listing import records
from staffbooking_cli.options import AsJson, Email, Id, Permission
from staffbooking_cli.session import run

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

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
    permission: Annotated[list[Permission], typer.Option(help="Once for each: read, book.")],
    expires_at: Annotated[
        datetime | None,
        typer.Option(parser=options.instant, metavar="INSTANT", help="Never by default."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once: only a hash of it is kept."""
    from staffbooking_adapters.inputs import structure
    from staffbooking_core.inputs import CreateKey
    from staffbooking_core.representations.records import instant, key_record
    from staffbooking_core.usecases.accounts import administration, api_keys

    permissions = list(dict.fromkeys(each.value for each in permission))
    given = {"name": name, "permissions": permissions, "expires_at": instant(expires_at)}
    wanted = structure(CreateKey, given)

    async def work(ports: Ports) -> tuple[str, dict[str, Any]]:
        key, made = await api_keys.create(ports, await administration.user(ports, email), wanted)
        return key, key_record(made)

    key, record = run(work)
    if as_json:
        render.print_json({"key": key, "api_key": record})
    else:
        render.print_record({"key": key, **record})
        render.note("This is the only time that the key is shown.")


@app.command("list")
def list_(email: Email, as_json: AsJson = False) -> None:
    """All keys of an account, revoked ones too, the newest first."""
    from staffbooking_core.representations.records import key_record
    from staffbooking_core.usecases.accounts import administration, api_keys

    async def work(ports: Ports) -> None:
        found = await api_keys.listing(ports, await administration.user(ports, email))
        await render.show_list("keys", COLUMNS, records(found, key_record), as_json)

    run(work)


@app.command()
def revoke(key_id: Id, as_json: AsJson = False) -> None:
    """End a key for good, on every process within seconds."""
    from staffbooking_core.usecases.accounts import api_keys

    run(lambda ports: api_keys.revoke(ports, None, key_id))
    if as_json:
        render.print_json({"success": True})
    else:
        typer.echo(f"Key {key_id} is revoked.")
