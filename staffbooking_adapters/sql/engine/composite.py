"""Writes to several tables, in as few round trips as the dialect allows.

PostgreSQL, one round trip:

1. The first write becomes a CTE that returns one row per touched row.
2. Each other write becomes a CTE of the same statement.
3. The outer SELECT counts the rows of the first CTE.

SQLite, one statement after the other:

1. The first write runs and returns its row count; a batch runs it for every row.
2. The other writes run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    CTE,
    ColumnElement,
    Delete,
    Insert,
    Update,
    exists,
    func,
    literal_column,
    select,
    true,
)

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import SqlConstruct, Statement

WriteStatement: TypeAlias = Insert | Update | Delete
ConditionalWrite: TypeAlias = Callable[[ColumnElement[bool]], WriteStatement]
"""Makes a write that touches rows only where the condition holds: an UPDATE or a DELETE with it in
its WHERE, or an `INSERT … SELECT` with it in the WHERE of the SELECT."""


class CompositeStatement:
    """A write, plus writes that run only if the first one touched a row.

    No write may read rows that another one changes. On PostgreSQL all writes are one statement,
    and each in `if_touched` has the condition that the first write returned a row. On SQLite they
    run in order, those in `if_touched` only if the first write touched a row. Outside a
    transaction only PostgreSQL is atomic. `sqlite_if_touched` replaces `if_touched` on SQLite.
    """

    def __init__(
        self,
        first: WriteStatement,
        *,
        if_touched: Sequence[ConditionalWrite],
        sqlite_if_touched: Sequence[ConditionalWrite] | None = None,
    ) -> None:
        first_cte = _touched_rows_cte(first)
        is_touched = exists().select_from(first_cte)
        self._combined_statement = Statement(
            postgresql=_count_touched_rows(first_cte, [write(is_touched) for write in if_touched])
        )
        sqlite_writes = if_touched if sqlite_if_touched is None else sqlite_if_touched
        self._first_statement = Statement(sqlite=first)
        self._statements_if_touched = [Statement(sqlite=write(true())) for write in sqlite_writes]

    async def execute(self, connection: Connection, params: Mapping[str, Any]) -> int:
        """Return the number of rows the first write touched. Extra `params` are ignored."""
        if connection.dialect == "postgresql":
            statement_params = parameters_for(self._combined_statement, connection, params)
            affected_rows: int = await connection.fetch_value(
                self._combined_statement, **statement_params
            )
            return affected_rows
        first = self._first_statement
        affected_rows = await connection.execute(first, **parameters_for(first, connection, params))
        for statement in self._statements_if_touched if affected_rows else ():
            await connection.execute(statement, **parameters_for(statement, connection, params))
        return affected_rows


class BatchStatement:
    """One write over many rows, plus writes that run once per batch.

    On PostgreSQL the rows are array parameters of one statement that includes the writes in
    `once`; these must not read the table of the rows. On SQLite the write runs for every row in
    one `execute_many`, then `once` runs. `sqlite` replaces the write on SQLite.
    """

    def __init__(
        self,
        row_statement: WriteStatement,
        *,
        once: Sequence[WriteStatement] = (),
        sqlite: WriteStatement | None = None,
    ) -> None:
        self._combined_statement = Statement(
            postgresql=_count_touched_rows(_touched_rows_cte(row_statement), once)
            if once
            else row_statement
        )
        self._row_statement = Statement(sqlite=row_statement if sqlite is None else sqlite)
        self._statements_once = [Statement(sqlite=write) for write in once]

    async def execute(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]], **shared_params: Any
    ) -> None:
        """Run the writes; without rows, none runs. All rows have the same keys."""
        if not rows:
            return
        if connection.dialect == "postgresql":
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            await connection.fetch_all(self._combined_statement, **columns, **shared_params)
            return
        await connection.execute_many(self._row_statement, rows)
        for statement in self._statements_once:
            await connection.execute(
                statement, **parameters_for(statement, connection, shared_params)
            )


def _touched_rows_cte(statement: WriteStatement) -> CTE:
    return statement.returning(literal_column("1").label("touched")).cte("part_0")


def _count_touched_rows(first_cte: CTE, others: Sequence[WriteStatement]) -> SqlConstruct:
    other_ctes = [write.cte(f"part_{number}") for number, write in enumerate(others, start=1)]
    return select(func.count()).select_from(first_cte).add_cte(*other_ctes)


def parameters_for(
    statement: Statement, connection: Connection, params: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters that the statement has in this dialect."""
    names = statement.compile_for(connection.dialect).parameter_names
    return dict(zip(names, map(params.__getitem__, names), strict=True))
