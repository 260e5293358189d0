# ruff: noqa: RUF001 - this module is about lookalike characters

"""Normalizes text to what a reader sees, whatever characters it is written in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from attrs import frozen

_RIGHT_TO_LEFT_OVERRIDE = re.compile("\u202e([^\u202c\n]+)")
"""Text after a right-to-left override, which is displayed in reverse."""

_EXPANDING_CHARACTERS = dict.fromkeys([0xFDFA, 0xFDFB, *range(0x3300, 0x3358)], " ")
"""Characters that normalization expands to words or sentences, up to 18 characters."""

_INVISIBLE_CHARACTERS = frozenset("\u115f\u1160\u2800\u3164")
"""Letters and symbols without a visible glyph."""

_KEPT_MARKS = frozenset("\u3099\u309a")
"""Combining marks that turn a Japanese letter into another."""

_EQUIVALENTS = {
    "‘": "'",
    "’": "'",
    "`": "'",
    "´": "'",
    "¡": "!",
    "·": ".",
    "•": ".",
    "∙": ".",
    "。": ".",
    "‐": "-",
    "‑": "-",
    "‒": "-",
    "–": "-",
    "—": "-",
    "―": "-",
    "−": "-",
    "⁄": "/",
    "∕": "/",
    "ɑ": "a",
    "Ɛ": "e",
    "ʊ": "u",
    "🔟": "10",
}

_LATIN_NAME_PATTERN = re.compile(
    r"(?:LATIN|(?:CROSSED )?NEGATIVE (?:CIRCLED|SQUARED) LATIN|REGIONAL INDICATOR SYMBOL)"
    r"(?: SMALL| CAPITAL)? LETTER(?: SMALL CAPITAL)?(?: (?:DOTLESS|SCRIPT|LONG|TURNED|OPEN))?"
    r" ([A-Z]{1,2})(?: BAR| WITH .*)?"
)
"""Extracts the base letter from the Unicode name of a Latin variant: strokes, hooks, small
capitals, boxes."""

_LATIN_BLOCKS = (
    (0x00C0, 0x02B0),
    (0x1D00, 0x1DC0),
    (0x2C60, 0x2C80),
    (0xA720, 0xA800),
    (0xAB30, 0xAB70),
    (0x1F150, 0x1F200),
)

_LATIN_LOOKALIKES = {
    look: letter
    for letter, looks in {
        "a": "АаΑαᎪᗩ₳",
        "b": "ВвЬьΒβᏴᗷ฿",
        "c": "СсϹϲςᏟᑕ₵",
        "d": "ԀԁᎠᗪ",
        "e": "ЕеΕεᎬᕮᗴ",
        "f": "Ғғᖴ₣",
        "g": "ԌԍցᏀ₲",
        "h": "НнҺһΗհᎻᕼ",
        "i": "ІіӀӏΙιᎥ",
        "j": "ЈјϳյᎫᒍ",
        "k": "КкҚқҜҝӃӄΚκᏦ₭",
        "l": "ԼᏞᒪ",
        "m": "МмΜᎷᗰ",
        "n": "ИиҢңΝηոᑎ₦",
        "o": "ОоΟοՕօ",
        "p": "РрΡρᏢᑭ₱",
        "q": "ԚԛզᏄ",
        "r": "ЯяᏒᖇᎡ",
        "s": "ЅѕՏᏚᔕ₴",
        "t": "ТтΤτᎢ₮",
        "u": "ЦцμυՍսᑌ",
        "v": "νѴѵᏙᐯ",
        "w": "ШшԜԝωᎳᗯ",
        "x": "ХхΧχ᙭",
        "y": "УуҮүΥγ",
        "z": "ΖζᏃᘔ",
    }.items()
    for look in looks
}
"""Letters of other scripts that look like Latin ones."""


@frozen
class Folded:
    """A text in lower case, without marks and invisible characters, with ASCII digits."""

    native: str
    """The text in its own scripts."""
    latin: str
    """The text with Latin letters in place of their lookalikes."""


def fold(text: str) -> Folded:
    """Fold a text. Parts displayed in reverse are included in both directions."""
    if not text.isascii():
        text = " ".join([text, *(shown[::-1] for shown in _RIGHT_TO_LEFT_OVERRIDE.findall(text))])
        text = unicodedata.normalize("NFKD", text.translate(_EXPANDING_CHARACTERS))
    text = unicodedata.normalize("NFC", _translate(text, _plain_character))
    native = text.casefold()
    return Folded(
        native, native if text.isascii() else _translate(text, _latin_lookalike).casefold()
    )


def _translate(text: str, replacement_of: Callable[[str], str | None]) -> str:
    table = {ord(char): replacement_of(char) for char in set(text)}
    return text.translate(table)


def _latin_lookalike(char: str) -> str:
    return _LATIN_LOOKALIKES.get(char) or _LATIN_LOOKALIKES.get(char.casefold(), char)


@lru_cache(maxsize=1 << 15)
def _plain_character(char: str) -> str | None:
    """The replacement of one character; None removes it."""
    if " " <= char <= "~" and char != "`":
        return char
    if "\u3400" <= char <= "\u9fff":
        return char
    if char.isspace():
        return "\n" if char in "\n\r\x0b\x0c\x85\u2028\u2029" else " "
    if char in _KEPT_MARKS:
        return char
    if char in _INVISIBLE_CHARACTERS or unicodedata.category(char) in ("Cc", "Cf", "Me", "Mn"):
        return None
    if (digit := unicodedata.digit(char, None)) is not None:
        return str(digit)
    return _EQUIVALENTS.get(char) or _base_latin_letter(char) or char


def _base_latin_letter(char: str) -> str | None:
    if not any(first <= ord(char) < end for first, end in _LATIN_BLOCKS):
        return None
    named = _LATIN_NAME_PATTERN.fullmatch(unicodedata.name(char, ""))
    return named and named[1].lower()
