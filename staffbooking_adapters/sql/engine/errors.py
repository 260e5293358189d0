"""The drivers' errors in the core's words: the one place where they are told apart.

A refusal carries the constraint's name, equal on both databases: SQLite tells the columns
of a UNIQUE instead, which the schema knows by name. A missing value is `nn_TABLE_COLUMN`;
a broken reference is `foreign_key` alone, since SQLite says no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, Table, UniqueConstraint

from staffbooking_adapters.sql.engine.statements import Arguments
from staffbooking_core.errors import ConstraintViolated, Unavailable, invalid

FOREIGN_KEY = "foreign_key"


class Repeat(Unavailable):
    """The whole unit of work is undone, and may well succeed if it is run again."""


_REPEATABLE = {"40001", "40P01"}
# A table was migrated meanwhile. By its name, as SQLite alone does without the driver.
_PLAN_OUTDATED = "InvalidCachedStatementError"
_GONE = ("08", "57P")  # the connection, or the server behind it
# Besides those: no room, stopped by a timeout or a lock's, read-only, idle for too long,
# the system's own faults, damaged files, and a database or a user that isn't there (yet).
_OUT_OF_REACH = ("53", "57014", "55P03", "25006", "25P03", "58", "28", "3D000", "XX001", "XX002")
# Busy, locked, read-only, I/O, corrupt, full, can't open, lock protocol, not a database.
_SQLITE_OUT_OF_REACH = {5, 6, 8, 10, 11, 13, 14, 15, 26}


def from_postgres(error: Exception, *, connected: bool, final: bool) -> Exception | None:
    """The core's error for one of asyncpg's, or None where it is a fault of ours.

    `connected` tells whether the connection outlived the error, `final` whether what was
    sent takes effect by itself.
    """
    state: str = getattr(error, "sqlstate", None) or ""
    if state in _REPEATABLE or type(error).__name__ == _PLAN_OUTDATED:
        return Repeat(str(error))
    if state.startswith("23") or state == "P0001":
        return ConstraintViolated(_refused_by_postgres(error, state))
    if state.startswith(_GONE) or not connected:
        return Unavailable(str(error)) if final else Repeat(str(error))
    if state.startswith(_OUT_OF_REACH) or isinstance(error, OSError):
        return Unavailable(str(error))
    return None


def _refused_by_postgres(error: Any, state: str) -> str:
    if state == "23502":
        return f"nn_{error.table_name}_{error.column_name}"
    if state == "23503":
        return FOREIGN_KEY
    return str(error.constraint_name or error.message)


def from_sqlite(error: Exception, unique: Mapping[str, str]) -> Exception | None:
    """The core's error for one of SQLite's, or None where it is a fault of ours."""
    if isinstance(error, sqlite3.IntegrityError):
        return ConstraintViolated(_refused_by_sqlite(str(error), unique))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_OUT_OF_REACH:
        return Unavailable(str(error))
    return None


def _refused_by_sqlite(message: str, unique: Mapping[str, str]) -> str:
    kind, failed, what = message.partition(" constraint failed")
    what = what.removeprefix(": ")
    if not failed:
        return message  # a trigger's own word
    if kind == "FOREIGN KEY":
        return FOREIGN_KEY
    if kind == "NOT NULL":
        return f"nn_{what.replace('.', '_')}"
    if kind == "UNIQUE":
        return unique.get(what) or what.removeprefix("index ").strip("'")
    return what


def unique_names(metadata: MetaData) -> dict[str, str]:
    """How SQLite calls each unique key ("table.a, table.b"), and its name."""
    names: dict[str, str] = {}
    for table in metadata.tables.values():
        for name, columns in _unique_keys(table):
            told = ", ".join(f"{table.name}.{column}" for column in columns)
            if told in names:
                raise ValueError(f"SQLite cannot tell {name} from {names[told]}")
            names[told] = name
    return names


def _unique_keys(table: Table) -> Iterable[tuple[str, list[str]]]:
    for constraint in table.constraints:
        if isinstance(constraint, (UniqueConstraint, PrimaryKeyConstraint)) and constraint.columns:
            yield str(constraint.name), [column.name for column in constraint.columns]
    for index in table.indexes:
        if index.unique and all(isinstance(each, Column) for each in index.expressions):
            yield str(index.name), [column.name for column in index.columns]


def unstorable(names: Sequence[str], given: Iterable[Arguments]) -> Exception | None:
    """The core's error that names a parameter which no store can keep, if there is one.

    That is an integer beyond 64 bits, or text with a NUL or half a surrogate. The edge
    refuses them all first; this keeps a slip from looking like a crash.
    """
    for arguments in given:
        for name, value in zip(names, arguments, strict=False):
            if _cannot_be_kept(value):
                return invalid(name, "cannot be stored")
    return None


def _cannot_be_kept(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_cannot_be_kept, value))
    if isinstance(value, str):
        return "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not -(2**63) <= value < 2**63
