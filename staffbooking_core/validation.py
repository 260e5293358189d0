"""Validation of inputs by the bounds that they declare, with every fault at once.

`staffbooking_core.inputs` declares the bounds. Use-cases check their arguments here, whoever calls
them; the strict converter of the adapters uses the same checks for JSON and files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from enum import StrEnum
from functools import cache, wraps
from inspect import isasyncgenfunction, signature
from types import UnionType
from typing import (
    Annotated,
    Any,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from staffbooking_core.bounds import (
    MAX_ID,
    AllowedCharacters,
    IntegerBounds,
    ListBounds,
    TextBounds,
    Unset,
)
from staffbooking_core.errors import FieldError, InvalidField, NotFound, StaffbookingError
from staffbooking_core.value_checks import (
    BOUND_CHECKS,
    check_date,
    check_integer,
    check_text,
    uniqueness_key,
)

P = ParamSpec("P")
R = TypeVar("R")

_MAX_PAGE = 100_000

# Arguments -------------------------------------------------------------------------------

Check = Callable[[str, Any, list[FieldError]], None]
"""Adds the faults of a value to the list; the first argument is the field's path."""

_PLAIN_TEXT = TextBounds(100_000, 0, characters=AllowedCharacters.OPAQUE)
_STORED_INTEGER = IntegerBounds(-MAX_ID - 1, MAX_ID)
_NAMED_BOUNDS = {
    "page": IntegerBounds(1, _MAX_PAGE),
    "limit": IntegerBounds(1, _MAX_PAGE),
    "after_id": IntegerBounds(0, MAX_ID),
}
"""Bounds of plain integers by the name of the parameter."""


def validate_input(record: attrs.AttrsInstance) -> None:
    """Check an input record by the bounds of its fields. Raises InvalidField with every fault."""
    faults: list[FieldError] = []
    _record_check(type(record))("", record, faults)
    if faults:
        raise InvalidField(faults)


def validated(usecase: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a use-case by their annotations: input records by their bounds, plain
    values by their type, texts without NUL and lone surrogates, integers of 64 bits, pages from 1.
    The first parameter, the ports, is taken as it is.

    The use-case then raises InvalidField with every fault, before it reads or stores anything.
    """
    return _checked(usecase, InvalidField)


def validated_lookup(resource: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`validated` for a use-case that finds something by its address: what is no address finds
    nothing, so it raises NotFound for invalid arguments."""
    return lambda usecase: _checked(usecase, lambda _: NotFound(resource))


def _checked(
    usecase: Callable[P, R], make_error: Callable[[list[FieldError]], StaffbookingError]
) -> Callable[P, R]:
    names = list(signature(usecase).parameters)[1:]

    @cache
    def checks() -> list[tuple[int, str, Check]]:
        hints = get_type_hints(usecase, include_extras=True)
        found = (
            (place, name, _argument_check(name, hints[name])) for place, name in enumerate(names, 1)
        )
        return [(place, name, check) for place, name, check in found if check is not None]

    def check_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        faults: list[FieldError] = []
        for place, name, check in checks():
            if place < len(args):
                check(name, args[place], faults)
            elif name in kwargs:
                check(name, kwargs[name], faults)
        if faults:
            raise make_error(faults)

    if isasyncgenfunction(usecase):

        @wraps(usecase)
        def checked_iterator(*args: P.args, **kwargs: P.kwargs) -> R:
            check_arguments(args, kwargs)
            return cast("R", usecase(*args, **kwargs))

        return checked_iterator

    @wraps(usecase)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
        check_arguments(args, kwargs)
        return await cast("Any", usecase(*args, **kwargs))

    return cast("Callable[P, R]", checked)


def _argument_check(name: str, hint: Any) -> Check | None:
    if hint is int and name in _NAMED_BOUNDS:
        return _leaf_check(lambda value: check_integer(value, _NAMED_BOUNDS[name]))
    if isinstance(hint, type) and attrs.has(hint) and hint.__module__ == _INPUTS:
        check_type, check_fields = _instance_check(hint), _record_check(hint)

        def check_record(path: str, value: Any, faults: list[FieldError]) -> None:
            if isinstance(value, hint):  # Its fields have the names of the interface.
                check_fields("", value, faults)
            else:
                check_type(path, value, faults)

        return check_record
    return _check_of(hint)


@cache
def _check_of(hint: Any) -> Check | None:
    """The check of a value of this type; None for types that are not checked."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _bounded_check(hint)
    if origin in (Union, UnionType):
        return _union_check(get_args(hint))
    if not isinstance(hint, type):
        return None
    if attrs.has(hint):
        return _record_check(hint) if hint.__module__ == _INPUTS else _instance_check(hint)
    if issubclass(hint, StrEnum):
        return _choice_check(hint)
    return _PLAIN_CHECKS.get(hint)


_INPUTS = "staffbooking_core.inputs"


@cache
def _record_check(cls: type[attrs.AttrsInstance]) -> Check:
    hints = get_type_hints(cls, include_extras=True)
    found = ((field.name, _check_of(hints[field.name])) for field in attrs.fields(cls))
    checks = [(name, check) for name, check in found if check is not None]

    def check_record(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, cls):
            faults.append(FieldError(path, f"must be a {cls.__name__}"))
            return
        prefix = f"{path}." if path else ""
        for name, check in checks:
            check(prefix + name, getattr(value, name), faults)

    return check_record


def _instance_check(cls: type) -> Check:
    def check_instance(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, cls):
            faults.append(FieldError(path, f"must be a {cls.__name__}"))

    return check_instance


def _leaf_check(check: Callable[[Any], Any]) -> Check:
    def check_leaf(path: str, value: Any, faults: list[FieldError]) -> None:
        try:
            check(value)
        except ValueError as error:
            faults.append(FieldError(path, str(error)))

    return check_leaf


def _choice_check(kind: type[StrEnum]) -> Check:
    def check_choice(value: Any) -> None:
        if not isinstance(value, kind):
            raise ValueError(f"must be one of {', '.join(kind)}")

    return _leaf_check(check_choice)


def _bounded_check(hint: Any) -> Check:
    inner, bound = get_args(hint)[:2]
    if isinstance(bound, ListBounds):
        return _list_check(get_args(inner)[0], bound)
    check = BOUND_CHECKS[type(bound)]
    return _leaf_check(lambda value: check(value, bound))


def _list_check(element: Any, bound: ListBounds) -> Check:
    check_element = _check_of(element)

    def check_list(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, tuple | list):
            faults.append(FieldError(path, "must be a list"))
            return
        if not bound.min <= len(value) <= bound.max:
            faults.append(FieldError(path, f"must have {bound.min} to {bound.max} elements"))
            return
        before = len(faults)
        if check_element is not None:
            for index, item in enumerate(value):
                check_element(f"{path}.{index}", item, faults)
        if len(faults) == before and bound.unique and _has_repeated(value):
            faults.append(FieldError(path, "must not repeat an element"))

    return check_list


def _has_repeated(items: Any) -> bool:
    return len(set(map(uniqueness_key, items))) < len(items)


def _union_check(members: tuple[Any, ...]) -> Check | None:
    checks = [_check_of(one) for one in members if one not in (Unset, type(None))]
    if len(checks) != 1 or (inner := checks[0]) is None:
        return None
    accepts_none, accepts_unset = type(None) in members, Unset in members

    def check_optional(path: str, value: Any, faults: list[FieldError]) -> None:
        is_absent = (value is None and accepts_none) or (value is Unset.UNSET and accepts_unset)
        if not is_absent:
            inner(path, value, faults)

    return check_optional


def _check_flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")


def _check_bytes(value: Any) -> None:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError("must be bytes")


def _check_aware_datetime(value: Any) -> None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("must be a time with its time zone")


_PLAIN_CHECKS: Mapping[type, Check] = {
    bool: _leaf_check(_check_flag),
    int: _leaf_check(lambda value: check_integer(value, _STORED_INTEGER)),
    str: _leaf_check(lambda value: check_text(value, _PLAIN_TEXT)),
    bytes: _leaf_check(_check_bytes),
    date: _leaf_check(check_date),
    datetime: _leaf_check(_check_aware_datetime),
}
