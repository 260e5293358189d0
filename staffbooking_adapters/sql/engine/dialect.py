"""Differences between the two databases beyond types, each under one name for both.

Row locks need nothing here: SQLite leaves `select(…).with_for_update()` out, since a transaction
has the whole file for itself. ON CONFLICT needs little: `upsert` is PostgreSQL's INSERT, which
SQLite's compiler accepts as long as the target is given by `index_elements` (and `index_where`). An
upsert from a SELECT needs a WHERE in that SELECT (`true()` is enough), or SQLite reads ON CONFLICT
as a join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Table,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeEngine

from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, array_of

upsert = insert


def array_parameter(name: str, item: TypeEngine[Any]) -> BindParameter[Any]:
    """A parameter that is a list of any length: one placeholder and one plan."""
    return bindparam(name, type_=array_of(item))


class in_array(FunctionElement[bool]):  # noqa: N801 - reads as the operator it is
    """`column IN parameter`, where the parameter is a list: `in_array(users.c.id, "ids")`."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], parameter: str) -> None:
        super().__init__(column, array_parameter(parameter, column.type))

    def self_group(self, against: Any = None) -> in_array:
        # Without this SQLAlchemy appends "= 1" on SQLite, which then cannot use the index.
        return self


@compiles(in_array, "postgresql")
def _in_array_on_postgresql(element: in_array, compiler: SQLCompiler, **kw: Any) -> str:
    item, items = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{item} = ANY ({items})"


@compiles(in_array, "sqlite")
def _in_array_on_sqlite(element: in_array, compiler: SQLCompiler, **kw: Any) -> str:
    item, items = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{item} IN (SELECT value FROM json_each({items}))"


class json_integer(FunctionElement[int]):  # noqa: N801 - reads as the operator it is
    """An integer in a JSON object that is stored as text; NULL where the key is missing."""

    type = BigInt
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], key: str) -> None:
        super().__init__(column, literal(key, Text()))


@compiles(json_integer, "postgresql")
def _json_integer_on_postgresql(element: json_integer, compiler: SQLCompiler, **kw: Any) -> str:
    item, key = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"CAST(CAST({item} AS json) ->> {key} AS BIGINT)"


@compiles(json_integer, "sqlite")
def _json_integer_on_sqlite(element: json_integer, compiler: SQLCompiler, **kw: Any) -> str:
    item, key = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"json_extract({item}, '$.' || {key})"


class json_items_cleared(FunctionElement[str]):  # noqa: N801 - reads as the operator it is
    """A JSON array of objects that is stored as text, with `cleared` null in each object whose
    `key` has the given text."""

    type = Text()
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], cleared: str, key: str, value: str) -> None:
        super().__init__(column, *(literal(one, Text()) for one in (cleared, key, value)))


@compiles(json_items_cleared, "postgresql")
def _json_items_cleared_on_postgresql(
    element: json_items_cleared, compiler: SQLCompiler, **kw: Any
) -> str:
    items, cleared, key, value = (compiler.process(clause, **kw) for clause in element.clauses)
    changed = f"jsonb_set(item, ARRAY[{cleared}], 'null')"
    item = f"CASE WHEN item ->> {key} = {value} THEN {changed} ELSE item END"
    rows = f"jsonb_array_elements(CAST({items} AS jsonb)) WITH ORDINALITY AS items (item, place)"
    return f"(SELECT CAST(COALESCE(jsonb_agg({item} ORDER BY place), '[]') AS TEXT) FROM {rows})"


@compiles(json_items_cleared, "sqlite")
def _json_items_cleared_on_sqlite(
    element: json_items_cleared, compiler: SQLCompiler, **kw: Any
) -> str:
    items, cleared, key, value = (compiler.process(clause, **kw) for clause in element.clauses)
    changed = f"json_set(value, '$.' || {cleared}, NULL)"
    item = f"CASE WHEN json_extract(value, '$.' || {key}) = {value} THEN {changed} ELSE value END"
    return f"(SELECT json_group_array(json({item})) FROM json_each({items}))"


class _UnnestedArrays(FunctionElement[Any]):
    inherit_cache = False

    def __init__(self, arrays: Mapping[str, ColumnElement[Any]]) -> None:
        self.column_names = tuple(arrays)
        super().__init__(*arrays.values())


@compiles(_UnnestedArrays, "postgresql")
def _unnested_arrays_on_postgresql(
    element: _UnnestedArrays, compiler: SQLCompiler, **kw: Any
) -> str:
    lists = ", ".join(compiler.process(clause, **kw) for clause in element.clauses)
    names = ", ".join(map(compiler.preparer.quote, element.column_names))
    return f"(SELECT * FROM unnest({lists}) AS given ({names}))"


@compiles(_UnnestedArrays, "sqlite")
def _unnested_arrays_on_sqlite(element: _UnnestedArrays, compiler: SQLCompiler, **kw: Any) -> str:
    first, *others = (compiler.process(clause, **kw) for clause in element.clauses)
    values = ["value", *(f"json_extract({each}, '$[' || given.key || ']')" for each in others)]
    names = map(compiler.preparer.quote, element.column_names)
    columns = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
    return f"(SELECT {columns} FROM json_each({first}) AS given)"


def array_rows(name: str, /, **columns: tuple[str, TypeEngine[Any]]) -> TableValuedAlias:
    """Rows passed as parallel lists, to select and insert from.

    `array_rows("hits", key=("keys", Text()), at=("times", Instant))` has the columns `key` and
    `at`; a call passes `keys` and `times`, of equal length.
    """
    arrays = {key: array_parameter(*parameter) for key, parameter in columns.items()}
    alias_columns = [column(key, kind) for key, (_, kind) in columns.items()]
    return _UnnestedArrays(arrays).table_valued(*alias_columns).alias(name)


def array_params(names: Sequence[str], values: Sequence[Any]) -> dict[str, list[Any]]:
    """The parameters `each_NAME` of rows of `array_rows`: these attributes of the values."""
    return {f"each_{name}": [getattr(value, name) for value in values] for name in names}


def split_text(parameter: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """A list passed as one text, with commas between its values (PostgreSQL alone). The driver asks
    two abstract classes about each value of an array, and none about a text."""
    text = bindparam(parameter, type_=Text())
    values: ColumnElement[Any] = func.string_to_array(text, literal(",", Text()))
    return values if isinstance(kind, Text) else cast(values, ARRAY(kind))


def split_text_rows(name: str, /, **columns: tuple[str, TypeEngine[Any]]) -> TableValuedAlias:
    """Rows passed as parallel texts, each with commas between its values (PostgreSQL alone): like
    `array_rows`, for values without commas."""
    arrays = {key: split_text(*parameter) for key, parameter in columns.items()}
    alias_columns = [column(key, kind) for key, (_, kind) in columns.items()]
    return _UnnestedArrays(arrays).table_valued(*alias_columns).alias(name)


class _BatchRows(FunctionElement[Any]):
    inherit_cache = False

    def __init__(self, columns: Mapping[str, TypeEngine[Any]]) -> None:
        self.column_types = dict(columns)
        super().__init__()


@compiles(_BatchRows, "postgresql")
def _batch_rows_on_postgresql(element: _BatchRows, compiler: SQLCompiler, **kw: Any) -> str:
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in element.column_types.items()]
    lists = ", ".join(compiler.process(each, **kw) for each in arrays)
    names = ", ".join(map(compiler.preparer.quote, element.column_types))
    return f"(SELECT * FROM unnest({lists}) AS given ({names}))"


@compiles(_BatchRows, "sqlite")
def _batch_rows_on_sqlite(element: _BatchRows, compiler: SQLCompiler, **kw: Any) -> str:
    columns = ", ".join(
        f"{compiler.process(bindparam(name, type_=kind), **kw)} AS {compiler.preparer.quote(name)}"
        for name, kind in element.column_types.items()
    )
    return f"(SELECT {columns})"


def batch_rows(name: str, /, **columns: TypeEngine[Any]) -> TableValuedAlias:
    """The rows of a `BatchStatement`, to select and insert from. On PostgreSQL these are all
    rows, as parallel lists; on SQLite one at a time, since it is slow at unpacking wide
    lists. The parameters have the names of the columns."""
    alias_columns = [column(key, kind) for key, kind in columns.items()]
    return _BatchRows(columns).table_valued(*alias_columns).alias(name)


def claim_rows(
    table: Table,
    *,
    is_due: ColumnElement[bool],
    order_by: Sequence[ColumnElement[Any]],
    limit: int,
    values: Mapping[str, Any],
    returning: Sequence[ColumnElement[Any]],
) -> Update:
    """Claim up to `limit` due rows, skipping those that another worker has locked.

    The rows are returned in no order. The statement is a CTE, since the planner may run a plain `IN
    (SELECT … LIMIT)` more than once.
    """
    key = table.primary_key.columns
    due_keys = select(*key).where(is_due).order_by(*order_by).limit(limit)
    locked_keys = due_keys.with_for_update(skip_locked=True).cte("taken")
    claim_update = update(table).where(tuple_(*key).in_(select(*locked_keys.c)))
    return claim_update.values(**values).returning(*returning)


def advisory_lock(lock_key: int) -> Statement:
    """Wait for the advisory lock of this number; it is held until the transaction ends."""
    return Statement(postgresql=select(func.pg_advisory_xact_lock(cast(lock_key, BigInt))))


def sum_or_zero(amount: ColumnElement[Any]) -> ColumnElement[int]:
    """The sum as an `int`, 0 over no rows: PostgreSQL sums to NUMERIC, and to NULL without rows."""
    return cast(func.coalesce(func.sum(amount), 0), BigInt)


class matches_pattern(FunctionElement[bool]):  # noqa: N801 - reads as the operator it is
    """Match a pattern of `substring_pattern`. Python must have casefolded `text`, as it does
    with the pattern: the databases disagree on letters beyond ASCII."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, text: ColumnElement[Any], parameter: str) -> None:
        super().__init__(text, bindparam(parameter, type_=Text()))


@compiles(matches_pattern, "postgresql")
def _matches_pattern_on_postgresql(
    element: matches_pattern, compiler: SQLCompiler, **kw: Any
) -> str:
    # An ESCAPE clause would compile the pattern again for each row.
    text, pattern = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{text} LIKE {pattern}"


@compiles(matches_pattern, "sqlite")
def _matches_pattern_on_sqlite(element: matches_pattern, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{_matches_pattern_on_postgresql(element, compiler, **kw)} ESCAPE '\\'"


def substring_pattern(substring: str) -> str:
    """The LIKE pattern that finds this text anywhere; `%` and `_` match themselves."""
    for special in "\\%_":
        substring = substring.replace(special, f"\\{special}")
    return f"%{substring}%"
