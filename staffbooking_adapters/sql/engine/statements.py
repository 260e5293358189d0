"""Statements: written once with SQLAlchemy at module level, compiled once for each database.

    FIND = Statement(select(users.c.id, users.c.name).where(users.c.id == bindparam("user_id")))
    row = await connection.fetch_one(FIND, user_id=7)

Values that are part of a statement (`where(kind == "payout")`, `.limit(20)`) are literals in its
text: the planner must see them to use a partial index, and to choose a good plan for a LIMIT.
Values of a call are parameters, named by `bindparam`.
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
from sqlalchemy.sql.selectable import FromClause, SelectBase
from sqlalchemy.types import NullType

from staffbooking_adapters.sql.engine.types import (
    Converter,
    Dialect,
    parameter_converter,
    result_converter,
)

Arguments: TypeAlias = Sequence[Any]
Row: TypeAlias = tuple[Any, ...]
SqlConstruct: TypeAlias = SelectBase | UpdateBase | TextClause


@frozen
class CompiledStatement:
    """A statement compiled for one driver.

    `argument_names` are the parameters in positional order (SQLite repeats a name that is used
    twice). `is_read_only` means that the statement changes nothing: it may run concurrently with
    a writer, and again after a lost connection.
    """

    sql: str
    argument_names: tuple[str, ...]
    parameter_names: frozenset[str]
    is_read_only: bool
    bind_arguments: Callable[[Mapping[str, Any]], Arguments]
    result_converters: tuple[tuple[int, Converter], ...]

    def to_arguments(self, params: Mapping[str, Any]) -> Arguments:
        """The values in positional order. Raises TypeError unless exactly the
        statement's parameters are given."""
        if params.keys() != self.parameter_names:
            mismatched_names = ", ".join(sorted(params.keys() ^ self.parameter_names))
            raise TypeError(f"missing or unknown parameters: {mismatched_names}")
        return self.bind_arguments(params)

    def convert_rows(self, driver_rows: list[Row]) -> list[Row]:
        """The driver's rows with the columns converted that need it."""
        return (
            [self._convert_row(row) for row in driver_rows]
            if self.result_converters
            else driver_rows
        )

    def _convert_row(self, driver_row: Row) -> Row:
        row = list(driver_row)
        for index, convert in self.result_converters:
            if row[index] is not None:
                row[index] = convert(row[index])
        return tuple(row)


class Statement:
    """A statement for both databases, with a variant per dialect where they differ.

    If only one dialect is given, the statement does nothing on the other: `Connection.execute`
    returns 0 without a round trip (for example a row lock, which a single writer does not need).
    """

    __slots__ = ("_compiled", "_constructs")

    def __init__(
        self,
        construct: SqlConstruct | None = None,
        *,
        postgresql: SqlConstruct | None = None,
        sqlite: SqlConstruct | None = None,
    ) -> None:
        self._constructs: dict[Dialect, SqlConstruct | None] = {
            "postgresql": construct if postgresql is None else postgresql,
            "sqlite": construct if sqlite is None else sqlite,
        }
        self._compiled: dict[Dialect, CompiledStatement] = {}

    def compile_for(self, dialect: Dialect) -> CompiledStatement:
        """The statement for one database, compiled at its first use."""
        compiled = self._compiled.get(dialect)
        if compiled is None:
            compiled = self._compiled[dialect] = _compile_construct(
                self._constructs[dialect], dialect
            )
        return compiled


class _StatementCompiler(SQLCompiler):
    contains_write = False
    """Whether the statement changes rows, be it within a common table expression."""

    def visit_insert(self, *args: Any, **kw: Any) -> Any:
        self.contains_write = True
        return super().visit_insert(*args, **kw)  # type: ignore[no-untyped-call]

    def visit_update(self, *args: Any, **kw: Any) -> Any:
        self.contains_write = True
        return super().visit_update(*args, **kw)

    def visit_delete(self, *args: Any, **kw: Any) -> Any:
        self.contains_write = True
        return super().visit_delete(*args, **kw)  # type: ignore[no-untyped-call]

    def visit_bindparam(self, bindparam: BindParameter[Any], *args: Any, **kw: Any) -> Any:
        if not bindparam.required:
            kw["literal_binds"] = True
        return super().visit_bindparam(bindparam, *args, **kw)  # type: ignore[no-untyped-call]


class _PostgresCompiler(_StatementCompiler, PGCompiler_asyncpg):
    pass


class _SqliteCompiler(_StatementCompiler, SQLiteCompiler):
    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text  # INDEXED BY, which SQLAlchemy leaves out.


class _PostgresDialect(PGDialect_asyncpg):
    statement_compiler = _PostgresCompiler
    supports_statement_cache = True
    # SQLAlchemy 2.0 doubles backslashes in literals until it has asked the server.
    _backslash_escapes = False


class _SqliteDialect(SQLiteDialect_pysqlite):
    statement_compiler = _SqliteCompiler
    supports_statement_cache = True


@cache
def _sqlalchemy_dialect(dialect: Dialect) -> DialectOfSqlalchemy:
    dialect_classes: dict[Dialect, Callable[[], DialectOfSqlalchemy]]
    dialect_classes = {"postgresql": _PostgresDialect, "sqlite": _SqliteDialect}
    return dialect_classes[dialect]()


def _compile_construct(construct: SqlConstruct | None, dialect: Dialect) -> CompiledStatement:
    if construct is None:
        return CompiledStatement("", (), frozenset(), True, _argument_binder([]), ())
    if isinstance(construct, Insert):
        # Otherwise SQLAlchemy adds a RETURNING of the new key.
        construct = construct.inline()
    compiled = construct.compile(dialect=_sqlalchemy_dialect(dialect))
    assert isinstance(compiled, _StatementCompiler)
    names = tuple(compiled.positiontup or ())
    return CompiledStatement(
        sql=compiled.string,
        argument_names=names,
        parameter_names=frozenset(names),
        is_read_only=isinstance(construct, SelectBase) and not compiled.contains_write,
        bind_arguments=_argument_binder(
            [(name, _required_parameter_converter(dialect, compiled.binds[name])) for name in names]
        ),
        result_converters=_result_converters(construct, dialect),
    )


def _required_parameter_converter(
    dialect: Dialect, parameter: BindParameter[Any]
) -> Converter | None:
    if isinstance(parameter.type, NullType):
        raise TypeError(f"say the type of {parameter.key}: nothing beside it tells")
    return parameter_converter(dialect, parameter.type)


def _result_converters(
    construct: SqlConstruct, dialect: Dialect
) -> tuple[tuple[int, Converter], ...]:
    if not isinstance(construct, (SelectBase, UpdateBase)):
        return ()
    converters = (
        (index, result_converter(dialect, c.type))
        for index, c in enumerate(construct.exported_columns)
    )
    return tuple((place, convert) for place, convert in converters if convert)


def _argument_binder(
    name_converters: Sequence[tuple[str, Converter | None]],
) -> Callable[[Mapping[str, Any]], Arguments]:
    """The fastest function from named values to positional arguments."""
    names = [name for name, _ in name_converters]
    if len(names) < 2:
        [convert] = [convert for _, convert in name_converters] or [None]
        return lambda params: [_convert_argument(params[name], convert) for name in names]
    get_values = itemgetter(*names)
    places = [(place, convert) for place, (_, convert) in enumerate(name_converters) if convert]
    if not places:
        return get_values

    def bind(params: Mapping[str, Any]) -> Arguments:
        arguments = list(get_values(params))
        for place, convert in places:
            if arguments[place] is not None:
                arguments[place] = convert(arguments[place])
        return arguments

    return bind


def _convert_argument(value: Any, convert: Converter | None) -> Any:
    return value if convert is None or value is None else convert(value)
