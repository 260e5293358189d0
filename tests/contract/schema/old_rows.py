"""Rows of earlier schema revisions, as tests of migrations insert them."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import MetaData, Table

from staffbooking_adapters.sql.engine.types import Instant, parameter_converter
from staffbooking_adapters.testing.builders import NOW, TODAY

ANYTHING = {int: 1, str: "x", bytes: b"x", bool: False, datetime: NOW, date: TODAY}


def add_row(connection, table_name, **given):
    """Insert a row into a table of the current revision, with a value in each required column."""
    table = Table(table_name, MetaData(), autoload_with=connection, resolve_fks=False)
    needed = {c.name: ANYTHING[c.type.python_type] for c in table.c if not c.nullable}
    connection.execute(table.insert().values({**needed, **given}))


def stored(connection, moment):
    """An instant as a column stores it."""
    write = parameter_converter(connection.dialect.name, Instant)
    assert write is not None
    return write(moment)
