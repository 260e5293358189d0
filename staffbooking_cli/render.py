"""What a command prints: one JSON document, or tables for people.

Standard output has the answer alone; notes and progress go to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Record = Mapping[str, Any]

AS_WIDE_AS_IT_TAKES = 1_000_000
"""Columns of what is no terminal: a program that reads a table gets whole lines."""


def note(text: str) -> None:
    """A word to the operator, beside the answer."""
    typer.echo(text, err=True)


# JSON -----------------------------------------------------------------------------------


def print_json(document: Record) -> None:
    from staffbooking_adapters.codec import encode

    typer.echo(encode(document))


async def _print_json_list(name: str, records: AsyncIterator[Record]) -> None:
    """One document, written as its elements come: a long list needs no memory."""
    from staffbooking_adapters.codec import encode

    lead = b'{"%s":[' % name.encode()
    async for record in records:
        typer.echo(lead + encode(record), nl=False)
        lead = b","
    typer.echo(b"]}" if lead == b"," else lead + b"]}")


# Tables ---------------------------------------------------------------------------------


def cell(value: object) -> str:
    """A value as text of one line; what could steer a terminal is shown as its escape."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case list() | tuple():
            text = ", ".join(map(cell, value))
        case _:
            text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_table(columns: Sequence[str], rows: Iterable[Record], title: str = "") -> None:
    """A table of records: each column is a field's name."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    console = _console()
    if title:
        console.print(Text(f"\n{title}"))
    console.print(table)


def print_record(record: Record) -> None:
    """One record, a line for each field; nested lists are left to tables of their own."""
    rows = (
        {"field": name, "value": value}
        for name, value in record.items()
        if not (isinstance(value, list) and value and isinstance(value[0], Mapping))
    )
    print_table(("field", "value"), rows)


def _console() -> Console:
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, color_system=None, width=AS_WIDE_AS_IT_TAKES)


# Both -----------------------------------------------------------------------------------


def show(name: str, record: Record, as_json: bool) -> None:
    """A single thing: `{"user": {...}}`, or its fields."""
    if as_json:
        print_json({name: record})
    else:
        print_record(record)


async def show_list(
    name: str, columns: Sequence[str], records: AsyncIterator[Record], as_json: bool
) -> None:
    """A whole list: `{"users": [...]}`, or a table of some columns."""
    if as_json:
        await _print_json_list(name, records)
        return
    rows = [{column: record.get(column) for column in columns} async for record in records]
    print_table(columns, rows)


# Progress -------------------------------------------------------------------------------


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere; call what it gives with how far the work is."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    amount = (BarColumn(),) if total is not None else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), *amount)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
