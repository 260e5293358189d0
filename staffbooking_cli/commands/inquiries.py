"""`inquiries`: messages sent through the contact form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import typer

from staffbooking_cli import render
from staffbooking_cli.listing import iterate_pages
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports
    from staffbooking_core.representations.accounts import InquiryRecord

app = typer.Typer(help="Messages sent through the contact form.", no_args_is_help=True)


@app.callback()
def inquiries() -> None:
    """A callback makes typer keep `list` as a subcommand although it is the only one."""


COLUMNS = ("id", "created_at", "name", "email", "subject", "message")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all inquiries, oldest first."""
    from staffbooking_core.representations.accounts import inquiry_record
    from staffbooking_core.usecases.notifications import inquiries as notifications_inquiries

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[InquiryRecord]:
            async for each in iterate_pages(
                lambda after, limit: notifications_inquiries.list_inquiries(ports, after, limit)
            ):
                yield inquiry_record(each)

        await render.print_list("inquiries", COLUMNS, records(), as_json)

    run_command(work)
