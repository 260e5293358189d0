# ruff: noqa: RUF001 - other alphabets have letters that look like Latin ones

"""Numbers by which somebody can be called or paid: of phones, cards and accounts.

They are told from the numbers of a booking by what is left when dates, times, prices,
addresses and codes are put aside: seven figures or more that nothing but separators parts.
"""

from __future__ import annotations

import re
from itertools import pairwise

from staffbooking_adapters.content.folding import fold

FEWEST = 7
FEWEST_ANNOUNCED = 6
"""Where a word such as `call` stands before them."""

_BREAK = "§"
"""Stands for what was put aside."""

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
_ALONE = r"(?!\d)(?![\s.,:/-]{1,2}\d)"
_PRICED = rf"{_CURRENCY}\s?{_MONEY}(?:\s?[-/]\s?{_CURRENCY}?\s?{_MONEY}){{0,3}}{_ALONE}"
_UNTOUCHED = r"(?<![\d.,:/+])(?<!\d[\s-])"
_TOWN = (
    r"(?=,?\s[^\W\d_]{2})"
    r"(?!,?\s(?:call|text|ring|whats|phone|mobile|please|thanks|now|me|is|or|and|my|anytime)\b)"
)

_HARMLESS = re.compile(
    rf"""
    (?=\d)(?:
        {_UNTOUCHED}{_YEAR}([-./])\s?{_MONTH}\1\s?{_DAY}(?!\d)(?![-./]\d)
      | {_UNTOUCHED}{_DAY}([-./])\s?{_DAY}\2\s?(?:{_YEAR}|\d\d)(?!\d)(?![-./]\d)
      | (?<!\d){_DAY}\.\s?{_MONTH}\.(?!\d)
      | {_UNTOUCHED}{_DAY}/{_DAY}(?!\d)(?![\s./-]{{1,2}}\d)
      | (?<=[a-z]\s){_DAY},?\s{_YEAR}(?!\d)(?!\s\d{{3}})
      | (?<!\d){_DAY}\s{_MONTH}\s{_YEAR}(?!\d)
      | {_UNTOUCHED}{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]){_ALONE}
      | {_UNTOUCHED}{_YEAR}\s?[-/]\s?(?:{_YEAR}|\d\d){_ALONE}
      | (?<![\d:.]){_HOUR}[:.][0-5]\d(?::[0-5]\d)?(?![\d:])(?!\.\d)
      | (?<!\d)(?:[01]\d|2[0-4])(?:00|15|30|45)\s?-\s?(?:[01]\d|2[0-4])(?:00|15|30|45)(?!\d)
      | {_UNTOUCHED}{_MONEY}(?:\s?[-/]\s?{_MONEY}){{0,3}}\s?(?:k\s?)?{_CURRENCY}
      | {_UNTOUCHED}[1-9]\d{{0,2}}(?:[.,']\d{{3}}(?:[.,]\d\d)?|[.,]\d\d){_ALONE}
      | (?<![\d.,:/-])[1-9]\d?[.,]\d{{1,2}}{_ALONE}
      | {_UNTOUCHED}[1-9]\d{{0,2}}(?:[.,'\s]?\d{{3}})?[.,'\s]?000{_ALONE}
      | (?<!\d)\d{{1,3}}\.\d{{3,7}}\s?,\s?-?\d{{1,3}}\.\d{{3,7}}(?!\d)
      | (?<![\d-])[1-9]\d{{0,3}}\s?[a-h]?(?:(?:,\s?|\s?\n\s?)(?:[a-z]{{1,2}}-)?
          (?:\d{{4,6}}|\d\d-\d{{3}})|\s\d{{5}}){_TOWN}
      | (?<![\d-])[6-9]\d([-/])[4-8]\d\3(?:[6-9]\d|1[0-2]\d)(?!\d)(?![\s./-]{{1,2}}\d)
      | {_UNTOUCHED}\d{{1,4}}(?:\s?[-x/]\s?\d{{1,4}})?\s?(?:cm|mm|kg|km|lbs?|ft)\b
      | (?<!\d)\d{{4,5}}-\d{{3}}{_TOWN}
    )
    | (?=[€$£¥₹₺₽]){_PRICED}
    | (?=[a-z])(?<![^\W_])(?:
        {_PRICED}
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
"""Codes of bookings, dates, years, times, prices, places, addresses, measures, references."""

_SPOKEN = {
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
"""Figures, and what parts them, in words."""

_SAID = {fold(word).latin: figure for figure, words in _SPOKEN.items() for word in words.split()}
_SAID_WORD = "|".join(sorted(_SAID, key=len, reverse=True))
_SAID_FIRST = "".join({word[0] for word in _SAID})
_SAID_WORDS = re.compile(rf"(?=[{_SAID_FIRST}])(?<![^\W\d_])(?:{_SAID_WORD})++(?![^\W\d_])")
_ONE_SAID = re.compile(_SAID_WORD)
_TIMES = re.compile(r"\b(double|triple)\s(\d)")

_HAN = re.compile("[〇零一二三四五六七八九幺]{2,}")
_HAN_FIGURES = str.maketrans("〇零一二三四五六七八九幺", "001234567891")

_MIXED = re.compile(
    r"(?=[\doil])(?<![^\W_])(?=[oil]{0,3}\d)(?!\d{1,3}[il](?!\w))[\doil]{3,}(?![^\W_])"
)
_SINGLE = re.compile(r"(?=[\doil])(?<![^\W_])(?:[\doil][\W_]{1,4}){6,}[\doil](?![^\W_])")
_LOOKS = str.maketrans("oil", "011")
"""Letters among figures: O for 0, l and I for 1."""

_SEPARATOR = r"(?:[^\w+=%$€£¥°§]|_|\+(?=\d))"
_SPAN = re.compile(rf"\d(?:{_SEPARATOR}{{0,8}}+\d){{{FEWEST_ANNOUNCED - 1},}}+")
_FILLED = re.compile(r"(?<![^\W_])\d(?:[a-z]\d){6,}")
"""Single figures with single letters between them."""

_ANNOUNCED = re.compile(
    r"\b(?:call|phone|tel|ring|sms|whats ?app|mobil|cell|handy|ruf|appel|llam|fon|dial|reach|movil)"
    r"\w*\W{0,4}(?:\w+\W{1,3}){0,3}$"
)
_FIGURE = re.compile(r"\d")
_LIST = re.compile(r"[,;/&]")


def has_number(text: str) -> bool:
    """Whether a folded text tells somebody's number."""
    if len(_FIGURE.findall(text)) >= FEWEST_ANNOUNCED:
        text = _HARMLESS.sub(_BREAK, text)
    text = _figures(text)
    if _FILLED.search(text):
        return True
    return any(
        _is_number(match[0], text[max(0, match.start() - 40) : match.start()])
        for match in _SPAN.finditer(text)
    )


def _figures(text: str) -> str:
    """A text with figures for what is said in words or written with letters."""
    text = _SAID_WORDS.sub(lambda said: "".join(map(_figure, _ONE_SAID.findall(said[0]))), text)
    text = _TIMES.sub(lambda said: said[2] * (2 if said[1] == "double" else 3), text)
    text = _HAN.sub(lambda said: said[0].translate(_HAN_FIGURES), text)
    for pattern in (_MIXED, _SINGLE):
        text = pattern.sub(lambda mixed: mixed[0].translate(_LOOKS), text)
    return text


def _figure(word: str) -> str:
    return _SAID[word]


def _is_number(span: str, before: str) -> bool:
    parts = re.findall(r"\d+", span)
    if _is_list(parts, parted=_LIST.search(span) is not None):
        return False
    return sum(map(len, parts)) >= FEWEST or _ANNOUNCED.search(before) is not None


def _is_list(parts: list[str], *, parted: bool) -> bool:
    """Whether figures count up or down, list growing numbers, or name years."""
    lengths = set(map(len, parts))
    if len(parts) < 2 or max(lengths) > 4 or any(part[0] == "0" for part in parts):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(parts)}
    alike = max(lengths) <= 2 or len(lengths) == 1
    return (
        (len(parts) > 2 and steps in ({1}, {-1}))
        or (parted and len(parts) > 2 and alike and min(steps) > 0)
        or all(re.fullmatch(_YEAR, part) for part in parts)
    )
