"""Rate limit windows in the database: one row per scope, exact across all processes.

Their commits do not wait for the disk. On PostgreSQL they are a table of the main database; on
SQLite they have a separate file, created on open if it does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from attrs import frozen
from sqlalchemy import (
    Column,
    Index,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    case,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.dml import ReturningInsert

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array, upsert
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitWindow

rate_windows_metadata = MetaData(naming_convention=metadata.naming_convention)

rate_windows = Table(
    "rate_windows",
    rate_windows_metadata,
    Column("scope", Text, primary_key=True),
    Column("count", BigInt, nullable=False),
    Column("resets_at", Instant, nullable=False),
)
_RESETS_AT_INDEX = Index("ix_rate_windows_resets_at", rate_windows.c.resets_at)
"""For the deletion of ended windows. Hits do not change the time, so they stay updates in place."""


@frozen
class HitCount:
    """A number of simultaneous hits of one scope under one rule."""

    rule: RateLimit
    count: int


WINDOW_COLUMNS = (rate_windows.c.scope, rate_windows.c.count, rate_windows.c.resets_at)


def count_hits_upsert(
    hits: Select[tuple[str, int, datetime]],
) -> ReturningInsert[str, int, datetime]:
    """Count hits: rows of a scope, a number of hits, and the end of a window that begins now."""
    upsert_hits = upsert(rate_windows).from_select(list(rate_windows.c.keys()), hits)
    excluded, is_ended = (
        upsert_hits.excluded,
        rate_windows.c.resets_at <= bindparam("now", type_=Instant),
    )
    return upsert_hits.on_conflict_do_update(
        index_elements=["scope"],
        set_={
            "count": case((is_ended, excluded.count), else_=rate_windows.c.count + excluded.count),
            "resets_at": case((is_ended, excluded.resets_at), else_=rate_windows.c.resets_at),
        },
    ).returning(*WINDOW_COLUMNS)


HIT_ROWS = array_rows(
    "hits", scope=("scopes", Text()), n=("numbers", BigInt), resets_at=("ends", Instant)
)
COUNT_HITS = Statement(
    count_hits_upsert(select(*HIT_ROWS.c).where(true()).order_by(HIT_ROWS.c.scope))
)
GET_WINDOW = Statement(select(*WINDOW_COLUMNS).where(rate_windows.c.scope == bindparam("window")))
GET_WINDOWS = Statement(select(*WINDOW_COLUMNS).where(in_array(rate_windows.c.scope, "scopes")))
RETURN_HIT = Statement(
    update(rate_windows)
    .values(count=rate_windows.c.count - 1)
    .where(
        rate_windows.c.scope == bindparam("window"),
        rate_windows.c.count > 0,
        rate_windows.c.resets_at > bindparam("now", type_=Instant),
    )
)
CREATE_RATE_WINDOWS = [
    Statement(sqlite=text(str(made.compile(dialect=sqlite.dialect()))))
    for made in (
        CreateTable(rate_windows, if_not_exists=True),
        CreateIndex(_RESETS_AT_INDEX, if_not_exists=True),
    )
]


async def count_hits(
    connection: Connection, hits: Mapping[str, HitCount], now: datetime
) -> dict[str, RateLimitWindow]:
    """Count hits and return each window after the count, by scope."""
    rows = await connection.fetch_all(COUNT_HITS, **hit_parameters(hits, now), now=now)
    return {row[0]: to_window(row) for row in rows}


async def find_window(connection: Connection, scope: str) -> RateLimitWindow | None:
    row = await connection.fetch_one(GET_WINDOW, window=scope)
    return None if row is None else to_window(row)


async def find_windows(connection: Connection, scopes: Iterable[str]) -> dict[str, RateLimitWindow]:
    """The windows that exist among these scopes, by scope."""
    rows = await connection.fetch_all(GET_WINDOWS, scopes=sorted(scopes))
    return {row[0]: to_window(row) for row in rows}


def hit_parameters(hits: Mapping[str, HitCount], now: datetime) -> dict[str, list[object]]:
    """The parameters of `HIT_ROWS`."""
    return {
        "scopes": list(hits),
        "numbers": [each.count for each in hits.values()],
        "ends": [now + each.rule.window for each in hits.values()],
    }


def to_window(row: Row) -> RateLimitWindow:
    """Build a window from `WINDOW_COLUMNS`; further columns are ignored."""
    return RateLimitWindow(row[1], row[2])
