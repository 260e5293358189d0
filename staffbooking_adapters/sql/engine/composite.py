"""Changes of several tables that belong together, in as few round trips as there can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import CTE, Delete, Insert, Select, Update, exists, func, literal_column, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import Construct, Statement

Part: TypeAlias = Insert | Update | Delete


class Together:
    """INSERTs, UPDATEs and DELETEs that do not look at each other's rows.

    PostgreSQL gets them as one statement, SQLite one after the other: so outside of a unit
    of work only PostgreSQL does all of them or none. Where the first part touches no row,
    no other inserts any; those are `INSERT … SELECT`. `sqlite` are its parts where they
    differ.
    """

    def __init__(self, *parts: Part, sqlite: Sequence[Part] = ()) -> None:
        self._at_once = Statement(postgresql=_combined(parts))
        self._in_turn = [Statement(part) for part in sqlite or parts]

    async def run(self, connection: Connection, params: dict[str, Any]) -> int:
        """How many rows the first part touched. `params` may have more than is needed."""
        if connection.dialect == "postgresql":
            given = needed(self._at_once, connection, params)
            touched: int = await connection.value(self._at_once, **given)
            return touched
        first, *others = self._in_turn
        touched = await connection.run(first, **needed(first, connection, params))
        for part in others if touched else ():
            await connection.run(part, **needed(part, connection, params))
        return touched


class Batch:
    """What is done with many rows at a time, from `given_rows`, and what belongs to it.

    PostgreSQL gets all rows in one statement, together with the other parts, which must not
    look at the rows' table; SQLite gets the statement with one row after the other, in one
    go, then the other parts. `sqlite` is the statement where it differs.
    """

    def __init__(self, rows: Part, *others: Part, sqlite: Part | None = None) -> None:
        self._at_once = Statement(postgresql=_combined((rows, *others)) if others else rows)
        self._each = Statement(sqlite=rows if sqlite is None else sqlite)
        self._others = [Statement(sqlite=part) for part in others]

    async def run(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]], **others: Any
    ) -> None:
        """Nothing where there are no rows. Each has all columns, and none besides."""
        if not rows:
            return
        if connection.dialect == "postgresql":
            lists = {name: [row[name] for row in rows] for name in rows[0]}
            await connection.all(self._at_once, **lists, **others)
            return
        await connection.many(self._each, rows)
        for part in self._others:
            await connection.run(part, **needed(part, connection, others))


def _combined(parts: Sequence[Part]) -> Construct:
    first, *others = parts
    touched = first.returning(literal_column("1").label("touched")).cte("part_0")
    rest = [
        _only_after(touched, part).cte(f"part_{number}")
        for number, part in enumerate(others, start=1)
    ]
    return select(func.count()).select_from(touched).add_cte(*rest)


def _only_after(touched: CTE, part: Part) -> Part:
    if not isinstance(part, Insert):
        return part
    rows, names = part.select, part._select_names
    assert isinstance(rows, Select)
    assert names is not None
    return part.from_select(names, rows.where(exists().select_from(touched)))


def needed(statement: Statement, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
    """Those of the parameters that a statement has on this database."""
    return {name: params[name] for name in statement.on(connection.dialect).parameters}
