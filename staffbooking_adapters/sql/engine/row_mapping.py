"""Maps rows to entities and back: columns are the entity's fields, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from attrs import fields
from sqlalchemy import ColumnElement

from staffbooking_adapters.sql.engine.statements import Row
from staffbooking_adapters.sql.engine.types import Converter

T = TypeVar("T")


class RowMapper(Generic[T]):
    """Makes an entity of a row's first columns, and ignores the columns after them.

    Values are passed by position: `columns` must stand in the order of the entity's fields. Only
    converters go by name. A column in the wrong place is not noticed here, and fills the wrong
    field if the types allow it.

    `converters` convert a column's values to the field's, by column name; they are not called for
    NULL, which becomes None.
    """

    __slots__ = ("_entity", "_places", "_width")

    def __init__(
        self,
        entity: Callable[..., T],
        columns: Sequence[ColumnElement[Any]],
        **converters: Converter,
    ) -> None:
        self._entity = entity
        self._width = len(columns)
        names = [getattr(column, "name", "") for column in columns]
        self._places = [
            (names.index(name), _member_finder(convert)) for name, convert in converters.items()
        ]

    def __call__(self, row: Row) -> T:
        fields = list(row[: self._width])
        for index, convert in self._places:
            if fields[index] is not None:
                fields[index] = convert(fields[index])
        return self._entity(*fields)

    def map_optional(self, row: Row | None) -> T | None:
        return None if row is None else self(row)


def _member_finder(convert: Converter) -> Converter:
    """For an enumeration the look-up of its members, a fifth of the cost of its call; any other
    converter as it is."""
    if isinstance(convert, type) and issubclass(convert, Enum):
        return {member.value: member for member in convert}.__getitem__
    return convert


def field_values_getter(entity: type) -> Callable[[Any], dict[str, Any]]:
    """The function that returns an entity's field values for a row: like `attrs.asdict`, but
    faster."""
    names = [field.name for field in fields(entity)]
    get_values = attrgetter(*names)
    return lambda one: dict(zip(names, get_values(one), strict=True))
