"""Column types of both databases, and the conversions of parameters and results.

PostgreSQL's driver handles every type by itself, in binary. SQLite has integers, text and bytes
only: there an `Instant` is its microseconds since 1970 (exact, and ordered as the instants are), a
`CivilDate` its ISO text, and an array a JSON text. The converters are looked up once, when a
statement is compiled; a value whose type needs none costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import BigInteger, Boolean, Date, DateTime, Integer, Interval, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine

Dialect: TypeAlias = Literal["postgresql", "sqlite"]
DurabilityMode: TypeAlias = Literal["FULL", "OFF"]
"""Whether a commit is on the disk when it returns."""
Converter: TypeAlias = Callable[[Any], Any]

BigInt: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits, for keys, counts and money. INTEGER on SQLite, which generates keys for no other
type."""

Instant: Final = DateTime(timezone=True).with_variant(Integer(), "sqlite")
"""A moment: takes an aware `datetime` (a naive one is refused), returns one in UTC."""

Duration: Final = Interval().with_variant(Integer(), "sqlite")
"""A `timedelta` that is added to an `Instant`; never the type of a column."""

ByteOrderedText: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""A text that is compared by its code points, as SQLite compares every text: its beginnings are
ranges of an index."""

CivilDate: Final = Date().with_variant(Text(), "sqlite")
"""A calendar day without a time zone: a `date`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def array_of(item: TypeEngine[Any]) -> TypeEngine[Any]:
    """A list as one parameter; never the type of a column."""
    if isinstance(item, LargeBinary):
        raise TypeError("bytes have no place in JSON: keep what is looked up by array as text")
    return ARRAY(item).with_variant(Text(), "sqlite")


def parameter_converter(dialect: Dialect, column_type: TypeEngine[Any]) -> Converter | None:
    """The function from a parameter to the driver's value; None where they are equal."""
    if isinstance(column_type, DateTime):
        return _require_aware if dialect == "postgresql" else _microseconds
    if dialect == "postgresql":
        return None
    if isinstance(column_type, Interval):
        return _duration_microseconds
    if isinstance(column_type, Date):
        return date.isoformat
    if isinstance(column_type, ARRAY):
        return _json_array_converter(parameter_converter(dialect, column_type.item_type))
    return None


def result_converter(dialect: Dialect, column_type: TypeEngine[Any]) -> Converter | None:
    """The function from the driver's value to the column's; None where they are equal."""
    if dialect == "postgresql":
        return None
    if isinstance(column_type, DateTime):
        return _instant
    if isinstance(column_type, Date):
        return date.fromisoformat
    return bool if isinstance(column_type, Boolean) else None


def _require_aware(value: datetime) -> datetime:
    # The driver would read a naive time in the server's time zone.
    if value.tzinfo is None:
        raise TypeError("an instant needs a zone")
    return value


def _microseconds(value: datetime) -> int:
    return (_require_aware(value) - _EPOCH) // _MICROSECOND


def _duration_microseconds(value: timedelta) -> int:
    return value // _MICROSECOND


def _instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def _json_array_converter(convert_item: Converter | None) -> Converter:
    # Text as it is: SQLite would turn an escaped lone surrogate into unreadable text.
    dump_json = partial(json.dumps, ensure_ascii=False)
    if convert_item is None:
        return dump_json
    return lambda values: dump_json([None if v is None else convert_item(v) for v in values])
