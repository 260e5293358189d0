"""Plans of the deletion of old rows: each batch is found along an index of the rows' age.

The tables are empty, so PostgreSQL is told to avoid sequential scans and sorts: it makes those that
are left only where no index serves.
"""

from __future__ import annotations

import re
import sqlite3

import pytest

from staffbooking_adapters.sql import pruning
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.store import open_store
from staffbooking_adapters.testing.builders import POLICY

pytestmark = pytest.mark.anyio

STATEMENTS = {
    name: statement for name, statement in vars(pruning).items() if isinstance(statement, Statement)
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_postgresql_finds_old_rows_by_their_age(empty_postgres, name):
    """Each statement seeks in an index of the age, in its order, and finds rows by their keys."""
    compiled = STATEMENTS[name].compile_for("postgresql")
    await empty_postgres.execute(f"PREPARE asked AS {compiled.sql}")
    lines = [line for (line,) in await empty_postgres.fetch("EXPLAIN EXECUTE asked (NULL)")]
    await empty_postgres.execute("DEALLOCATE asked")
    plan = "\n".join(lines)
    assert re.search(r"Index Scan using .*\n +Index Cond: \(\w+ <= ", plan), plan
    assert not re.search(r"Seq Scan|Sort", plan), plan


@pytest.mark.parametrize("name", [name for name in STATEMENTS if name != "DELETE_ENDED_WINDOWS"])
async def test_sqlite_finds_old_rows_by_their_age(empty_sqlite, name):
    """Each statement seeks in an index of the age, in its order."""
    compiled = STATEMENTS[name].compile_for("sqlite")
    given = [None] * len(compiled.argument_names)
    lines = [row[3] for row in empty_sqlite.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", given)]
    seek = r"SEARCH \w+ USING (COVERING )?INDEX \w+ \(\w+<\?\)"
    assert any(re.search(seek, line) for line in lines), lines
    assert not any("TEMP B-TREE FOR ORDER BY" in line for line in lines), lines


async def test_sqlite_finds_ended_windows_by_their_age(tmp_path):
    """The file of rate windows gets the index of their ends when it is opened."""
    path = tmp_path / "store.db"
    store = await open_store(f"sqlite+aiosqlite:///{path}", POLICY)
    await store.close()
    connection = sqlite3.connect(f"{path}-windows")
    compiled = pruning.DELETE_ENDED_WINDOWS.compile_for("sqlite")
    plan = connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", [None]).fetchall()
    connection.close()
    assert "INDEX ix_rate_windows_resets_at (resets_at<?)" in str(plan)
