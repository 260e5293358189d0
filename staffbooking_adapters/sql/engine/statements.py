"""Statements: written once with SQLAlchemy at module level, compiled once for each database.

    FIND = Statement(select(users.c.id, users.c.name).where(users.c.id == bindparam("user_id")))
    row = await connection.one(FIND, user_id=7)

Values that a statement itself holds (`where(kind == "payout")`, `.limit(20)`) are written
into its text: the planner must see them to use a partial index, and a LIMIT that it cannot
see costs a good plan. What a call passes is a parameter, named by `bindparam`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

from attrs import frozen
from sqlalchemy import Dialect as DialectOfSqlalchemy, Insert
from sqlalchemy.dialects.postgresql.asyncpg import PGCompiler_asyncpg, PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BindParameter, TextClause
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.sql.visitors import iterate
from sqlalchemy.types import NullType

from staffbooking_adapters.sql.engine.types import Converter, Dialect, reader, writer

Arguments: TypeAlias = Sequence[Any]
Row: TypeAlias = tuple[Any, ...]
Construct: TypeAlias = SelectBase | UpdateBase | TextClause


@frozen
class Compiled:
    """A statement as one driver takes it.

    `names` are the parameters in the order of their places (SQLite repeats a name used
    twice). `reads` tells that the statement changes nothing: it may run beside a writer,
    and again after a lost connection.
    """

    sql: str
    names: tuple[str, ...]
    parameters: frozenset[str]
    reads: bool
    bind: Callable[[Mapping[str, Any]], Arguments]
    readers: tuple[tuple[int, Converter], ...]

    def arguments(self, params: Mapping[str, Any]) -> Arguments:
        """The values in their places; exactly the statement's parameters must be there."""
        if params.keys() != self.parameters:
            odd = ", ".join(sorted(params.keys() ^ self.parameters))
            raise TypeError(f"missing or unknown parameters: {odd}")
        return self.bind(params)

    def rows(self, raw: list[Row]) -> list[Row]:
        """The driver's rows, with the columns converted that need it."""
        return [self._row(row) for row in raw] if self.readers else raw

    def _row(self, raw: Row) -> Row:
        row = list(raw)
        for place, read in self.readers:
            if row[place] is not None:
                row[place] = read(row[place])
        return tuple(row)


class Statement:
    """One thing to ask of the store, the same on both databases unless told otherwise.

    Where one side is named and the other left out, the statement is nothing to do on the
    other: `Connection.run` answers 0 at once (a lock that a single writer has no need of).
    """

    __slots__ = ("_compiled", "_constructs")

    def __init__(
        self,
        both: Construct | None = None,
        *,
        postgresql: Construct | None = None,
        sqlite: Construct | None = None,
    ) -> None:
        self._constructs: dict[Dialect, Construct | None] = {
            "postgresql": both if postgresql is None else postgresql,
            "sqlite": both if sqlite is None else sqlite,
        }
        self._compiled: dict[Dialect, Compiled] = {}

    def on(self, dialect: Dialect) -> Compiled:
        """The statement for one database, compiled when it is first asked for."""
        compiled = self._compiled.get(dialect)
        if compiled is None:
            compiled = self._compiled[dialect] = _compile(self._constructs[dialect], dialect)
        return compiled


class _ConstantsInText(SQLCompiler):
    def visit_bindparam(self, bindparam: BindParameter[Any], *args: Any, **kw: Any) -> Any:
        if not bindparam.required:
            kw["literal_binds"] = True
        return super().visit_bindparam(bindparam, *args, **kw)  # type: ignore[no-untyped-call]


class _PostgresCompiler(_ConstantsInText, PGCompiler_asyncpg):
    pass


class _SqliteCompiler(_ConstantsInText, SQLiteCompiler):
    pass


class _Postgres(PGDialect_asyncpg):
    statement_compiler = _PostgresCompiler
    supports_statement_cache = True


class _Sqlite(SQLiteDialect_pysqlite):
    statement_compiler = _SqliteCompiler
    supports_statement_cache = True


@cache
def _writer_of_sql(dialect: Dialect) -> DialectOfSqlalchemy:
    known: dict[Dialect, Callable[[], DialectOfSqlalchemy]]
    known = {"postgresql": _Postgres, "sqlite": _Sqlite}
    return known[dialect]()


def _compile(construct: Construct | None, dialect: Dialect) -> Compiled:
    if construct is None:
        return Compiled("", (), frozenset(), True, _binder([]), ())
    if isinstance(construct, Insert):
        construct = construct.inline()  # else a new key would be returned without being asked for
    written = construct.compile(dialect=_writer_of_sql(dialect))
    assert isinstance(written, SQLCompiler)
    names = tuple(written.positiontup or ())
    return Compiled(
        sql=written.string,
        names=names,
        parameters=frozenset(names),
        reads=isinstance(construct, SelectBase) and not _changes_something(construct),
        bind=_binder([(name, _writer(dialect, written.binds[name])) for name in names]),
        readers=_readers(construct, dialect),
    )


def _writer(dialect: Dialect, parameter: BindParameter[Any]) -> Converter | None:
    if isinstance(parameter.type, NullType):
        raise TypeError(f"say the type of {parameter.key}: nothing beside it tells")
    return writer(dialect, parameter.type)


def _changes_something(construct: Construct) -> bool:
    return any(isinstance(part, UpdateBase) for part in iterate(construct))


def _readers(construct: Construct, dialect: Dialect) -> tuple[tuple[int, Converter], ...]:
    if not isinstance(construct, (SelectBase, UpdateBase)):
        return ()
    found = ((place, reader(dialect, c.type)) for place, c in enumerate(construct.exported_columns))
    return tuple((place, read) for place, read in found if read)


def _binder(
    places: Sequence[tuple[str, Converter | None]],
) -> Callable[[Mapping[str, Any]], Arguments]:
    """The quickest way from named values to places."""
    if any(write for _, write in places):
        return lambda params: [_written(params[name], write) for name, write in places]
    names = [name for name, _ in places]
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: [params[name] for name in names]


def _written(value: Any, write: Converter | None) -> Any:
    return value if write is None or value is None else write(value)
