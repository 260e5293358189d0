"""Windows of requests, counted by the database: one row a scope, exact over all processes.

They live apart from what is worth keeping. On PostgreSQL it is a table whose writes are not
waited for; on SQLite a file of its own beside the main one, made when it is missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen
from sqlalchemy import (
    Column,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    case,
    delete,
    select,
    text,
    true,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.dml import ReturningInsert

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import rowset, upsert
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_core.domain.shared.rate_limits import Rule, Window

windows_metadata = MetaData(naming_convention=metadata.naming_convention)

rate_windows = Table(
    "rate_windows",
    windows_metadata,
    Column("scope", Text, primary_key=True),
    Column("count", BigInt, nullable=False),
    Column("resets_at", Instant, nullable=False),
    # Each row changes all the time: room on its page spares the index.
    postgresql_with={"fillfactor": 50},
)


@frozen
class Hits:
    """So many hits of a scope at the same moment, by the same rule."""

    rule: Rule
    n: int


WINDOW = (rate_windows.c.scope, rate_windows.c.count, rate_windows.c.resets_at)


def counting(hits: Select[tuple[str, int, datetime]]) -> ReturningInsert[str, int, datetime]:
    """Count hits, each row a scope, a number and the end of a window that begins now."""
    counted = upsert(rate_windows).from_select(list(rate_windows.c.keys()), hits)
    new, ended = counted.excluded, rate_windows.c.resets_at <= bindparam("now", type_=Instant)
    return counted.on_conflict_do_update(
        index_elements=["scope"],
        set_={
            "count": case((ended, new.count), else_=rate_windows.c.count + new.count),
            "resets_at": case((ended, new.resets_at), else_=rate_windows.c.resets_at),
        },
    ).returning(*WINDOW)


HITS = rowset("hits", scope=("scopes", Text()), n=("numbers", BigInt), resets_at=("ends", Instant))
COUNT = Statement(counting(select(*HITS.c).where(true()).order_by(HITS.c.scope)))
LOOK = Statement(select(*WINDOW).where(rate_windows.c.scope == bindparam("window")))
SWEEP = Statement(
    delete(rate_windows).where(rate_windows.c.resets_at <= bindparam("now", type_=Instant))
)
_CREATE = CreateTable(rate_windows, if_not_exists=True).compile(dialect=sqlite.dialect())
CREATE = Statement(sqlite=text(str(_CREATE)))


async def count(
    connection: Connection, hits: Mapping[str, Hits], now: datetime
) -> dict[str, Window]:
    """Count hits, and how each window stands after them."""
    rows = await connection.all(COUNT, **hit_rows(hits, now), now=now)
    return {row[0]: to_window(row) for row in rows}


async def look(connection: Connection, scope: str) -> Window | None:
    row = await connection.one(LOOK, window=scope)
    return None if row is None else to_window(row)


def hit_rows(hits: Mapping[str, Hits], now: datetime) -> dict[str, list[object]]:
    """The parameters of HITS."""
    return {
        "scopes": list(hits),
        "numbers": [each.n for each in hits.values()],
        "ends": [now + each.rule.window for each in hits.values()],
    }


def to_window(row: Row) -> Window:
    """From the columns of WINDOW; what follows them is left."""
    return Window(row[1], row[2])
