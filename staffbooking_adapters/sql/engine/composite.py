"""Changes of several tables that belong together, in as few round trips as there can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import CTE, Delete, Insert, Select, Update, exists, func, literal_column, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import SqlConstruct, Statement

WriteStatement: TypeAlias = Insert | Update | Delete


class CompositeStatement:
    """INSERTs, UPDATEs and DELETEs that do not look at each other's rows.

    PostgreSQL gets them as one statement, SQLite one after the other: so outside of a unit
    of work only PostgreSQL does all of them or none. Where the first part touches no row,
    no other inserts any; those are `INSERT … SELECT`. `sqlite` are its parts where they
    differ.
    """

    def __init__(
        self, *statements: WriteStatement, sqlite_statements: Sequence[WriteStatement] = ()
    ) -> None:
        self._combined_statement = Statement(postgresql=_combine_in_ctes(statements))
        self._sequential_statements = [Statement(part) for part in sqlite_statements or statements]

    async def execute(self, connection: Connection, params: dict[str, Any]) -> int:
        """How many rows the first part touched. `params` may have more than is needed."""
        if connection.dialect == "postgresql":
            statement_params = parameters_for(self._combined_statement, connection, params)
            affected_rows: int = await connection.fetch_value(
                self._combined_statement, **statement_params
            )
            return affected_rows
        first, *others = self._sequential_statements
        affected_rows = await connection.execute(first, **parameters_for(first, connection, params))
        for statement in others if affected_rows else ():
            await connection.execute(statement, **parameters_for(statement, connection, params))
        return affected_rows


class BatchStatement:
    """What is done with many rows at a time, from `given_rows`, and what belongs to it.

    PostgreSQL gets all rows in one statement, together with the other parts, which must not
    look at the rows' table; SQLite gets the statement with one row after the other, in one
    go, then the other parts. `sqlite` is the statement where it differs.
    """

    def __init__(
        self,
        row_statement: WriteStatement,
        *dependent_statements: WriteStatement,
        sqlite: WriteStatement | None = None,
    ) -> None:
        self._combined_statement = Statement(
            postgresql=_combine_in_ctes((row_statement, *dependent_statements))
            if dependent_statements
            else row_statement
        )
        self._row_statement = Statement(sqlite=row_statement if sqlite is None else sqlite)
        self._dependent_statements = [Statement(sqlite=part) for part in dependent_statements]

    async def execute(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]], **shared_params: Any
    ) -> None:
        """Nothing where there are no rows. Each has all columns, and none besides."""
        if not rows:
            return
        if connection.dialect == "postgresql":
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            await connection.fetch_all(self._combined_statement, **columns, **shared_params)
            return
        await connection.execute_many(self._row_statement, rows)
        for statement in self._dependent_statements:
            await connection.execute(
                statement, **parameters_for(statement, connection, shared_params)
            )


def _combine_in_ctes(statements: Sequence[WriteStatement]) -> SqlConstruct:
    first, *others = statements
    first_cte = first.returning(literal_column("1").label("touched")).cte("part_0")
    dependent_ctes = [
        _insert_only_if_touched(first_cte, part).cte(f"part_{number}")
        for number, part in enumerate(others, start=1)
    ]
    return select(func.count()).select_from(first_cte).add_cte(*dependent_ctes)


def _insert_only_if_touched(first_cte: CTE, statement: WriteStatement) -> WriteStatement:
    if not isinstance(statement, Insert):
        return statement
    rows, names = statement.select, statement._select_names
    assert isinstance(rows, Select)
    assert names is not None
    return statement.from_select(names, rows.where(exists().select_from(first_cte)))


def parameters_for(
    statement: Statement, connection: Connection, params: dict[str, Any]
) -> dict[str, Any]:
    """Those of the parameters that a statement has on this database."""
    return {
        name: params[name] for name in statement.compile_for(connection.dialect).parameter_names
    }
