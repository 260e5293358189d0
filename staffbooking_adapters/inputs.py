"""From outside to the inputs of the core: strict, and with every fault at once (CONTRACT 1).

`structure` takes what a JSON body, or a row of a file, came as; `structure_query` takes the
texts of a query. Both enforce the bounds that the class declares: MissingField lists all
that is absent or null, InvalidField all that is wrong.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
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
from staffbooking_core.domain.companions.companion import fold
from staffbooking_core.domain.companions.portfolio import judge_path
from staffbooking_core.domain.webhooks.url_safety import judge_url
from staffbooking_core.errors import Fault, InvalidField, MissingField
from staffbooking_core.inputs import Amount, Characters, Hours, Instant, Items, Left, Text, Whole

T = TypeVar("T")

Hook = Callable[[Any, Any], Any]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,39})")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_DIGITS = 20


@frozen
class Price:
    """A decimal number of money in a query, from 0 on; finer than the currency is fine."""

    le: Decimal = Decimal(1_000_000_000)


def structure(cls: type[T], given: Mapping[str, Any]) -> T:
    """An input made of a JSON object. Unknown fields are ignored; null is absent, unless the
    field says otherwise (`Left`)."""
    made, found = _try(_converter(False), cls, given)
    return _judged(made, found)


def structure_query(cls: type[T], given: Mapping[str, str], broken: Mapping[str, str]) -> T:
    """An input made of the texts of a query, in which numbers are plain ASCII digits, and flags
    `true` or `false`.

    `broken` tells of fields whose text could not be read, and why; they are in `given` too.
    """
    made, found = _try(_converter(True), cls, given)
    return _judged(made, {**found, **broken})


def _try(
    converter: Converter, cls: type[T], given: Mapping[str, Any]
) -> tuple[T | None, dict[str, str | None]]:
    """The input, or each faulty field with what is wrong; None says that it is missing."""
    try:
        return converter.structure(given, cls), {}
    except (ClassValidationError, IterableValidationError) as error:
        causes = _faults(error, "")
        return None, {
            path: None if isinstance(cause, KeyError) else str(cause) for path, cause in causes
        }


def _judged(made: T | None, found: Mapping[str, str | None]) -> T:
    if missing := [path for path, message in found.items() if message is None]:
        raise MissingField(Fault(path, "is required") for path in missing)
    if made is None or found:
        raise InvalidField(Fault(path, message or "") for path, message in found.items())
    return made


def _faults(error: BaseException, path: str) -> Iterator[tuple[str, BaseException]]:
    """Each fault with its dotted path, in the order of the fields."""
    if isinstance(error, ClassValidationError):
        for cause, note in error.group_exceptions()[0]:
            yield from _faults(cause, f"{path}.{note.name}" if path else note.name)
    elif isinstance(error, IterableValidationError):
        for cause, place in error.group_exceptions()[0]:
            yield from _faults(cause, f"{path}.{place.index}")
    else:
        yield path, error


@lru_cache(maxsize=2)
def _converter(of_texts: bool) -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _of_class(converter, cls))
    converter.register_structure_hook(StrEnum, _choice)
    converter.register_structure_hook(bool, _flag_of_text if of_texts else _flag)
    converter.register_structure_hook(date, _date)
    converter.register_structure_hook_factory(
        lambda kind: Left in get_args(kind), lambda kind: _unless_left(converter, kind)
    )
    converter.register_structure_hook_factory(
        lambda kind: bool(getattr(kind, "__metadata__", ())),
        lambda kind: _bounded(converter, kind, of_texts),
    )
    return converter


def _of_class(converter: Converter, cls: Any) -> Hook:
    make: Hook = make_dict_structure_fn(cls, converter, _cattrs_detailed_validation=True)
    if issubclass(cls, Hours):
        make = _remembered(make)
    fields = attrs.fields(attrs.resolve_types(cls))
    known = {field.name for field in fields}
    emptied = {field.name for field in fields if _says_null(field)}

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


def _remembered(make: Hook) -> Hook:
    """The same few hours are named again and again, in imports a million times. What is remembered
    was found right, and by the types too: true is not 1."""

    @lru_cache(maxsize=4096, typed=True)
    def of_said(kind: Any, /, **said: Any) -> Any:
        return make(said, kind)

    def of_hours(said: Mapping[str, Any], kind: Any) -> Any:
        try:
            return of_said(kind, **said)
        except TypeError:  # A list or an object in place of a text.
            return make(said, kind)

    return of_hours


def _says_null(field: attrs.Attribute[Any]) -> bool:
    """Whether null is a value of a field, and no absence."""
    return isinstance(field.default, Left) and type(None) in get_args(field.type)


def _unless_left(converter: Converter, kind: Any) -> Hook:
    """What such a field holds once something is said of it: whatever else it may be."""
    said = reduce(or_, (one for one in get_args(kind) if one is not Left))
    of_said = converter.get_structure_hook(said)
    return lambda given, _: of_said(given, said)


def _choice(given: Any, kind: type[StrEnum]) -> StrEnum:
    members = kind._value2member_map_
    if not isinstance(given, str) or given not in members:
        raise ValueError(f"must be one of {', '.join(kind)}")
    return kind(given)


def _flag(given: Any, _: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError("must be true or false")
    return given


def _flag_of_text(given: Any, kind: Any) -> bool:
    return _flag(_FLAGS.get(given), kind)


_FLAGS = {"true": True, "false": False}


def _date(given: Any, _: Any) -> date:
    """A day that calendars know: arithmetic on any other might overflow."""
    day = _parsed(date.fromisoformat, _DATE, given)
    if day is None:
        raise ValueError("must be a date of the form YYYY-MM-DD")
    if not availability.FIRST_DAY <= day <= availability.LAST_DAY:
        raise ValueError(f"must lie between {availability.FIRST_DAY} and {availability.LAST_DAY}")
    return day


def _parsed(parse: Callable[[str], T], form: re.Pattern[str], given: Any) -> T | None:
    """What a text of that form means; None for another form, and for what means nothing."""
    if not isinstance(given, str) or not form.fullmatch(given):
        return None
    try:
        return parse(given)
    except ValueError:
        return None


# Bounds ---------------------------------------------------------------------------------


def _bounded(converter: Converter, kind: Any, of_texts: bool) -> Hook:
    inner, bound = get_args(kind)[:2]
    if isinstance(bound, Items):
        elements = get_args(inner)[0]
        of_list = converter.get_structure_hook(list[elements])  # type: ignore[valid-type]
        return lambda given, _: _items(given, bound, of_list)
    check = _CHECKS[type(bound)]
    if of_texts and (numeric := _NUMERIC.get(type(bound))):
        form, make = numeric
        return lambda given, _: check(make(given) if form.fullmatch(given) else given, bound)
    return lambda given, _: check(given, bound)


def _text(given: Any, bound: Text) -> str:
    if not isinstance(given, str):
        raise ValueError("must be a text")
    if not given.isprintable():  # Whatever is, any text may hold; and most texts are, whole.
        _check_characters(given, bound.characters)
    if bound.form is not None:
        _FORMS[bound.form](given)
    if not bound.min <= len(given) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} characters")
    if bound.min and _is_blank(given):
        raise ValueError("must not be blank")
    return given


def _is_blank(text: str) -> bool:
    """Whether nothing of a text would be seen."""
    if text.isascii():
        return not text.strip()
    return all(unicodedata.category(char) in _UNSEEN or char in _BLANKS for char in text)


_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Not Cn: an emoji may be younger than the tables of Unicode here."""
_SELECTORS = map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(_SELECTORS)
"""Letters, marks and a sign by their categories, but nothing to see: fillers, a joiner, vowels
that are not written, the empty pattern of Braille, selectors of variants of what is before them."""


def _check_characters(text: str, allowed: Characters) -> None:
    if allowed in _OF_LINES:
        text = text.replace("\r\n", "\n")
    if text.isascii() and not text.encode().translate(None, _PLAIN[allowed]):
        return
    if found := _REFUSED[allowed].search(text):
        raise ValueError(f"must not hold the character U+{ord(found[0]):04X}")


_OF_LINES = (Characters.LINES, Characters.CHAT)
_REFUSED = {
    Characters.LINE: re.compile(
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    ),
    Characters.LINES: re.compile(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    ),
    Characters.CHAT: re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]"),
    Characters.OPAQUE: re.compile(r"[\x00\ud800-\udfff]"),
}
"""Control characters, bidi controls and surrogates, less what each kind of text may hold."""
_PLAIN = {
    allowed: bytes(code for code in range(128) if not refused.match(chr(code)))
    for allowed, refused in _REFUSED.items()
}
"""What is left of ASCII: with all of it taken out of a text at once, nothing must remain."""


def _email(text: str) -> None:
    if not is_email(text):
        raise ValueError("must be an e-mail address")


def _timezone(text: str) -> None:
    if not availability.is_timezone(text):
        raise ValueError("must be the IANA name of a timezone")


def _country(text: str) -> None:
    if not (len(text) == 2 and text.isascii() and text.isalpha()):
        raise ValueError("must be the two letters of a country (ISO 3166)")


def _clock(text: str) -> None:
    try:
        availability.parse_hhmm(text)
    except ValueError:
        raise ValueError("must be a time of the form HH:MM, 24-hour") from None


def _clock_end(text: str) -> None:
    try:
        availability.parse_hhmm(text, ending=True)
    except ValueError:
        raise ValueError("must be a time of the form HH:MM, at most 24:00") from None


def _listed(text: str) -> None:
    if "," in text:
        raise ValueError("must not hold a comma: commas separate names in what is published")


_FORMS: dict[str, Callable[[str], object]] = {
    "email": _email,
    "timezone": _timezone,
    "country": _country,
    "clock": _clock,
    "clock_end": _clock_end,
    "image": judge_path,
    "listed": _listed,
    "webhook": lambda text: judge_url(text, insecure=True),
}


def _whole(given: Any, bound: Whole) -> int:
    if type(given) is not int:
        raise ValueError("must be an integer")
    if not bound.ge <= given <= bound.le:
        raise ValueError(f"must be from {bound.ge} to {bound.le}")
    return given


def _amount(given: Any, bound: Amount) -> Decimal:
    if type(given) not in (int, Decimal) or not (number := Decimal(given)).is_finite():
        raise ValueError("must be a number")
    if not bound.gt < number <= bound.le:
        raise ValueError(f"must be above {bound.gt} and at most {bound.le}")
    # Whatever is longer or finer is no money, and arithmetic might round it.
    if len(number.as_tuple().digits) > _DIGITS or number.adjusted() < -_DIGITS:
        raise ValueError(f"must have at most {_DIGITS} digits")
    return number


def _price(given: Any, bound: Price) -> Decimal:
    if not isinstance(given, Decimal):
        raise ValueError("must be a decimal number")
    if not 0 <= given <= bound.le:
        raise ValueError(f"must be from 0 to {bound.le}")
    return given


def _instant(given: Any, _: Instant) -> str:
    """Of a day that calendars know: databases take the last microsecond of 9999 for no end."""
    instant = _parsed(datetime.fromisoformat, _INSTANT, given)
    if instant is None:
        raise ValueError("must be an instant such as 2030-01-31T09:00:00Z")
    if not availability.FIRST_DAY <= instant.date() <= availability.LAST_DAY:
        raise ValueError(f"must lie between {availability.FIRST_DAY} and {availability.LAST_DAY}")
    return str(given)


def _items(given: Any, bound: Items, of_list: Hook) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise ValueError("must be a list")
    if not bound.min <= len(given) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} elements")
    items = cast("list[Any]", of_list(given, None))
    if bound.unique and len(set(map(_told_apart, items))) < len(items):
        raise ValueError("must not repeat an element")
    return tuple(items)


def _told_apart(item: Any) -> Any:
    """What elements differ by: two names that differ in case alone are one."""
    return fold(item) if isinstance(item, str) else item


_CHECKS: dict[type, Hook] = {
    Text: _text,
    Whole: _whole,
    Amount: _amount,
    Price: _price,
    Instant: _instant,
}
"""How each bound is enforced: the value comes back, or a ValueError says what is wrong."""

_NUMERIC: dict[type, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    Whole: (_WHOLE, int),
    Price: (_DECIMAL, Decimal),
}
"""Numbers of a query: a text of another form stays a text, which then is no number."""
