"""Changes of several tables that belong together, in as few round trips as there can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import CTE, Delete, Insert, Select, Update, exists, func, literal_column, select

from staffbooking_adapters.sql.connection import Connection
from staffbooking_adapters.sql.statements import Construct, Statement

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
