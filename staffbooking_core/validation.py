"""Validation of inputs by the bounds that they declare, with every fault at once.

`staffbooking_core.inputs` declares the bounds. Use-cases check their arguments here, whoever calls
them; the strict converter of the adapters uses the same checks for JSON and files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache, wraps
from inspect import isasyncgenfunction, signature
from operator import is_
from types import UnionType
from typing import (
    Annotated,
    Any,
    ParamSpec,
    TypeAlias,
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
    """Check an input record by the bounds of its fields. Raises InvalidField with every fault.

    Nothing is converted here: a member of an enumeration is not given by its value.
    """
    faults: list[FieldError] = []
    _record_check(type(record))("", record, faults)
    if faults:
        raise InvalidField(faults)


def validated(usecase: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a use-case by their annotations: input records by their bounds, plain
    values by their type, texts without NUL and lone surrogates, integers of 64 bits, pages from 1.
    The first parameter, the ports, is taken as it is. A member of an enumeration may be given by
    its value: the use-case gets the member.

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
    check, call = _argument_checker(usecase, make_error), cast("Any", usecase)
    if isasyncgenfunction(usecase):

        @wraps(usecase)
        def checked_iterator(*args: P.args, **kwargs: P.kwargs) -> R:
            positional, named = check(args, kwargs)
            return cast("R", call(*positional, **named))

        return checked_iterator

    @wraps(usecase)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
        positional, named = check(args, kwargs)
        return await call(*positional, **named)

    return cast("Callable[P, R]", checked)


_Arguments: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
"""Arguments by place and by name."""


def _argument_checker(
    usecase: Callable[..., Any], make_error: Callable[[list[FieldError]], StaffbookingError]
) -> Callable[[Sequence[Any], Mapping[str, Any]], _Arguments]:
    """A function that converts and checks the arguments of a call."""
    plan = cache(lambda: _plan_of(usecase))

    def check_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Arguments:
        if len(args) == 1 and not kwargs:  # The ports alone, as in each poll of a worker.
            return args, kwargs
        conversions, checks = plan()
        if conversions:
            args, kwargs = _converted_arguments(conversions, args, kwargs)
        faults: list[FieldError] = []
        for place, name, check in checks:
            if place < len(args):
                check(name, args[place], faults)
            elif name in kwargs:
                check(name, kwargs[name], faults)
        if faults:
            raise make_error(faults)
        return args, kwargs

    return check_arguments


def _plan_of(
    usecase: Callable[..., Any],
) -> tuple[list[tuple[int, str, Conversion]], list[tuple[int, str, Check]]]:
    """The conversions and the checks of the arguments, by their places and names."""
    hints = get_type_hints(usecase, include_extras=True)
    conversions, checks = [], []
    for place, name in enumerate(list(signature(usecase).parameters)[1:], 1):
        if (convert := _conversion_of(hints[name])) is not None:
            conversions.append((place, name, convert))
        if (check := _argument_check(name, hints[name])) is not None:
            checks.append((place, name, check))
    return conversions, checks


# Members of enumerations by their values --------------------------------------------------

Conversion = Callable[[Any], Any]
"""Replaces the value of an enumeration by its member; what is no such value stays as it is."""


def _converted_arguments(
    conversions: Sequence[tuple[int, str, Conversion]],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    positional, named = list(args), dict(kwargs)
    for place, name, convert in conversions:
        if place < len(positional):
            positional[place] = convert(positional[place])
        elif name in named:
            named[name] = convert(named[name])
    return positional, named


@cache
def _conversion_of(hint: Any) -> Conversion | None:
    """The conversion of a value of this type; None for types without enumerations."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _conversion_of(get_args(hint)[0])
    if origin in (Union, UnionType):
        found = [each for one in get_args(hint) if (each := _conversion_of(one)) is not None]
        return found[0] if len(found) == 1 else None
    if origin is tuple:
        return _tuple_conversion(_conversion_of(get_args(hint)[0]))
    if not isinstance(hint, type):
        return None
    if issubclass(hint, StrEnum):
        return lambda value: _member_of(hint, value)
    if attrs.has(hint) and hint.__module__ in INPUT_MODULES:
        return _record_conversion(hint)
    return None


def _member_of(kind: type[StrEnum], value: Any) -> Any:
    try:
        return kind(value) if type(value) is str else value
    except ValueError:
        return value


def _tuple_conversion(convert: Conversion | None) -> Conversion | None:
    if convert is None:
        return None

    def convert_items(value: Any) -> Any:
        if not isinstance(value, tuple | list):
            return value
        items = tuple(map(convert, value))
        is_same = all(map(is_, items, value))
        return value if is_same else items

    return convert_items


def _record_conversion(cls: type[attrs.AttrsInstance]) -> Conversion | None:
    hints = get_type_hints(cls, include_extras=True)
    found = ((field.name, _conversion_of(hints[field.name])) for field in attrs.fields(cls))
    conversions = [(name, convert) for name, convert in found if convert is not None]

    def convert_record(record: Any) -> Any:
        if not isinstance(record, cls):
            return record
        changes = {
            name: converted
            for name, convert in conversions
            if (converted := convert(value := getattr(record, name))) is not value
        }
        return attrs.evolve(cast("Any", record), **changes) if changes else record

    return convert_record if conversions else None


# Checks by type ---------------------------------------------------------------------------


def _argument_check(name: str, hint: Any) -> Check | None:
    if hint is int and name in _NAMED_BOUNDS:
        return _leaf_check(lambda value: check_integer(value, _NAMED_BOUNDS[name]))
    if isinstance(hint, type) and attrs.has(hint) and hint.__module__ in INPUT_MODULES:
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
    if origin in _COLLECTIONS:
        return _collection_check(origin, get_args(hint)[0])
    if not isinstance(hint, type):
        return None
    if attrs.has(hint):
        return _record_check(hint) if hint.__module__ in INPUT_MODULES else _instance_check(hint)
    if issubclass(hint, StrEnum):
        return _choice_check(hint)
    return _PLAIN_CHECKS.get(hint)


INPUT_MODULES = frozenset(
    {
        "staffbooking_core.inputs",
        "staffbooking_core.operator_inputs",
        "staffbooking_core.usecases.accounts.people",
        "staffbooking_core.usecases.companions.hours",
    }
)
"""The modules whose records are inputs, of which each field is checked."""


@cache
def _record_check(cls: type[attrs.AttrsInstance]) -> Check:
    hints = get_type_hints(cls, include_extras=True)
    found = ((field.name, _check_of(hints[field.name])) for field in attrs.fields(cls))
    checks = [(name, check) for name, check in found if check is not None]

    def check_record(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, cls):
            faults.append(FieldError(path, f"must be of type {cls.__name__}"))
            return
        prefix = f"{path}." if path else ""
        for name, check in checks:
            check(prefix + name, getattr(value, name), faults)

    return check_record


def _instance_check(cls: type) -> Check:
    def check_instance(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, cls):
            faults.append(FieldError(path, f"must be of type {cls.__name__}"))

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


_COLLECTIONS: Mapping[Any, tuple[type[Collection[Any]], str]] = {
    frozenset: (Set, "must be a set"),
    Sequence: (Sequence, "must be a list"),
    Collection: (Collection, "must be a list"),
}
"""What a collection must be, by the type of its annotation, and the message."""


def _collection_check(origin: Any, element: Any) -> Check:
    kind, message = _COLLECTIONS[origin]
    check_item = _PLAIN_CHECKS.get(element)

    def check_collection(path: str, value: Any, faults: list[FieldError]) -> None:
        if not isinstance(value, kind) or isinstance(value, str | bytes):
            faults.append(FieldError(path, message))
            return
        if check_item is not None:
            for index, item in enumerate(value):
                check_item(f"{path}.{index}", item, faults)

    return check_collection


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


def _check_duration(value: Any) -> None:
    if not isinstance(value, timedelta):
        raise ValueError("must be a duration")


_PLAIN_CHECKS: Mapping[type, Check] = {
    bool: _leaf_check(_check_flag),
    int: _leaf_check(lambda value: check_integer(value, _STORED_INTEGER)),
    str: _leaf_check(lambda value: check_text(value, _PLAIN_TEXT)),
    bytes: _leaf_check(_check_bytes),
    date: _leaf_check(check_date),
    datetime: _leaf_check(_check_aware_datetime),
    timedelta: _leaf_check(_check_duration),
}
