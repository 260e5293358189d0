"""What a command prints: one JSON document, or tables for people.

Standard output has the answer alone; notes and progress go to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Record = Mapping[str, Any]

_CONSOLE_WIDTH = 1_000_000
MAX_TABLE_ROWS = 500
"""So many rows of a list without bounds are a table, which is laid out as a whole."""


def print_note(text: str) -> None:
    """A word to the operator, beside the answer."""
    typer.echo(text, err=True)


# JSON -----------------------------------------------------------------------------------


def print_json(document: Record) -> None:
    from staffbooking_adapters.codec import encode

    typer.echo(encode(document))


async def print_json_stream(document: Record) -> None:
    """The same, as it is made: what outgrows the memory."""
    from staffbooking_adapters.codec import iterate_json

    async for piece in iterate_json(document):
        typer.echo(piece, nl=False)
    typer.echo()


async def _print_json_list(
    name: str, records: AsyncIterator[Record], counts: Mapping[str, int] | None = None
) -> None:
    """One document, written as its elements come: a long list needs no memory."""
    from staffbooking_adapters.codec import encode

    head = "".join(f'"{count}":{number},' for count, number in (counts or {}).items())
    lead = f'{{{head}"{name}":['.encode()
    async for record in records:
        typer.echo(lead + encode(record), nl=False)
        lead = b","
    typer.echo(b"]}" if lead == b"," else lead + b"]}")


# Tables ---------------------------------------------------------------------------------


def format_cell(value: object) -> str:
    """A value as text of one line; what could steer a terminal is shown as its escape."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case list() | tuple():
            text = ", ".join(map(format_cell, value))
        case _:
            text = _INSTANT_PATTERN.sub(r"\1Z", str(value))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_INSTANT_PATTERN = re.compile(r"^([0-9-]{10}T[0-9:]{8})\.[0-9]+Z$")
"""In tables, to the second."""


def print_table(columns: Sequence[str], rows: Sequence[Record], title: str = "") -> None:
    """A table of records. A column is a field's name, or `title=field field` for several
    in one; numbers stand under each other by their last digit."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    fields = []
    for column in columns:
        head, _, names = column.rpartition("=")
        fields.append(names.split())
        table.add_column(
            (head or names).replace("_", " "),
            overflow="fold",
            max_width=_max_column_width(),
            justify="right" if _is_numeric_column(row.get(names) for row in rows) else "left",
        )
    for row in rows:
        table.add_row(
            *(Text(" ".join(format_cell(row.get(name)) for name in one)) for one in fields)
        )
    console = _console()
    if title:
        console.print(Text(f"\n{title}"))
    console.print(table)


def _is_numeric_column(values: Iterable[object]) -> bool:
    """Whether there are numbers, and perhaps gaps, but nothing else."""
    kinds = {type(value) for value in values} - {type(None)}
    return bool(kinds) and kinds <= {int, float, Decimal}


def print_record(record: Record) -> None:
    """One record, a line for each field; what is nested is left to tables of its own."""
    rows = [
        {"field": name, "value": value} for name, value in record.items() if not _is_nested(value)
    ]
    print_table(("field", "value"), rows)


def _is_nested(value: object) -> bool:
    return isinstance(value[0] if isinstance(value, list) and value else value, Mapping)


def _console() -> Console:
    """As wide as the table takes: a narrow terminal wraps whole lines, and nothing is cut."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, width=_CONSOLE_WIDTH)
    return Console(highlight=False, width=_CONSOLE_WIDTH, color_system=None)


def _max_column_width() -> int | None:
    """On a terminal long texts are folded within their column."""
    return 60 if sys.stdout.isatty() else None


# Both -----------------------------------------------------------------------------------


def print_result(name: str, record: Record, as_json: bool) -> None:
    """A single thing: `{"user": {...}}`, or its fields."""
    if as_json:
        print_json({name: record})
    else:
        print_record(record)


async def print_list(
    name: str, columns: Sequence[str], records: AsyncIterator[Record], as_json: bool
) -> None:
    """A whole list: `{"users": [...]}`, or a table of some columns."""
    if as_json:
        await _print_json_list(name, records)
        return
    shown = {name for column in columns for name in column.rpartition("=")[2].split()}
    rows = [{name: record.get(name) for name in shown} async for record in records]
    print_table(columns, rows)


async def print_outcome(
    counts: Mapping[str, int],
    name: str,
    columns: Sequence[str],
    records: AsyncIterator[Record],
    as_json: bool,
) -> None:
    """What was done, and a list of what was not: `{"imported": 2, "skipped": [...]}`, or tables
    of some rows each, and then the counts. A long list needs no memory."""
    if as_json:
        await _print_json_list(name, records, counts)
        return
    left_out_count, rows = 0, list[Record]()
    async for record in records:
        left_out_count += 1
        rows.append(record)
        if len(rows) == MAX_TABLE_ROWS:
            print_table(columns, rows, title=name)
            rows.clear()
    if rows:
        print_table(columns, rows, title=name)
    known = {**counts, name: left_out_count}
    print_table(tuple(known), [known])


# Progress -------------------------------------------------------------------------------


@contextmanager
def progress(
    label: str, total: int | None = None, counted_noun: str = "", is_quiet: bool = False
) -> Iterator[Callable[..., None]]:
    """A bar on a terminal, nothing elsewhere; call what it gives with how far the work is.

    With a total the bar shows how long it still takes. With `counted` what it gives is called
    with how many of such things are done, too, and it shows how many that is a second.
    """
    if is_quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    sized = (BarColumn(), TimeRemainingColumn())
    columns = sized if total is not None else (MofNCompleteColumn(),)
    shown = (TextColumn("{task.description}"), *columns, TextColumn("{task.fields[rate]}"))
    # What goes to standard output must not be turned to the bar's stream.
    with Progress(
        *shown, console=Console(stderr=True), transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(label, total=total, rate="")

        def update(done: int, count: int = 0) -> None:
            elapsed = bar.tasks[task].elapsed
            rate = f"{count / elapsed:,.0f} {counted_noun}/s" if counted_noun and elapsed else ""
            bar.update(task, completed=done, rate=rate)

        yield update
