"""`reviews`: lists, hides and shows reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.listing import iterate_pages
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Id, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.companions.reviews import Review
    from staffbooking_core.ports import Ports

app = typer.Typer(help="Reviews: list, hide, show again.", no_args_is_help=True)

COLUMNS = (
    "id",
    "booking_id",
    "by=reviewer_name",
    "role=reviewer_role",
    "of=reviewee_id",
    "rating",
    "comment",
    "response",
    "hidden",
    "created_at",
)


def _record(review: Review) -> dict[str, Any]:
    """The published record with its `hidden` flag."""
    from staffbooking_core.representations.companions import review_record

    return {**review_record(review), "hidden": review.hidden}


@app.command("list")
def list_(
    user: Annotated[
        str | None, typer.Option(metavar="EMAIL", help="Only reviews by or of this user.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List all reviews, ordered by id, including hidden ones."""
    from staffbooking_core.usecases.accounts import administration
    from staffbooking_core.usecases.companions import reviews

    async def work(ports: Ports) -> None:
        person = None if user is None else (await administration.get_user(ports, user)).id

        async def records() -> AsyncIterator[dict[str, Any]]:
            async for one in iterate_pages(
                lambda after, limit: reviews.list_reviews_after(ports, after, limit)
            ):
                if person in (None, one.reviewer_id, one.reviewee_id):
                    yield _record(one)

        await render.print_list("reviews", COLUMNS, records(), as_json)

    run_command(work)


@app.command()
def hide(review_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Hide a review from lists, profile and rating; its reviewer can't submit another."""
    _hide(review_id, True, reason, by, as_json)


@app.command()
def show(review_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Show a hidden review again and count it in the rating."""
    _hide(review_id, False, reason, by, as_json)


def _hide(review_id: int, hidden: bool, reason: str | None, by: str | None, as_json: bool) -> None:
    from staffbooking_core.usecases.companions import reviews

    review = run_operator_command(
        lambda ports: reviews.set_review_hidden(ports, review_id, hidden),
        "hide" if hidden else "show",
        "review",
        review_id,
        reason=reason,
        by=by,
    )
    render.print_result("review", _record(review), as_json)
