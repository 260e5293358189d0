"""Strict conversion of external data to the core's inputs, reporting all errors (CONTRACT 1).

`structure` converts a JSON body or a row of a file; `structure_query` converts query parameters.
Both enforce the bounds that the class declares: MissingField lists every absent or null field,
InvalidField every invalid one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache, reduce
from operator import or_
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import attrs
from attrs import frozen
from cattrs import Converter
from cattrs.errors import ClassValidationError, IterableValidationError
from cattrs.gen import make_dict_structure_fn

from staffbooking_core.bounds import AmountBounds, IntegerBounds, ListBounds, Unset
from staffbooking_core.errors import FieldError, InvalidField, MissingField
from staffbooking_core.inputs import SlotHours
from staffbooking_core.value_checks import (
    BOUND_CHECKS,
    check_date,
    check_is_date,
    uniqueness_key,
)

T = TypeVar("T")

StructureHook = Callable[[Any, Any], Any]

_MISSING = "is required"

_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER_PATTERN = re.compile(r"-?(0|[1-9][0-9]{0,39})")
_DECIMAL_PATTERN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


@frozen
class QueryPriceBound:
    """An amount in a query, from 0 on; it may have more decimals than the currency, and be higher
    than any price."""


@frozen
class QueryDate:
    """A date in a query, of any year: a day on which nobody can be found is no fault."""


def structure(cls: type[T], data: Mapping[str, Any]) -> T:
    """Convert a JSON object to an input. Unknown fields are ignored; null counts as absent, except
    for an `Unset` field that may be None.

    Raises MissingField or InvalidField.
    """
    result, errors = _structure_or_errors(_converter(from_query=False), cls, data)
    return _checked_result(result, errors)


def structure_query(cls: type[T], data: Mapping[str, str], unreadable: Mapping[str, str]) -> T:
    """Convert query parameters to an input. Numbers are plain ASCII digits, booleans are `true` or
    `false`.

    `unreadable` maps fields whose text could not be decoded to the reason; `data` contains them
    too. Raises MissingField or InvalidField.
    """
    result, errors = _structure_or_errors(_converter(from_query=True), cls, data)
    return _checked_result(result, {**errors, **unreadable})


def structure_form(cls: type[T], data: Mapping[str, str], unreadable: Mapping[str, str]) -> T:
    """Convert the fields of a form as `structure_query` does. MissingField lists the invalid
    fields too, since a person corrects all of them at once."""
    try:
        return structure_query(cls, data, unreadable)
    except MissingField:
        _, errors = _structure_or_errors(_converter(from_query=True), cls, data)
        errors |= unreadable
        raise MissingField(
            FieldError(path, message or _MISSING) for path, message in errors.items()
        ) from None


def _structure_or_errors(
    converter: Converter, cls: type[T], data: Mapping[str, Any]
) -> tuple[T | None, dict[str, str | None]]:
    """The input, or None and each invalid field with its message; a missing field has None."""
    try:
        return converter.structure(data, cls), {}
    except (ClassValidationError, IterableValidationError) as error:
        causes = _iterate_errors(error, "")
        return None, {
            path: None if isinstance(cause, KeyError) else str(cause) for path, cause in causes
        }


def _checked_result(result: T | None, errors: Mapping[str, str | None]) -> T:
    if missing := [path for path, message in errors.items() if message is None]:
        raise MissingField(FieldError(path, _MISSING) for path in missing)
    if result is None or errors:
        raise InvalidField(FieldError(path, message or "") for path, message in errors.items())
    return result


def _iterate_errors(error: BaseException, path: str) -> Iterator[tuple[str, BaseException]]:
    """Each error with its field's dotted path, in the order of the fields."""
    if isinstance(error, ClassValidationError):
        for cause, note in error.group_exceptions()[0]:
            yield from _iterate_errors(cause, f"{path}.{note.name}" if path else note.name)
    elif isinstance(error, IterableValidationError):
        for cause, item_note in error.group_exceptions()[0]:
            yield from _iterate_errors(cause, f"{path}.{item_note.index}")
    else:
        yield path, error


@lru_cache(maxsize=2)
def _converter(*, from_query: bool) -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _class_hook(converter, cls))
    converter.register_structure_hook(StrEnum, _structure_choice)
    converter.register_structure_hook(bool, _structure_bool_text if from_query else _structure_bool)
    converter.register_structure_hook(date, _structure_date)
    converter.register_structure_hook_factory(
        lambda kind: Unset in get_args(kind), lambda kind: _optional_hook(converter, kind)
    )
    converter.register_structure_hook_factory(
        _is_nullable, lambda kind: _nullable_hook(converter, kind)
    )
    converter.register_structure_hook_factory(
        lambda kind: bool(getattr(kind, "__metadata__", ())),
        lambda kind: _bounded_hook(converter, kind, from_query),
    )
    return converter


def _class_hook(converter: Converter, cls: Any) -> StructureHook:
    make: StructureHook = make_dict_structure_fn(cls, converter, _cattrs_detailed_validation=True)
    if issubclass(cls, SlotHours):
        make = _cached_hook(make)
    fields = attrs.fields(attrs.resolve_types(cls))
    known = {field.name for field in fields}
    nullable = {field.name for field in fields if _accepts_null(field)}

    def structure_class(given: Any, kind: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("must be an object")
        provided = {
            name: value
            for name, value in given.items()
            if name in known and (value is not None or name in nullable)
        }
        return make(provided, kind)

    return structure_class


def _cached_hook(make: StructureHook) -> StructureHook:
    """Cache conversions of hours: imports repeat the same few values many times. Only valid values
    are cached, keyed by type too: true is not 1."""

    @lru_cache(maxsize=4096, typed=True)
    def structure_provided(kind: Any, /, **provided: Any) -> Any:
        return make(provided, kind)

    def structure_hours(provided: Mapping[str, Any], kind: Any) -> Any:
        try:
            return structure_provided(kind, **provided)
        except TypeError:  # A list or an object in place of a text.
            return make(provided, kind)

    return structure_hours


def _accepts_null(field: attrs.Attribute[Any]) -> bool:
    """Whether null is a value of the field instead of an absence."""
    return isinstance(field.default, Unset) and type(None) in get_args(field.type)


def _optional_hook(converter: Converter, kind: Any) -> StructureHook:
    """The hook of an `Unset` field that is present: that of its other types."""
    set_kind = reduce(or_, (one for one in get_args(kind) if one is not Unset))
    structure_set = converter.get_structure_hook(set_kind)
    return lambda given, _: structure_set(given, set_kind)


def _is_nullable(kind: Any) -> bool:
    is_union = get_origin(kind) in (Union, UnionType)
    return is_union and len(get_args(kind)) == 2 and type(None) in get_args(kind)


def _nullable_hook(converter: Converter, kind: Any) -> StructureHook:
    """The hook of a value that may be None. The hook of cattrs looks the other type up each time,
    which took a third of the time of a query."""
    [value_kind] = (one for one in get_args(kind) if one is not type(None))
    structure_value = converter.get_structure_hook(value_kind)
    return lambda given, _: None if given is None else structure_value(given, value_kind)


def _structure_choice(value: Any, kind: type[StrEnum]) -> StrEnum:
    members = kind._value2member_map_
    if not isinstance(value, str) or value not in members:
        raise ValueError(f"must be one of {', '.join(kind)}")
    return kind(value)


def _structure_bool(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _structure_bool_text(value: Any, kind: Any) -> bool:
    return _structure_bool(_BOOLS.get(value), kind)


_BOOLS = {"true": True, "false": False}


def _structure_date(value: Any, _: Any) -> date:
    """Parse a date, and check its range."""
    return check_date(_parse_date(value))


def _structure_query_date(value: Any, _: Any) -> date:
    return check_is_date(_parse_date(value))


def _parse_date(value: Any) -> date | None:
    return _parse_or_none(date.fromisoformat, _DATE_PATTERN, value)


def _parse_or_none(parse: Callable[[str], T], pattern: re.Pattern[str], value: Any) -> T | None:
    """Parse a text that matches the pattern; None if it does not match or can't be parsed."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        return None
    try:
        return parse(value)
    except ValueError:
        return None


# Bounds ---------------------------------------------------------------------------------


def _bounded_hook(converter: Converter, kind: Any, from_query: bool) -> StructureHook:
    inner, bound = get_args(kind)[:2]
    if isinstance(bound, ListBounds):
        elements = get_args(inner)[0]
        structure_list = converter.get_structure_hook(list[elements])  # type: ignore[valid-type]
        return lambda given, _: _check_items(given, bound, structure_list)
    check = _BOUND_CHECKS[type(bound)]
    if from_query and (number_format := _QUERY_NUMBERS.get(type(bound))):
        pattern, parse = number_format
        return lambda text, _: check(parse(text) if pattern.fullmatch(text) else text, bound)
    return lambda given, _: check(given, bound)


def _check_price(value: Any, _: QueryPriceBound) -> Decimal:
    if not isinstance(value, Decimal):
        raise ValueError("must be a decimal number")
    if value < 0:
        raise ValueError("must not be negative")
    return value


def _check_items(value: Any, bound: ListBounds, structure_list: StructureHook) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    if not bound.min <= len(value) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} elements")
    items = cast("list[Any]", structure_list(value, None))
    if bound.unique and len(set(map(uniqueness_key, items))) < len(items):
        raise ValueError("must not repeat an element")
    return tuple(items)


_BOUND_CHECKS: dict[type, StructureHook] = {
    **BOUND_CHECKS,
    QueryPriceBound: _check_price,
    QueryDate: _structure_query_date,
}
"""The check of each bound: returns the value or raises ValueError with the message."""

_QUERY_NUMBERS: dict[type, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    IntegerBounds: (_INTEGER_PATTERN, int),
    AmountBounds: (_DECIMAL_PATTERN, Decimal),
    QueryPriceBound: (_DECIMAL_PATTERN, Decimal),
}
"""The format and the parser of numbers in a query. A text of another format stays a text, which the
bound's check refuses."""
