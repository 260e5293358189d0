# ruff: noqa: RUF001 - other alphabets have letters that look like Latin ones

"""Detects phone, card and account numbers.

1. Harmless numbers are removed: dates, times, prices, addresses, codes.
2. Digits written as words or letters are replaced by digits.
3. A remaining run of at least 7 digits, with nothing but separators between them, is a contact
   number; after a word such as `call`, 6 digits are enough. Numbers that count up or down, growing
   lists and years are none.
"""

from __future__ import annotations

import re
from itertools import pairwise

from staffbooking_adapters.content.folding import fold

_MIN_DIGITS = 7
_MIN_ANNOUNCED_DIGITS = 6
"""Minimum digits after a word such as `call`."""

_REMOVED_MARK = "§"
"""Replaces a harmless number."""

_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_MONTH = r"(?:0?[1-9]|1[0-2])"
_YEAR = r"(?:19|20)\d\d"
_HOUR = r"(?:[01]?\d|2[0-4])"
_MONEY = r"(?:[1-9]\d{0,2}(?:[.,'\s]\d{3}){1,3}|\d{1,6})(?:[.,]\d{1,2})?"
_CURRENCY = (
    r"(?:€|\$|£|¥|₹|₺|₽|zl\b|kr\b|[a-z]{1,2}\$|"
    r"(?:euros?|eur|dollars?|usd|pounds?|gbp|chf|franken|francs?|pesos?|reais|lira|tl|"
    r"rupees?|inr|rs|yen|jpy|yuan|rmb|cny|aed|sek|nok|dkk|pln|huf|czk|ron|rub|cad|aud|mxn|brl)\b)"
)
_NOT_BEFORE_DIGITS = r"(?!\d)(?![\s.,:/-]{1,2}\d)"
_PRICE = rf"{_CURRENCY}\s?{_MONEY}(?:\s?[-/]\s?{_CURRENCY}?\s?{_MONEY}){{0,3}}{_NOT_BEFORE_DIGITS}"
_NOT_AFTER_DIGITS = r"(?<![\d.,:/+])(?<!\d[\s-])"
_BEFORE_TOWN = (
    r"(?=,?\s[^\W\d_]{2})"
    r"(?!,?\s(?:call|text|ring|whats|phone|mobile|please|thanks|now|me|is|or|and|my|anytime)\b)"
)

_HARMLESS_NUMBER = re.compile(
    rf"""
    (?=\d)(?:
        {_NOT_AFTER_DIGITS}{_YEAR}([-./])\s?{_MONTH}\1\s?{_DAY}(?!\d)(?![-./]\d)
      | {_NOT_AFTER_DIGITS}{_DAY}([-./])\s?{_DAY}\2\s?(?:{_YEAR}|\d\d)(?!\d)(?![-./]\d)
      | (?<!\d){_DAY}\.\s?{_MONTH}\.(?!\d)
      | {_NOT_AFTER_DIGITS}{_DAY}/{_DAY}(?!\d)(?![\s./-]{{1,2}}\d)
      | (?<=[a-z]\s){_DAY},?\s{_YEAR}(?!\d)(?!\s\d{{3}})
      | (?<!\d){_DAY}\s{_MONTH}\s{_YEAR}(?!\d)
      | {_NOT_AFTER_DIGITS}{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]){_NOT_BEFORE_DIGITS}
      | {_NOT_AFTER_DIGITS}{_YEAR}\s?[-/]\s?(?:{_YEAR}|\d\d){_NOT_BEFORE_DIGITS}
      | (?<![\d:.]){_HOUR}[:.][0-5]\d(?::[0-5]\d)?(?![\d:])(?!\.\d)
      | (?<!\d)(?:[01]\d|2[0-4])(?:00|15|30|45)\s?-\s?(?:[01]\d|2[0-4])(?:00|15|30|45)(?!\d)
      | {_NOT_AFTER_DIGITS}{_MONEY}(?:\s?[-/]\s?{_MONEY}){{0,3}}\s?(?:k\s?)?{_CURRENCY}
      | {_NOT_AFTER_DIGITS}[1-9]\d{{0,2}}(?:[.,']\d{{3}}(?:[.,]\d\d)?|[.,]\d\d){_NOT_BEFORE_DIGITS}
      | (?<![\d.,:/-])[1-9]\d?[.,]\d{{1,2}}{_NOT_BEFORE_DIGITS}
      | {_NOT_AFTER_DIGITS}[1-9]\d{{0,2}}(?:[.,'\s]?\d{{3}})?[.,'\s]?000{_NOT_BEFORE_DIGITS}
      | (?<!\d)\d{{1,3}}\.\d{{3,7}}\s?,\s?-?\d{{1,3}}\.\d{{3,7}}(?!\d)
      | (?<![\d-])[1-9]\d{{0,3}}\s?[a-h]?(?:(?:,\s?|\s?\n\s?)(?:[a-z]{{1,2}}-)?
          (?:\d{{4,6}}|\d\d-\d{{3}})|\s\d{{5}}){_BEFORE_TOWN}
      | (?<![\d-])[6-9]\d([-/])[4-8]\d\3(?:[6-9]\d|1[0-2]\d)(?!\d)(?![\s./-]{{1,2}}\d)
      | {_NOT_AFTER_DIGITS}\d{{1,4}}(?:\s?[-x/]\s?\d{{1,4}})?\s?(?:cm|mm|kg|km|lbs?|ft)\b
      | (?<!\d)\d{{4,5}}-\d{{3}}{_BEFORE_TOWN}
    )
    | (?=[€$£¥₹₺₽]){_PRICE}
    | (?=[a-z])(?<![^\W_])(?:
        {_PRICE}
      | bk(?=\d{{0,11}}[a-z])[0-9a-z]{{12}}(?!\w)
      | [a-z]{{2}},?\s\d{{5}}-\d{{4}}(?!\d)
      | [a-z]{{2,10}}-{_YEAR}-\d{{1,6}}(?!\d)
      | (?:invoice|order|offer|quote|contract|rechnung|facture|factura|fattura|no\.?|nr\.?)
        \s\#?{_YEAR}[-/]\d{{1,6}}(?!\d)
    )
    | 〒\s?\d{{3}}-?\d{{4}}
    """,
    re.VERBOSE,
)
"""Booking codes, dates, years, times, prices, coordinates, addresses, measures, references."""

_DIGIT_WORDS = {
    "0": "zero oh null zéro cero sıfır ноль ноля nul nula noll 공 영 shunya صفر",
    "1": "one eins jeden uno un um один одна bir een ett ek واحد 일",
    "2": "two zwei zwo deux dos dwa due dois два две iki twee två twenty 이 اثنان اثنين",
    "3": "three drei trois tres trzy três три üç drie tre teen thirty ثلاثة 삼",
    "4": "four vier quatre cuatro quattro quatro cztery четыре dört fyra char forty أربعة 사",
    "5": "five fünf cinq cinco cinque pięć пять beş vijf fem paanch fifty خمسة 오",
    "6": "six sechs seis sei sześć шесть altı zes chhe sixty ستة 육",
    "7": "seven sieben sept siete sette sete siedem семь yedi zeven sju saat seventy سبعة 칠",
    "8": "eight acht huit ocho otto oito osiem восемь sekiz åtta aath eighty ثمانية 팔",
    "9": "nine neun neuf nueve nove nine dziewięć девять dokuz negen nio nau ninety تسعة 구",
    "-": "dash hyphen minus strich bindestrich tiret guion slash",
}
"""Words for digits and for the hyphen between them."""

_DIGIT_BY_WORD = {
    fold(word).latin: figure for figure, words in _DIGIT_WORDS.items() for word in words.split()
}
_DIGIT_WORD_PATTERN = "|".join(sorted(_DIGIT_BY_WORD, key=len, reverse=True))
_DIGIT_WORD_INITIALS = "".join({word[0] for word in _DIGIT_BY_WORD})
_DIGIT_WORD_RUN = re.compile(
    rf"(?=[{_DIGIT_WORD_INITIALS}])(?<![^\W\d_])(?:{_DIGIT_WORD_PATTERN})++(?![^\W\d_])"
)
_ONE_DIGIT_WORD = re.compile(_DIGIT_WORD_PATTERN)
_MULTIPLIER = re.compile(r"\b(double|triple)\s(\d)")

_HAN_DIGIT_RUN = re.compile("[〇零一二三四五六七八九幺]{2,}")
_HAN_DIGITS = str.maketrans("〇零一二三四五六七八九幺", "001234567891")

_MIXED_DIGIT_RUN = re.compile(
    r"(?=[\doil])(?<![^\W_])(?=[oil]{0,3}\d)(?!\d{1,3}[il](?!\w))[\doil]{3,}(?![^\W_])"
)
_SPACED_DIGIT_RUN = re.compile(r"(?=[\doil])(?<![^\W_])(?:[\doil][\W_]{1,4}){6,}[\doil](?![^\W_])")
_DIGIT_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that replace digits: O for 0, l and I for 1."""

_SEPARATOR = r"(?:[^\w+=%$€£¥°§]|_|\+(?=\d))"
_DIGIT_RUN = re.compile(rf"\d(?:{_SEPARATOR}{{0,8}}+\d){{{_MIN_ANNOUNCED_DIGITS - 1},}}+")
_INTERLEAVED_DIGITS = re.compile(r"(?<![^\W_])\d(?:[a-z]\d){6,}")
"""Single digits with single letters between them."""

_ANNOUNCEMENT = re.compile(
    r"\b(?:call|phone|tel|ring|sms|whats ?app|mobil|cell|handy|ruf|appel|llam|fon|dial|reach|movil)"
    r"\w*\W{0,4}(?:\w+\W{1,3}){0,3}$"
)
_DIGIT = re.compile(r"\d")
_LIST_SEPARATOR = re.compile(r"[,;/&]")


def has_number(text: str) -> bool:
    """Whether a folded text contains a phone, card or account number."""
    if len(_DIGIT.findall(text)) >= _MIN_ANNOUNCED_DIGITS:
        text = _HARMLESS_NUMBER.sub(_REMOVED_MARK, text)
    text = _with_digits(text)
    if _INTERLEAVED_DIGITS.search(text):
        return True
    return any(
        _is_contact_number(match[0], text[max(0, match.start() - 40) : match.start()])
        for match in _DIGIT_RUN.finditer(text)
    )


def _with_digits(text: str) -> str:
    """A text with digits in place of digit words and digit lookalikes."""
    text = _DIGIT_WORD_RUN.sub(
        lambda match: "".join(map(_digit_of_word, _ONE_DIGIT_WORD.findall(match[0]))), text
    )
    text = _MULTIPLIER.sub(lambda match: match[2] * (2 if match[1] == "double" else 3), text)
    text = _HAN_DIGIT_RUN.sub(lambda match: match[0].translate(_HAN_DIGITS), text)
    for pattern in (_MIXED_DIGIT_RUN, _SPACED_DIGIT_RUN):
        text = pattern.sub(lambda match: match[0].translate(_DIGIT_LOOKALIKES), text)
    return text


def _digit_of_word(word: str) -> str:
    return _DIGIT_BY_WORD[word]


def _is_contact_number(run: str, before: str) -> bool:
    parts = re.findall(r"\d+", run)
    if _is_harmless_list(parts, has_list_separator=_LIST_SEPARATOR.search(run) is not None):
        return False
    return sum(map(len, parts)) >= _MIN_DIGITS or _ANNOUNCEMENT.search(before) is not None


def _is_harmless_list(parts: list[str], *, has_list_separator: bool) -> bool:
    """Whether numbers count up or down, are a list of growing numbers, or are years."""
    lengths = set(map(len, parts))
    if len(parts) < 2 or max(lengths) > 4 or any(part[0] == "0" for part in parts):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(parts)}
    alike = max(lengths) <= 2 or len(lengths) == 1
    return (
        (len(parts) > 2 and steps in ({1}, {-1}))
        or (has_list_separator and len(parts) > 2 and alike and min(steps) > 0)
        or all(re.fullmatch(_YEAR, part) for part in parts)
    )
