"""Bounds of input fields: declared as annotations, checked by `value_checks`, shown in the
documents."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

from attrs import AttrsInstance, fields, frozen

__all__ = ["Unset"]

MAX_ID = 2**63 - 1


class AllowedCharacters(Enum):
    """Which characters a text may hold besides printable characters of all scripts, emoji, joiners
    and direction marks (U+200E, U+200F, U+061C). NUL and lone surrogates are never allowed."""

    LINE = "line"
    """None: the text stays on one line and can't change how surrounding text is displayed."""
    LINES = "lines"
    """Tabs and line breaks: U+000A, also after U+000D, and U+2028 and U+2029."""
    CHAT = "chat"
    """As LINES, and bidi embeddings and isolates (U+202A to U+202C, U+2066 to U+2069): phones
    insert them around names and numbers, and a message is displayed on its own. Overrides
    (U+202D, U+202E) are not allowed: they display characters in another order than the stored one,
    which the content filter judges."""
    OPAQUE = "opaque"
    """Any: the text is compared and never displayed."""


@frozen
class TextBounds:
    """Length in code points, form and characters of a text. With `min` above 0 the text must not
    be blank, unless it is opaque: a password may be."""

    max: int = 100
    min: int = 1
    form: str | None = None
    """`email`, `timezone`, `country` (ISO 3166), `clock` (HH:MM), `clock_end` (up to 24:00),
    `image` (a relative path), `listed` (an element of a comma-separated list, so without commas)
    or `webhook` (a receiver's URL, including those that only a sandbox allows)."""
    characters: AllowedCharacters = AllowedCharacters.LINE


@frozen
class IntegerBounds:
    """A JSON integer in this range; `"4"`, `4.0` and `true` are rejected."""

    ge: int
    le: int


@frozen
class AmountBounds:
    """An amount of money as a finite JSON number; the currency's decimals are checked later."""

    gt: Decimal = Decimal(0)
    le: Decimal = Decimal(1_000_000)


@frozen
class ListBounds:
    """The number of elements of a list. With `unique`, elements must be distinct, and names must
    differ in more than letter case."""

    max: int = 50
    min: int = 0
    unique: bool = True


@frozen
class UtcInstant:
    """An ISO 8601 instant with Z or an offset; the value is in UTC with Z."""


class Unset(Enum):
    """The value of a field that is absent from a change: the stored value stays. If the field may
    also be None, null clears it."""

    UNSET = "as is"


def provided_fields(change: AttrsInstance) -> dict[str, Any]:
    """The fields that a change contains, by name."""
    every = ((field.name, getattr(change, field.name)) for field in fields(type(change)))
    return {name: value for name, value in every if value is not Unset.UNSET}


_Names: TypeAlias = str | tuple[str, ...] | Unset
"""The value of a field that has a name or several."""


def trimmed(value: _Names) -> _Names:
    """A name, or each of several, without surrounding blanks; other values as they are."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, tuple):
        return tuple(each.strip() if isinstance(each, str) else each for each in value)
    return value
