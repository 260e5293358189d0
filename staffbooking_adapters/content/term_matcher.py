"""Finds blocked terms in a text, however their letters are written.

Terms match whole words only, so the town Scunthorpe is allowed; in scripts without spaces between
words they match anywhere. A text is searched as written, spelled out (`b a d`), joined (`b-a-d`),
with leetspeak (`b4d`), stretched (`baaad`) and masked (`b*d`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from staffbooking_adapters.content.folding import Folded, fold

_LEETSPEAK = {
    **dict.fromkeys("@4", "a"),
    **dict.fromkeys("3€", "e"),
    **dict.fromkeys("69", "g"),
    **dict.fromkeys("1!|", "i"),
    **dict.fromkeys("5$", "s"),
    **dict.fromkeys("7+", "t"),
    **dict(zip("8¢#£0¥2", "bchloyz", strict=True)),
}
"""Digits and symbols that stand for letters."""

_WORD_SYMBOLS = "@$!|+#*€¢£¥'"
_EDGE_SYMBOLS = "!|#*€£¥'"
"""Symbols that may surround a word without being part of it."""
_I_OR_L_CHARACTERS = frozenset("1!|")
"""Characters that may be an i or an l: words with one are compared with every l as i."""

_LEETSPEAK_TRANSLATION = str.maketrans({**_LEETSPEAK, "'": ""})
_SYMBOL_REMOVAL = dict.fromkeys(map(ord, _WORD_SYMBOLS))

_WORD_CHARACTER = rf"[^\W_]|[{_WORD_SYMBOLS}]"
_WORD = re.compile(f"(?:{_WORD_CHARACTER})+")
_FRAGMENT = rf"(?!\d\d)(?:{_WORD_CHARACTER}){{1,2}}(?!{_WORD_CHARACTER})"
_GAP = rf"(?:[^\w{_WORD_SYMBOLS}]|_)"
_FRAGMENT_RUN = re.compile(
    rf"(?<![^\W_])(?<![{_WORD_SYMBOLS}]){_FRAGMENT}{_GAP}{{1,6}}+(?:{_FRAGMENT}{_GAP}{{0,6}}+)++"
)
"""A run of pieces of one or two letters."""

_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words: Thai, Burmese, Khmer, Chinese, Japanese."""
_HANGUL = "\uac00-\ud7a3"
"""Korean has spaces, but words take suffixes."""
_UNSPACED = re.compile(f"[{_UNSPACED_SCRIPTS}{_HANGUL}]")
_UNSPACED_GAP = re.compile(
    rf"(?<=[{_UNSPACED_SCRIPTS}])[\s!-/:-@\[-`{{-~]{{1,6}}(?=[{_UNSPACED_SCRIPTS}])"
    rf"|(?<=[{_HANGUL}])[!-/:-@\[-`{{-~]{{1,6}}(?=[{_HANGUL}])"
)
_LETTER = re.compile(r"[^\W\d_]")
_JOINED_WORDS = re.compile(
    rf"(?<![^\W_])(?<![{_WORD_SYMBOLS}])(?:{_WORD_CHARACTER})++(?:[-_.~/](?:{_WORD_CHARACTER})++)++"
)
_JOINER_REMOVAL = dict.fromkeys(map(ord, "-_.~/"))
_LETTER_RUN = re.compile(r"(.)\1*", re.DOTALL)
_REPEATED_LETTER = re.compile(r"(.)(?=\1)", re.DOTALL)

_SUFFIXES = "s z ed er ers in ing ings y head heads hole holes face off".split()
_MAX_WORD_LENGTH = 40
"""Maximum characters of a joined or masked word."""

_STEMS = ("fuck", "bitch")
"""Strings that occur in no harmless word."""

_SHORT_WORDS = frozenset(
    "ab al am an as at au be by ca ce co cu da de di do du el em en er es et eu ex go ha he hi"
    " hr id if ik il im in is it ja je jo ko la le li lo ma me mi mm mr ms mu my na ne ni no nr"
    " nu ob of oh ok om on or ou pa pm po pr qu re sa se si so st su ta te tu tv um un up us uk"
    " vs we wo ya ye yo za ze zu hit itch its wan".split()
)
"""Short words that are not taken for pieces of a longer word."""


class TermMatcher:
    """Finds terms and their inflections (plurals, participles, insults) in texts."""

    def __init__(self, terms: Iterable[str], exceptions: Collection[str] = ()) -> None:
        """Inflections in `exceptions` do not match; a term itself matches even if it is there."""
        self._exceptions = exceptions
        self._phrases: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        words, unspaced = set(), set()
        for text in {text for term in map(fold, terms) for text in (term.native, term.latin)}:
            parts = tuple(read for word in _words(text) for read in _readings(word)[:1])
            if _UNSPACED.search(text) or not any(map(str.isalnum, text)):
                unspaced.add(_UNSPACED_GAP.sub("", text).strip())
            elif parts:
                words.add("".join(parts))
                if len(parts) > 1:
                    self._phrases[_collapse_repeats(parts[0])].add(parts)
        self._unspaced_pattern = re.compile(
            "|".join(map(re.escape, sorted(unspaced - {""}))) or r"(?!)"
        )
        self._forms = _CompactForms()
        self._forms_with_l_as_i = _CompactForms()
        self._forms_by_shape = _CompactForms()
        for word in words:
            self._add_form(word)
            for form in _inflections(word):
                if form not in exceptions:
                    self._add_form(form)

    def _add_form(self, form: str) -> None:
        self._forms.add(_collapse_repeats(form), form)
        with_l_as_i = form.replace("l", "i")
        self._forms_with_l_as_i.add(_collapse_repeats(with_l_as_i), with_l_as_i)
        self._forms_by_shape.add(_shape(form), form)

    def matches(self, folded: Folded) -> bool:
        """Whether a term occurs in a text."""
        return any(self._matches_text(text) for text in {folded.native, folded.latin})

    def _matches_text(self, text: str) -> bool:
        words, spelled = _words(text), _spelled_out_words(text)
        pieced = [*_joined_neighbours(words), *spelled, *_joined_words(text)]
        whole = {*words, *(word for word in pieced if len(word) <= _MAX_WORD_LENGTH)}
        return (
            self._has_term(whole)
            or self._has_term({word[1:] for word in spelled if _has_pronoun(word)})
            or any(stem in _collapse_repeats(word) for word in spelled for stem in _STEMS)
            or self._has_phrase(words)
            or self._has_phrase(spelled)
            or self._unspaced_pattern.search(_UNSPACED_GAP.sub("", text)) is not None
        )

    def _has_term(self, words: set[str]) -> bool:
        with_i_or_l = [word for word in words if not _I_OR_L_CHARACTERS.isdisjoint(word)]
        return (
            self._has_form(self._forms, [read for word in words for read in _readings(word)])
            or self._has_form(
                self._forms_with_l_as_i,
                [read.replace("l", "i") for word in with_i_or_l for read in _readings(word)],
            )
            or any(self._is_masked(word) for word in words if "*" in word)
        )

    def _has_form(self, forms: _CompactForms, words: list[str]) -> bool:
        squeezed = _collapse_repeats("\n".join(words))
        return any(stem in squeezed for stem in _STEMS) or any(
            _is_stretched_form(word, form)
            for word, key in zip(words, squeezed.splitlines(), strict=True)
            for form in forms.forms_of(key)
            if word == form or word not in self._exceptions
        )

    def _is_masked(self, word: str) -> bool:
        """Whether a word is a term with letters masked by `*`: at most half, neither end."""
        if word.count("*") * 2 > len(word) or not 4 <= len(word) <= _MAX_WORD_LENGTH:
            return False
        return any(
            all(char in ("*", expected) for char, expected in zip(word, form, strict=True))
            for form in self._forms_by_shape.forms_of(_shape(word))
        )

    def _has_phrase(self, words: list[str]) -> bool:
        read = [(*_readings(word), "0")[0] for word in words]
        keys = _collapse_repeats("\n".join(read)).splitlines()
        heads = self._phrases.keys() & set(keys)
        return any(
            len(phrase) <= len(read) - i
            and all(map(_is_stretched_form, read[i : i + len(phrase)], phrase))
            for i, key in enumerate(keys)
            if key in heads
            for phrase in self._phrases[key]
        )


def _words(text: str) -> list[str]:
    found = (word if len(word) == 1 else word.strip(_EDGE_SYMBOLS) for word in _WORD.findall(text))
    return [word for word in found if word]


def _has_pronoun(word: str) -> bool:
    """Whether a spelled-out word may begin with a one-letter word: I, a, u."""
    return 4 < len(word) <= _MAX_WORD_LENGTH and word[0] in "iau"


def _readings(word: str) -> tuple[str, ...]:
    """The words of letters only that a word may stand for."""
    if word.isalpha() or word.isdigit():
        return (word,)
    letters = sum(map(str.isalpha, word))
    plain = word.translate(_SYMBOL_REMOVAL)
    if not letters or letters * 2 < len(plain):
        return ()
    return (word.translate(_LEETSPEAK_TRANSLATION), plain)


def _collapse_repeats(word: str) -> str:
    return _REPEATED_LETTER.sub("", word)


def _inflections(word: str) -> Iterator[str]:
    """A word with the usual suffixes."""
    if len(word) < 4 or not word.isascii():
        return
    for ending in _SUFFIXES:
        yield word + ending
        yield word + word[-1] + ending
    match word[-1]:
        case "e":
            yield word + "d"
            yield word[:-1] + "ing"
        case "y":
            yield word[:-1] + "ies"
        case "s" | "x" | "h":
            yield word + "es"


def _is_stretched_form(word: str, form: str) -> bool:
    """Whether a word is a form, possibly with repeated letters.

    A doubled inner consonant makes another word: annals, assess, rapper.
    """
    if word == form or word.isdigit():
        return word == form
    runs, expected_runs = _letter_runs(word), _letter_runs(form)
    ends = (0, len(runs) - 1)
    return len(runs) == len(expected_runs) and all(
        run == expected or _is_stretched_run(run, expected, at_end=i in ends)
        for i, (run, expected) in enumerate(zip(runs, expected_runs, strict=True))
    )


def _letter_runs(text: str) -> list[str]:
    """The runs of equal letters of which a text consists."""
    return [run[0] for run in _LETTER_RUN.finditer(text)]


def _is_stretched_run(run: str, expected: str, *, at_end: bool) -> bool:
    if run[0] != expected[0] or len(run) < len(expected):
        return False
    return len(run) > 2 >= len(expected) or at_end or run[0] in "aeiou"


class _CompactForms:
    """Forms by a key, in a tenth of the memory of a dict of the keys: those that begin alike share
    a text, which has a line `key form` for each form. Neither has white space."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, key: str, form: str) -> None:
        text, line = self._texts.get(key[:3], "\n"), f"{key} {form}\n"
        if f"\n{line}" not in text:
            self._texts[key[:3]] = text + line

    def forms_of(self, key: str) -> list[str]:
        """The forms of a key."""
        text, before = self._texts.get(key[:3], ""), f"\n{key} "
        if before not in text:
            return []
        return [rest.partition("\n")[0] for rest in text.split(before)[1:]]


def _shape(word: str) -> str:
    """What a masked word keeps of its form: the first and the last letter, and the length."""
    return f"{word[0]}{word[-1]}{len(word)}"


def _spelled_out_words(text: str) -> list[str]:
    """The words that runs of pieces spell: the whole run, and the parts between wider gaps."""
    runs = (run[0] for run in _FRAGMENT_RUN.finditer(text) if _LETTER.search(run[0]))
    return [word for run in runs for word in _joined_fragments(run)]


def _joined_fragments(run: str) -> Iterator[str]:
    pieces: list[re.Match[str]] = []
    for piece in _WORD.finditer(run):
        if piece[0] not in _SHORT_WORDS:
            pieces.append(piece)
            continue
        yield from _join_by_gaps(pieces)
        pieces = []
    yield from _join_by_gaps(pieces)


def _join_by_gaps(pieces: list[re.Match[str]]) -> Iterator[str]:
    whole = "".join(piece[0] for piece in pieces)
    if len(whole) < 3:
        return
    yield whole
    gaps = [after.start() - before.end() for before, after in pairwise(pieces)]
    if len(set(gaps)) > 1:
        narrow = min(gaps)
        wider = [i for i, gap in enumerate(gaps, 1) if gap > narrow]
        for first, end in pairwise([0, *wider, len(pieces)]):
            yield "".join(piece[0] for piece in pieces[first:end])


def _joined_words(text: str) -> Iterator[str]:
    """Words joined by hyphens, dots or similar, without these."""
    return (word.translate(_JOINER_REMOVAL) for word in _JOINED_WORDS.findall(text))


def _joined_neighbours(words: list[str]) -> Iterator[str]:
    """Adjacent words joined, if one is short and has no vowel and so is hardly a word."""
    halves = {word for word in set(words) if len(word) <= 3 and _is_vowelless(word)}
    for before, after in pairwise(words):
        whole = before + after
        if (
            (before in halves or after in halves)
            and _SHORT_WORDS.isdisjoint((before, after))
            and 4 <= len(whole) <= _MAX_WORD_LENGTH
        ):
            yield whole


def _is_vowelless(word: str) -> bool:
    return word.isalpha() and not set(word) & set("aeiouy")
