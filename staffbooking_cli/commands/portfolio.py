"""`portfolio`: lists, approves and rejects portfolio items."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.listing import iterate_pages
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Id, ItemStatus, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.companions.portfolio import PortfolioItem
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Portfolio items: approval.", no_args_is_help=True)

COLUMNS = ("id", "companion_id", "status", "title", "image", "description", "created_at")


def _item_record(item: PortfolioItem) -> dict[str, Any]:
    """The published record with its companion's id."""
    from staffbooking_core.representations.companions import own_portfolio_record

    return {**own_portfolio_record(item), "companion_id": item.companion_id}


@app.command("list")
def list_(
    status: Annotated[ItemStatus | None, typer.Option(help="Only with this status.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the items of all companions, ordered by id."""
    from staffbooking_core.domain.companions import portfolio
    from staffbooking_core.usecases.companions import approvals

    item_status = None if status is None else portfolio.PortfolioItemStatus(status)

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[dict[str, Any]]:
            async for item in iterate_pages(
                lambda after, limit: approvals.list_portfolio_items_after(
                    ports, after, limit, item_status
                )
            ):
                yield _item_record(item)

        await render.print_list("portfolio", COLUMNS, records(), as_json)

    run_command(work)


@app.command()
def approve(item_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Approve an item: everybody can see it."""
    _set_status(item_id, "approve", "approved", reason, by, as_json)


@app.command()
def reject(
    item_id: Id,
    reason: Annotated[
        str | None, typer.Option("--reason", "--note", help="Why, for its owner and the audit.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Reject an item, also an approved one: only its owner can see it, and reads the reason.

    Rejecting it again with another reason changes the reason.
    """
    _set_status(item_id, "reject", "rejected", reason, by, as_json)


def _set_status(
    item_id: int,
    act: str,
    status: ItemStatus,
    reason: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    from staffbooking_core.domain.companions import portfolio
    from staffbooking_core.usecases.companions import approvals

    judged = portfolio.PortfolioItemStatus(status)
    item = run_operator_command(
        lambda ports: approvals.moderate_item(ports, item_id, judged, reason),
        act,
        "portfolio_item",
        item_id,
        reason=reason,
        by=by,
    )
    render.print_result("item", _item_record(item), as_json)
