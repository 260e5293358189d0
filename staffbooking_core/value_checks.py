"""Checks of single values against the bounds of `staffbooking_core.inputs`.

Each returns the value, or raises ValueError with the message of the field.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from staffbooking_core.bounds import (
    AllowedCharacters,
    AmountBounds,
    IntegerBounds,
    TextBounds,
    UtcInstant,
)
from staffbooking_core.domain.accounts.users import is_email
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.companion import normalize_text
from staffbooking_core.domain.companions.portfolio import validate_image_path
from staffbooking_core.domain.shared.countries import country_codes
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url

_MAX_DIGITS = 20
_INSTANT_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
"""Up to nanoseconds, which other languages write; `fromisoformat` cuts them to microseconds."""
_OUTSIDE_CALENDAR = (
    f"must lie between {availability.MIN_CALENDAR_DATE} and {availability.MAX_CALENDAR_DATE}"
)


def check_text(value: Any, bound: TextBounds) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    if not value.isprintable():  # Fast path: printable characters are always allowed.
        _check_characters(value, bound.characters)
    if bound.form is not None:
        _FORM_CHECKS[bound.form](value)
    if bound.min and bound.characters is not AllowedCharacters.OPAQUE and _is_blank(value):
        raise ValueError("must not be blank")
    if not bound.min <= len(value) <= bound.max:
        raise ValueError(f"must have {bound.min} to {bound.max} characters")
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


FORBIDDEN_CHARACTER = "must not hold the character "
"""What the message of a forbidden character begins with; the character follows."""


def _check_characters(text: str, allowed: AllowedCharacters) -> None:
    if allowed in _MULTILINE:
        text = text.replace("\r\n", "\n")
    if text.isascii() and not text.encode().translate(None, _ALLOWED_ASCII[allowed]):
        return
    if found := _FORBIDDEN_CHARACTERS[allowed].search(text):
        raise ValueError(f"{FORBIDDEN_CHARACTER}U+{ord(found[0]):04X}")


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
    if not (text.isascii() and text.upper() in country_codes()):
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
        raise ValueError(_OUTSIDE_CALENDAR)
    return str(value)


def _parse_instant(value: Any) -> datetime | None:
    if not isinstance(value, str) or not _INSTANT_PATTERN.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def uniqueness_key(item: Any) -> Any:
    """The value by which elements are compared: names ignore letter case and surrounding blanks."""
    return normalize_text(item.strip()) if isinstance(item, str) else item


def check_date(value: Any) -> date:
    """Check a date, within the calendar's range: arithmetic on others might overflow."""
    day = check_is_date(value)
    if not availability.MIN_CALENDAR_DATE <= day <= availability.MAX_CALENDAR_DATE:
        raise ValueError(_OUTSIDE_CALENDAR)
    return day


def check_is_date(value: Any) -> date:
    """Check a date of any year."""
    if type(value) is not date:
        raise ValueError("must be a date of the form YYYY-MM-DD")
    return value


BOUND_CHECKS: Mapping[type, Callable[[Any, Any], Any]] = {
    TextBounds: check_text,
    IntegerBounds: check_integer,
    AmountBounds: check_amount,
    UtcInstant: check_instant,
}
"""The check of each bound of a single value."""
