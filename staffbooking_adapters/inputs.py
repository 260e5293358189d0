"""Strict conversion of external data to the core's inputs, reporting all errors (CONTRACT 1).

`structure` converts a JSON body or a row of a file; `structure_query` converts query parameters.
Both enforce the bounds that the class declares: MissingField lists every absent or null field,
InvalidField every invalid one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache, reduce
from operator import or_
from typing import Any, TypeVar, cast, get_args

import attrs
from attrs import frozen
from cattrs import Converter
from cattrs.errors import ClassValidationError, IterableValidationError
from cattrs.gen import make_dict_structure_fn

from staffbooking_core.domain.accounts.users import is_email
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.companion import normalize_text
from staffbooking_core.domain.companions.portfolio import validate_image_path
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import FieldError, InvalidField, MissingField
from staffbooking_core.inputs import (
    AllowedCharacters,
    AmountBounds,
    IntegerBounds,
    ListBounds,
    SlotHours,
    TextBounds,
    Unset,
    UtcInstant,
)
from staffbooking_core.representations.json_types import format_instant

T = TypeVar("T")

StructureHook = Callable[[Any, Any], Any]

_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_INTEGER_PATTERN = re.compile(r"-?(0|[1-9][0-9]{0,39})")
_DECIMAL_PATTERN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_MAX_DIGITS = 20
_OUTSIDE_CALENDAR = (
    f"must lie between {availability.MIN_CALENDAR_DATE} and {availability.MAX_CALENDAR_DATE}"
)


@frozen
class QueryPriceBound:
    """An amount in a query, from 0 to `le`; it may have more decimals than the currency."""

    le: Decimal = Decimal(1_000_000_000)


def structure(cls: type[T], data: Mapping[str, Any]) -> T:
    """Convert a JSON object to an input. Unknown fields are ignored; null counts as absent, except
    for an `Unset` field that may be None.

    Raises MissingField or InvalidField.
    """
    made, found = _structure_or_errors(_converter(False), cls, data)
    return _checked_result(made, found)


def structure_query(cls: type[T], data: Mapping[str, str], unreadable: Mapping[str, str]) -> T:
    """Convert query parameters to an input. Numbers are plain ASCII digits, flags are `true` or
    `false`.

    `unreadable` maps fields whose text could not be decoded to the reason; `data` contains them
    too. Raises MissingField or InvalidField.
    """
    made, found = _structure_or_errors(_converter(True), cls, data)
    return _checked_result(made, {**found, **unreadable})


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
        raise MissingField(FieldError(path, "is required") for path in missing)
    if result is None or errors:
        raise InvalidField(FieldError(path, message or "") for path, message in errors.items())
    return result


def _iterate_errors(error: BaseException, path: str) -> Iterator[tuple[str, BaseException]]:
    """Each error with its field's dotted path, in the order of the fields."""
    if isinstance(error, ClassValidationError):
        for cause, note in error.group_exceptions()[0]:
            yield from _iterate_errors(cause, f"{path}.{note.name}" if path else note.name)
    elif isinstance(error, IterableValidationError):
        for cause, place in error.group_exceptions()[0]:
            yield from _iterate_errors(cause, f"{path}.{place.index}")
    else:
        yield path, error


@lru_cache(maxsize=2)
def _converter(from_query: bool) -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _class_hook(converter, cls))
    converter.register_structure_hook(StrEnum, _structure_choice)
    converter.register_structure_hook(bool, _structure_flag_text if from_query else _structure_flag)
    converter.register_structure_hook(date, _structure_date)
    converter.register_structure_hook_factory(
        lambda kind: Unset in get_args(kind), lambda kind: _optional_hook(converter, kind)
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
    emptied = {field.name for field in fields if _accepts_null(field)}

    def structure_class(given: Any, kind: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("must be an object")
        said = {
            name: value
            for name, value in given.items()
            if name in known and (value is not None or name in emptied)
        }
        return make(said, kind)

    return structure_class


def _cached_hook(make: StructureHook) -> StructureHook:
    """Cache conversions of hours: imports repeat the same few values many times. Only valid values
    are cached, keyed by type too: true is not 1."""

    @lru_cache(maxsize=4096, typed=True)
    def of_said(kind: Any, /, **said: Any) -> Any:
        return make(said, kind)

    def of_hours(said: Mapping[str, Any], kind: Any) -> Any:
        try:
            return of_said(kind, **said)
        except TypeError:  # A list or an object in place of a text.
            return make(said, kind)

    return of_hours


def _accepts_null(field: attrs.Attribute[Any]) -> bool:
    """Whether null is a value of the field instead of an absence."""
    return isinstance(field.default, Unset) and type(None) in get_args(field.type)


def _optional_hook(converter: Converter, kind: Any) -> StructureHook:
    """The hook of an `Unset` field that is present: that of its other types."""
    said = reduce(or_, (one for one in get_args(kind) if one is not Unset))
    of_said = converter.get_structure_hook(said)
    return lambda given, _: of_said(given, said)


def _structure_choice(value: Any, kind: type[StrEnum]) -> StrEnum:
    members = kind._value2member_map_
    if not isinstance(value, str) or value not in members:
        raise ValueError(f"must be one of {', '.join(kind)}")
    return kind(value)


def _structure_flag(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _structure_flag_text(value: Any, kind: Any) -> bool:
    return _structure_flag(_FLAGS.get(value), kind)


_FLAGS = {"true": True, "false": False}


def _structure_date(value: Any, _: Any) -> date:
    """Parse a date within the calendar's range: arithmetic on others might overflow."""
    day = _parse_or_none(date.fromisoformat, _DATE_PATTERN, value)
    if day is None:
        raise ValueError("must be a date of the form YYYY-MM-DD")
    if not availability.MIN_CALENDAR_DATE <= day <= availability.MAX_CALENDAR_DATE:
        raise ValueError(_OUTSIDE_CALENDAR)
    return day


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
        of_list = converter.get_structure_hook(list[elements])  # type: ignore[valid-type]
        return lambda given, _: _check_items(given, bound, of_list)
    check = _BOUND_CHECKS[type(bound)]
    if from_query and (numeric := _QUERY_NUMBERS.get(type(bound))):
        form, make = numeric
        return lambda given, _: check(make(given) if form.fullmatch(given) else given, bound)
    return lambda given, _: check(given, bound)


def _check_text(value: Any, bound: TextBounds) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    if not value.isprintable():  # Fast path: printable characters are always allowed.
        _check_characters(value, bound.characters)
    if bound.form is not None:
        _FORM_CHECKS[bound.form](value)
    if not bound.min <= len(value) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} characters")
    if bound.min and _is_blank(value):
        raise ValueError("must not be blank")
    return value


def _is_blank(text: str) -> bool:
    """Whether a text has no visible character."""
    if text.isascii():
        return not text.strip()
    return all(
        unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _BLANK_CHARACTERS
        for char in text
    )


_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Without Cn (unassigned): an emoji may be newer than Python's Unicode tables."""
_VARIATION_SELECTORS = map(
    chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)
_BLANK_CHARACTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    _VARIATION_SELECTORS
)
"""Invisible characters of visible categories: fillers, a joiner, inherent vowels, the blank Braille
pattern, variation selectors."""


def _check_characters(text: str, allowed: AllowedCharacters) -> None:
    if allowed in _MULTILINE:
        text = text.replace("\r\n", "\n")
    if text.isascii() and not text.encode().translate(None, _ALLOWED_ASCII[allowed]):
        return
    if found := _FORBIDDEN_CHARACTERS[allowed].search(text):
        raise ValueError(f"must not hold the character U+{ord(found[0]):04X}")


_MULTILINE = (AllowedCharacters.LINES, AllowedCharacters.CHAT)
_FORBIDDEN_CHARACTERS = {
    AllowedCharacters.LINE: re.compile(
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    ),
    AllowedCharacters.LINES: re.compile(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    ),
    AllowedCharacters.CHAT: re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]"),
    AllowedCharacters.OPAQUE: re.compile(r"[\x00\ud800-\udfff]"),
}
"""Control characters, bidi controls and surrogates, except those that the kind of text allows."""
_ALLOWED_ASCII = {
    allowed: bytes(code for code in range(128) if not refused.match(chr(code)))
    for allowed, refused in _FORBIDDEN_CHARACTERS.items()
}
"""The allowed ASCII characters: deleting them all from a valid ASCII text leaves nothing."""


def _check_email(text: str) -> None:
    if not is_email(text):
        raise ValueError("must be an e-mail address")


def _check_timezone(text: str) -> None:
    if not availability.is_timezone(text):
        raise ValueError("must be the IANA name of a timezone")


def _check_country(text: str) -> None:
    if not (len(text) == 2 and text.isascii() and text.isalpha()):
        raise ValueError("must be the two letters of a country (ISO 3166)")


def _check_clock(text: str) -> None:
    try:
        availability.parse_hhmm(text)
    except ValueError:
        raise ValueError("must be a time of the form HH:MM, 24-hour") from None


def _check_clock_end(text: str) -> None:
    try:
        availability.parse_hhmm(text, ending=True)
    except ValueError:
        raise ValueError("must be a time of the form HH:MM, at most 24:00") from None


def _check_no_comma(text: str) -> None:
    if "," in text:
        raise ValueError("must not contain a comma: published lists are comma-separated")


_FORM_CHECKS: dict[str, Callable[[str], object]] = {
    "email": _check_email,
    "timezone": _check_timezone,
    "country": _check_country,
    "clock": _check_clock,
    "clock_end": _check_clock_end,
    "image": validate_image_path,
    "listed": _check_no_comma,
    "webhook": lambda text: validate_webhook_url(text, allow_insecure=True),
}


def _check_integer(value: Any, bound: IntegerBounds) -> int:
    if type(value) is not int:
        raise ValueError("must be an integer")
    if not bound.ge <= value <= bound.le:
        raise ValueError(f"must be from {bound.ge} to {bound.le}")
    return value


def _check_amount(value: Any, bound: AmountBounds) -> Decimal:
    if type(value) not in (int, Decimal) or not (number := Decimal(value)).is_finite():
        raise ValueError("must be a number")
    if not bound.gt < number <= bound.le:
        raise ValueError(f"must be above {bound.gt} and at most {bound.le}")
    # Arithmetic might round longer numbers.
    if len(number.as_tuple().digits) > _MAX_DIGITS or number.adjusted() < -_MAX_DIGITS:
        raise ValueError(f"must have at most {_MAX_DIGITS} digits")
    return number


def _check_price(value: Any, bound: QueryPriceBound) -> Decimal:
    if not isinstance(value, Decimal):
        raise ValueError("must be a decimal number")
    if not 0 <= value <= bound.le:
        raise ValueError(f"must be from 0 to {bound.le}")
    return value


def _check_instant(value: Any, _: UtcInstant) -> str:
    """Check an instant, and write it in UTC with Z; within the calendar's date range: databases
    store the last microsecond of 9999 as no end."""
    instant = _parse_or_none(_parse_utc, _INSTANT_PATTERN, value)
    if instant is None:
        raise ValueError("must be an instant such as 2030-01-31T09:00:00Z")
    if not availability.MIN_CALENDAR_DATE <= instant.date() <= availability.MAX_CALENDAR_DATE:
        raise ValueError(_OUTSIDE_CALENDAR)
    return format_instant(instant)


def _parse_utc(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        raise ValueError("before the first or after the last year") from None


def _check_items(value: Any, bound: ListBounds, of_list: StructureHook) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    if not bound.min <= len(value) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} elements")
    items = cast("list[Any]", of_list(value, None))
    if bound.unique and len(set(map(_uniqueness_key, items))) < len(items):
        raise ValueError("must not repeat an element")
    return tuple(items)


def _uniqueness_key(item: Any) -> Any:
    """The value by which elements are compared: names ignore letter case."""
    return normalize_text(item) if isinstance(item, str) else item


_BOUND_CHECKS: dict[type, StructureHook] = {
    TextBounds: _check_text,
    IntegerBounds: _check_integer,
    AmountBounds: _check_amount,
    QueryPriceBound: _check_price,
    UtcInstant: _check_instant,
}
"""The check of each bound: returns the value or raises ValueError with the message."""

_QUERY_NUMBERS: dict[type, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    IntegerBounds: (_INTEGER_PATTERN, int),
    QueryPriceBound: (_DECIMAL_PATTERN, Decimal),
}
"""How numbers of a query are parsed; a text of another form is passed on as text and rejected."""
