"""Translation of the drivers' errors to the core's errors.

A `ConstraintViolated` carries the constraint's name, equal on both databases: SQLite reports the
columns of a UNIQUE constraint instead, whose name the schema knows. A missing value is
`nn_TABLE_COLUMN`; a broken reference is `foreign_key` alone, since SQLite reports no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Column, PrimaryKeyConstraint, Table, UniqueConstraint

from staffbooking_adapters.sql.engine.statements import Arguments
from staffbooking_core.errors import ConstraintViolated, StoreUnavailable, invalid_field

FOREIGN_KEY_CONSTRAINT = "foreign_key"


class RetryableTransactionError(StoreUnavailable):
    """The transaction was rolled back and may succeed if it is run again."""


_RETRYABLE_SQLSTATES = {"40001", "40P01"}
# A table was migrated meanwhile. Matched by name, so that SQLite does not need the driver.
_OUTDATED_PLAN_ERROR_NAME = "InvalidCachedStatementError"
_CONNECTION_LOST_SQLSTATES = ("08", "57P")  # the connection, or the server behind it
# Out of resources, statement or lock timeout, read-only, idle for too long,
# I/O errors, damaged files, and a database or user that does not exist (yet).
_UNAVAILABLE_SQLSTATES = (
    "53",
    "57014",
    "55P03",
    "25006",
    "25P03",
    "58",
    "28",
    "3D000",
    "XX001",
    "XX002",
)
# Busy, locked, read-only, interrupted after a timeout, I/O, corrupt, full, can't open, lock
# protocol, not a database.
_UNAVAILABLE_SQLITE_CODES = {5, 6, 8, 9, 10, 11, 13, 14, 15, 26}


def translate_postgres_error(
    error: Exception, *, is_connected: bool, is_autocommit: bool
) -> Exception | None:
    """The core's error for one of asyncpg's errors; None where it is a defect of this program.

    `is_connected`: the connection survived the error. `is_autocommit`: the statement takes effect
    by itself (a COMMIT, or a write outside of a transaction).
    """
    sqlstate: str = getattr(error, "sqlstate", None) or ""
    if sqlstate in _RETRYABLE_SQLSTATES or type(error).__name__ == _OUTDATED_PLAN_ERROR_NAME:
        return RetryableTransactionError(str(error))
    if sqlstate.startswith("23") or sqlstate == "P0001":
        return ConstraintViolated(_postgres_constraint_name(error, sqlstate))
    if sqlstate.startswith(_CONNECTION_LOST_SQLSTATES) or not is_connected:
        return (
            StoreUnavailable(str(error)) if is_autocommit else RetryableTransactionError(str(error))
        )
    if sqlstate.startswith(_UNAVAILABLE_SQLSTATES) or isinstance(error, OSError):
        return StoreUnavailable(str(error))
    return None


def _postgres_constraint_name(error: Any, sqlstate: str) -> str:
    if sqlstate == "23502":
        return f"nn_{error.table_name}_{error.column_name}"
    if sqlstate == "23503":
        return FOREIGN_KEY_CONSTRAINT
    return str(error.constraint_name or error.message)


def translate_sqlite_error(error: Exception, tables: Mapping[str, Table]) -> Exception | None:
    """The core's error for one of SQLite's errors; None where it is a defect of this program."""
    if isinstance(error, sqlite3.IntegrityError):
        return ConstraintViolated(_sqlite_constraint_name(str(error), tables))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _UNAVAILABLE_SQLITE_CODES:
        return StoreUnavailable(str(error))
    return None


def _sqlite_constraint_name(message: str, tables: Mapping[str, Table]) -> str:
    kind, separator, target = message.partition(" constraint failed")
    target = target.removeprefix(": ")
    if not separator:
        return message  # the message that the trigger raises
    if kind == "FOREIGN KEY":
        return FOREIGN_KEY_CONSTRAINT
    if kind == "NOT NULL":
        return f"nn_{target.replace('.', '_')}"
    if kind == "UNIQUE":
        table = tables.get(target.partition(".")[0])
        names = {} if table is None else unique_constraint_names(table)
        return names.get(target) or target.removeprefix("index ").strip("'")
    return target


@cache
def unique_constraint_names(table: Table) -> dict[str, str]:
    """SQLite's description of each unique key ("table.a, table.b"), and the key's name."""
    names: dict[str, str] = {}
    for name, columns in _unique_keys(table):
        qualified_columns = ", ".join(f"{table.name}.{column}" for column in columns)
        if qualified_columns in names:
            raise ValueError(f"SQLite cannot tell {name} from {names[qualified_columns]}")
        names[qualified_columns] = name
    return names


def _unique_keys(table: Table) -> Iterable[tuple[str, list[str]]]:
    for constraint in table.constraints:
        if isinstance(constraint, (UniqueConstraint, PrimaryKeyConstraint)) and constraint.columns:
            yield str(constraint.name), [column.name for column in constraint.columns]
    for index in table.indexes:
        if index.unique and all(isinstance(each, Column) for each in index.expressions):
            yield str(index.name), [column.name for column in index.columns]


def unstorable_parameter_error(
    names: Sequence[str], argument_rows: Iterable[Arguments]
) -> Exception | None:
    """The core's error that names a parameter which no store can keep; None without one.

    Such a parameter is an integer beyond 64 bits, or text with a NUL or a lone surrogate. The
    interface refuses them earlier; this keeps a missed one from becoming an internal error.
    """
    for arguments in argument_rows:
        for name, value in zip(names, arguments, strict=False):
            if _is_unstorable(value):
                return invalid_field(name, "cannot be stored")
    return None


def _is_unstorable(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_is_unstorable, value))
    if isinstance(value, str):
        return "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not -(2**63) <= value < 2**63
