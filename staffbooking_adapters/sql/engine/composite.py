"""Writes to several tables that belong together, in as few round trips as there can be."""

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
    """A write, and the writes to do only if it touched a row.

    No write looks at the rows of another. PostgreSQL gets them as one statement: the condition
    of each in `if_touched` asks whether the first write returned a row. SQLite gets them one
    after the other, those in `if_touched` only after a count above zero; so outside of a
    transaction only PostgreSQL does all of them or none. `sqlite_if_touched` replaces
    `if_touched` on SQLite where they differ.
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
        """The number of rows the first write touched. `params` may have more than is needed."""
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
    """Runs one write over many rows, those of `batch_rows`, and other writes once.

    PostgreSQL gets all rows in one statement, together with `once`, which must not look at the
    rows' table; SQLite gets the write with one row after the other, in one go, then `once`.
    `sqlite` replaces the write on SQLite where it differs.
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
        """Does nothing without rows, neither does `once`. Each row has exactly the columns."""
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
    """Those of the parameters that a statement has on this database."""
    return {
        name: params[name] for name in statement.compile_for(connection.dialect).parameter_names
    }
