"""How the databases go about the statements that have to stay fast, among 20,000 rows.

PostgreSQL plans as in production: once, without seeing the parameters.
"""

from __future__ import annotations

import re
import sqlite3
from itertools import compress, product

import asyncpg
import pytest

from staffbooking_adapters.sql import (
    bookings,
    cash,
    claims,
    companions,
    money,
    payees,
    steps,
    store,
)
from staffbooking_adapters.sql.postgres import SETTINGS
from staffbooking_adapters.sql.schema import upgrade
from staffbooking_adapters.sql.search import Shape, summaries
from staffbooking_core.domain.lifecycle import Party
from staffbooking_core.domain.payments import OpKind
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
    "timers": claims.claim_timers(16),
    "credit": steps.USE_CREDIT,
}
ALL = frozenset(OpKind)
MONEY = {
    "operations": claims.claim_operations(1, False, ALL),
    "payouts to make": claims.claim_operations(1, False, frozenset({OpKind.PAY_OUT})),
    "other operations": claims.claim_operations(1, False, ALL - {OpKind.PAY_OUT}),
    "operation of a booking": claims.claim_operations(1, True, ALL),
    "waiting payouts": claims.WAKE_PAYOUTS,
    "events": claims.claim_nudges(16),
    "old events": store.DROP_EVENTS,
    "payees": payees.claim_payees(1, False),
    "payee of a companion": payees.claim_payees(1, True),
    "payee by reference": payees.GET_BY_REF,
    "cash books": cash.rows_of_cash_books(51),
    "failed refunds": money.failed_refunds(101),
    "debts": money.DEBTS_OF,
    "unsettled": money.unsettled(501),
    "pending": money.PENDING,
    "backlog": money.BACKLOG,
}
STATEMENTS = {**SEARCHES, **LATER, **OTHERS, **MONEY}
BIG = (
    "(companion_search|near|there|companions|companion_days|bookings|timers|users"
    "|payment_operations|other|later|ledger_postings|ledger_legs|processor_inbox|payees)"
)
IN_ORDER = (
    "(bookings_(newest|urgent|payouts)|payment_operations_failed_refunds"
    "|processor_inbox_open(_intents)?|payees_due)"
)


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
    """Each statement finds its rows by indexes, or goes along one that is in order or of few."""
    compiled = STATEMENTS[name].on("sqlite")
    nothing = [None] * len(compiled.names)
    plan = [row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]
    along = rf"(?! USING (COVERING )?INDEX ix_{IN_ORDER}\b)"
    assert [line for line in plan if re.search(rf"SCAN {BIG}\b{along}", line)] == []
