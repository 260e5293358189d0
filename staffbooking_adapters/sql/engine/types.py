"""Column types of both databases, and what the seam converts on the way in and out.

PostgreSQL's driver speaks every type by itself, in binary. SQLite knows integers, text and
bytes only, so there an `Instant` is its microseconds since 1970 (exact, and ordered as the
instants are), a `CivilDate` its ISO text, and an array one JSON text. The converters are
looked up once, when a statement is compiled; a value whose type needs none costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import BigInteger, Boolean, Date, DateTime, Integer, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine

Dialect: TypeAlias = Literal["postgresql", "sqlite"]
DurabilityMode: TypeAlias = Literal["FULL", "OFF"]
"""Whether a commit is on the disk when it returns."""
Converter: TypeAlias = Callable[[Any], Any]

BigInt: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits, for keys, counts and money: SQLite numbers a key by itself only as INTEGER."""

Instant: Final = DateTime(timezone=True).with_variant(Integer(), "sqlite")
"""A moment: an aware `datetime` in (a naive one is refused), one in UTC out."""

CivilDate: Final = Date().with_variant(Text(), "sqlite")
"""A day of the calendar, in no zone: a `date` in and out."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def array_of(item: TypeEngine[Any]) -> TypeEngine[Any]:
    """A list as one parameter; never a column's type."""
    if isinstance(item, LargeBinary):
        raise TypeError("bytes have no place in JSON: keep what is looked up by array as text")
    return ARRAY(item).with_variant(Text(), "sqlite")


def parameter_converter(dialect: Dialect, column_type: TypeEngine[Any]) -> Converter | None:
    """What turns a parameter into the driver's value, or None where it is that already."""
    if isinstance(column_type, DateTime):
        return _require_aware if dialect == "postgresql" else _microseconds
    if dialect == "postgresql":
        return None
    if isinstance(column_type, Date):
        return date.isoformat
    if isinstance(column_type, ARRAY):
        return _json_array_converter(parameter_converter(dialect, column_type.item_type))
    return None


def result_converter(dialect: Dialect, column_type: TypeEngine[Any]) -> Converter | None:
    """What turns the driver's value into a column's, or None where it is that already."""
    if dialect == "postgresql":
        return None
    if isinstance(column_type, DateTime):
        return _instant
    if isinstance(column_type, Date):
        return date.fromisoformat
    return bool if isinstance(column_type, Boolean) else None


def _require_aware(value: datetime) -> datetime:
    # The driver would take a naive time for one of the server's own zone.
    if value.tzinfo is None:
        raise TypeError("an instant needs a zone")
    return value


def _microseconds(value: datetime) -> int:
    return (_require_aware(value) - _EPOCH) // _MICROSECOND


def _instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def _json_array_converter(convert_item: Converter | None) -> Converter:
    # Text as it is: SQLite would make an escaped half of a surrogate into what can't be read.
    dump_json = partial(json.dumps, ensure_ascii=False)
    if convert_item is None:
        return dump_json
    return lambda values: dump_json([None if v is None else convert_item(v) for v in values])
