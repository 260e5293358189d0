"""Validation of inputs by the bounds that they declare, with every fault at once.

`staffbooking_core.inputs` declares the bounds. Use-cases check their arguments here, whoever calls
them; the strict converter of the adapters uses the same checks for JSON and files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
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

from staffbooking_core.domain.accounts.users import is_email
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.companion import normalize_text
from staffbooking_core.domain.companions.portfolio import validate_image_path
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import FieldError, InvalidField
from staffbooking_core.inputs import (
    MAX_ID,
    AllowedCharacters,
    AmountBounds,
    IntegerBounds,
    ListBounds,
    TextBounds,
    Unset,
    UtcInstant,
)

P = ParamSpec("P")
R = TypeVar("R")

MAX_PAGE = 100_000
_MAX_DIGITS = 20
_INSTANT_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
OUTSIDE_CALENDAR = (
    f"must lie between {availability.MIN_CALENDAR_DATE} and {availability.MAX_CALENDAR_DATE}"
)

# Values ----------------------------------------------------------------------------------
# Each check returns the value, or raises ValueError with the message of the field.


def check_text(value: Any, bound: TextBounds) -> str:
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


def check_integer(value: Any, bound: IntegerBounds) -> int:
    if type(value) is not int:
        raise ValueError("must be an integer")
    if not bound.ge <= value <= bound.le:
        raise ValueError(f"must be from {bound.ge} to {bound.le}")
    return value


def check_amount(value: Any, bound: AmountBounds) -> Decimal:
    if type(value) not in (int, Decimal) or not (number := Decimal(value)).is_finite():
        raise ValueError("must be a number")
    if not bound.gt < number <= bound.le:
        raise ValueError(f"must be above {bound.gt} and at most {bound.le}")
    # Arithmetic might round longer numbers.
    if len(number.as_tuple().digits) > _MAX_DIGITS or number.adjusted() < -_MAX_DIGITS:
        raise ValueError(f"must have at most {_MAX_DIGITS} digits")
    return number


def check_instant(value: Any, _: UtcInstant) -> str:
    """Check an instant, within the calendar's date range: databases store the last microsecond of
    9999 as no end."""
    if (instant := _parse_instant(value)) is None:
        raise ValueError("must be an instant such as 2030-01-31T09:00:00Z")
    if not availability.MIN_CALENDAR_DATE <= instant.date() <= availability.MAX_CALENDAR_DATE:
        raise ValueError(OUTSIDE_CALENDAR)
    return str(value)


def _parse_instant(value: Any) -> datetime | None:
    if not isinstance(value, str) or not _INSTANT_PATTERN.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def uniqueness_key(item: Any) -> Any:
    """The value by which elements are compared: names ignore letter case."""
    return normalize_text(item) if isinstance(item, str) else item


def check_date(value: Any) -> date:
    """Check a date, within the calendar's range: arithmetic on others might overflow."""
    if type(value) is not date:
        raise ValueError("must be a date of the form YYYY-MM-DD")
    if not availability.MIN_CALENDAR_DATE <= value <= availability.MAX_CALENDAR_DATE:
        raise ValueError(OUTSIDE_CALENDAR)
    return value


BOUND_CHECKS: Mapping[type, Callable[[Any, Any], Any]] = {
    TextBounds: check_text,
    IntegerBounds: check_integer,
    AmountBounds: check_amount,
    UtcInstant: check_instant,
}
"""The check of each bound of a single value."""

# Arguments -------------------------------------------------------------------------------

Check = Callable[[str, Any, list[FieldError]], None]
"""Adds the faults of a value to the list; the first argument is the field's path."""

_PLAIN_TEXT = TextBounds(100_000, 0, characters=AllowedCharacters.OPAQUE)
_STORED_INTEGER = IntegerBounds(-MAX_ID - 1, MAX_ID)
_NAMED_BOUNDS = {
    "page": IntegerBounds(1, MAX_PAGE),
    "limit": IntegerBounds(1, MAX_PAGE),
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
            raise InvalidField(faults)

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


_INPUTS = Unset.__module__


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
