"""How the databases go about the statements that have to stay fast, among 20,000 rows.

PostgreSQL plans as in production: once, without seeing the parameters.
"""

from __future__ import annotations

import re
import sqlite3
from itertools import compress, product

import asyncpg
import pytest

from staffbooking_adapters.sql import bookings, companions, money, steps
from staffbooking_adapters.sql.postgres import SETTINGS
from staffbooking_adapters.sql.schema import upgrade
from staffbooking_adapters.sql.search import Shape, summaries
from staffbooking_core.domain.lifecycle import Party
from tests.contract import crowd
from tests.support.postgres import database_name, driver_url

pytestmark = pytest.mark.anyio

SIDES = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
FILTERS = ("place", "service", "price", "day")
SEARCHES = {
    "+".join(compress(FILTERS, kind)) or "plain": summaries(Shape(*kind))
    for kind in product((False, True), repeat=4)
}
LATER = {
    f"{kind}, later": summaries(Shape(place=kind == "place", price=kind == "price", later=True))
    for kind in ("plain", "place", "price")
}
OTHERS = {
    "booking": bookings.GET,
    "booking by code": bookings.GET_BY_CODE,
    "contenders": bookings.LOCK_CONTENDERS,
    "context by e-mail": bookings.CONTEXT_BY_EMAIL,
    "context by id": bookings.CONTEXT_BY_ID,
    "own bookings": bookings.listing(bookings.Shape(SIDES, False, True, 13, False)),
    "own bookings, later": bookings.listing(bookings.Shape(SIDES, True, True, 13, True)),
    "all bookings": bookings.listing(bookings.Shape(None, False, True, 13, False)),
    "agenda": companions.AGENDA,
    "busy": companions.BUSY,
    "all busy": companions.ALL_BUSY,
    "candidates": companions.candidates(51),
    "timers": money.claim_timers(16),
    "credit": steps.USE_CREDIT,
}
STATEMENTS = {**SEARCHES, **LATER, **OTHERS}
BIG = "(companion_search|near|there|companions|companion_days|bookings|timers|users)"


@pytest.fixture(scope="module")
async def postgres(postgres_server):
    """A connection to a filled database, set as the store sets its own."""
    url = await postgres_server.create_database()
    await upgrade(url)
    connection = await asyncpg.connect(driver_url(url), server_settings=SETTINGS)
    await connection.execute("SET session_replication_role = replica")  # references are right
    for statement in crowd.statements("postgresql"):
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()
    await postgres_server.drop_database(database_name(url))


@pytest.fixture(scope="module")
async def sqlite(tmp_path_factory):
    """A filled file, never analysed: as most are."""
    path = tmp_path_factory.mktemp("crowd") / "store.db"
    await upgrade(f"sqlite+aiosqlite:///{path}")
    connection = sqlite3.connect(path)
    with connection:
        for statement in crowd.statements("sqlite"):
            connection.execute(statement)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", STATEMENTS)
async def test_postgresql_reads_no_big_table_through(postgres, name):
    """Each statement finds its rows by indexes."""
    compiled = STATEMENTS[name].on("postgresql")
    await postgres.execute(f"PREPARE asked AS {compiled.sql}")
    nothing = ", ".join(["NULL"] * len(compiled.names))
    call = f"asked({nothing})" if nothing else "asked"
    plan = [line for (line,) in await postgres.fetch(f"EXPLAIN EXECUTE {call}")]
    await postgres.execute("DEALLOCATE asked")
    assert [line for line in plan if re.search(rf"Seq Scan on {BIG}\b", line)] == []


@pytest.mark.parametrize("name", STATEMENTS)
async def test_sqlite_reads_no_big_table_through(sqlite, name):
    """Each statement finds its rows by indexes, or goes along one that is in order."""
    compiled = STATEMENTS[name].on("sqlite")
    nothing = [None] * len(compiled.names)
    plan = [row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]
    along = r"(?! USING (COVERING )?INDEX ix_bookings_(newest|urgent)\b)"
    assert [line for line in plan if re.search(rf"SCAN {BIG}\b{along}", line)] == []
