"""Output of commands: one JSON document, or tables.

Standard output holds only the result; notes and progress go to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Record = Mapping[str, Any]

_CONSOLE_WIDTH = 1_000_000
MAX_TABLE_ROWS = 500
"""Rows per table of an unbounded list: a table is laid out in memory."""


def print_note(text: str) -> None:
    """Print a note for the operator on standard error, if it can be written: its disk may be full,
    which ends no server."""
    with suppress(OSError):
        typer.echo(text, err=True)


# JSON -----------------------------------------------------------------------------------


def print_json(document: Record) -> None:
    """Print one JSON document."""
    from staffbooking_adapters.codec import encode

    typer.echo(encode(document))


async def print_json_stream(document: Record) -> None:
    """Print one JSON document piece by piece; it may be larger than memory."""
    from staffbooking_adapters.codec import iterate_json

    async for piece in iterate_json(document):
        typer.echo(piece, nl=False)
    typer.echo()


async def _print_json_list(
    name: str, records: AsyncIterator[Record], counts: Mapping[str, int] | None = None
) -> None:
    """Print one document, element by element: memory use does not grow with the list."""
    from staffbooking_adapters.codec import encode

    head = "".join(f'"{count}":{number},' for count, number in (counts or {}).items())
    lead = f'{{{head}"{name}":['.encode()
    async for record in records:
        typer.echo(lead + encode(record), nl=False)
        lead = b","
    typer.echo(b"]}" if lead == b"," else lead + b"]}")


# Tables ---------------------------------------------------------------------------------


def format_cell(value: object) -> str:
    """A value as one line of text; control characters are escaped, so they can't affect the
    terminal."""
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
"""An instant with fractional seconds: tables show whole seconds."""


def print_table(columns: Sequence[str], rows: Sequence[Record], title: str = "") -> None:
    """Print a table of records. A column is a field's name, or `title=field field` for several
    fields in one column; numeric columns are right-aligned."""
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
    """Whether the values are numbers, possibly with some missing."""
    kinds = {type(value) for value in values} - {type(None)}
    return bool(kinds) and kinds <= {int, float, Decimal}


def print_record(record: Record) -> None:
    """Print one record, a line per field; nested fields are omitted."""
    rows = [
        {"field": name, "value": value} for name, value in record.items() if not _is_nested(value)
    ]
    print_table(("field", "value"), rows)


def _is_nested(value: object) -> bool:
    return isinstance(value[0] if isinstance(value, list) and value else value, Mapping)


def _console() -> Console:
    """A console wider than any table, so that nothing is cut off; a terminal wraps the lines."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, width=_CONSOLE_WIDTH)
    return Console(highlight=False, width=_CONSOLE_WIDTH, color_system=None)


def _max_column_width() -> int | None:
    """The width at which long texts are folded on a terminal; None elsewhere."""
    return 60 if sys.stdout.isatty() else None


# Both -----------------------------------------------------------------------------------


def print_result(name: str, record: Record, as_json: bool) -> None:
    """Print one record: `{"user": {...}}`, or a table of its fields."""
    if as_json:
        print_json({name: record})
    else:
        print_record(record)


async def print_list(
    name: str, columns: Sequence[str], records: AsyncIterator[Record], as_json: bool
) -> None:
    """Print a whole list: `{"users": [...]}`, or a table of some columns."""
    if as_json:
        await _print_json_list(name, records)
        return
    names = {name for column in columns for name in column.rpartition("=")[2].split()}
    rows = [{name: record.get(name) for name in names} async for record in records]
    print_table(columns, rows)


async def print_outcome(
    counts: Mapping[str, int],
    name: str,
    columns: Sequence[str],
    records: AsyncIterator[Record],
    as_json: bool,
) -> None:
    """Print counts and the list of items left out: `{"imported": 2, "skipped": [...]}`, or
    tables of up to MAX_TABLE_ROWS rows and then the counts. Memory use does not grow with the
    list."""
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
    """Show a progress bar on a terminal, nothing elsewhere; yields `update(done, count)`.

    With `total` the bar shows the remaining time. With `counted_noun` it shows `count` per
    second as a rate.
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

    bar_columns = (BarColumn(), TimeRemainingColumn())
    amount = bar_columns if total is not None else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), *amount, TextColumn("{task.fields[rate]}"))
    # The bar must not redirect standard output to standard error.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(label, total=total, rate="")

        def update(done: int, count: int = 0) -> None:
            elapsed = bar.tasks[task].elapsed
            rate = f"{count / elapsed:,.0f} {counted_noun}/s" if counted_noun and elapsed else ""
            bar.update(task, completed=done, rate=rate)

        yield update
