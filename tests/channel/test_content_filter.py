# ruff: noqa: RUF001 - other alphabets have letters that look like Latin ones

"""The default content filter: blocked and permitted texts, and the cost."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from staffbooking_adapters.content import blocked_terms
from staffbooking_adapters.content.filter import DefaultContentFilter
from staffbooking_adapters.content.folding import fold
from staffbooking_adapters.content.term_matcher import TermMatcher
from staffbooking_core.domain.messaging.conversations import ContentFindings

CORPUS = Path(__file__).parent / "corpus"

DISGUISED = [
    pytest.param(group["kind"], text, id=f"{group['name']}-{number}")
    for group in tomllib.loads((CORPUS / "blocked.toml").read_text("utf-8"))["technique"]
    for number, text in enumerate(group["texts"], 1)
]
INNOCENT = [
    pytest.param(text, id=f"{group['name']}-{number}")
    for group in tomllib.loads((CORPUS / "innocent.toml").read_text("utf-8"))["topic"]
    for number, text in enumerate(group["texts"], 1)
]
DEFAULT = DefaultContentFilter()


@pytest.mark.parametrize(("kind", "text"), DISGUISED)
def test_a_disguised_text_is_found(kind: str, text: str) -> None:
    """Each text of the corpus of blocked texts is found as a blocked term or a contact."""
    found = DEFAULT.scan_now(text)

    assert found.has_blocked_term if kind == "term" else found.has_contact


@pytest.mark.parametrize("text", INNOCENT)
def test_an_innocent_text_passes(text: str) -> None:
    """An innocent text of the corpus has no findings."""
    assert DEFAULT.scan_now(text) == ContentFindings()


def test_the_corpus_is_large_enough() -> None:
    """The corpus has at least 200 blocked texts, 80 of each kind, and 500 innocent ones, all
    different."""
    disguised = [param.values for param in DISGUISED]
    innocent = {param.values[0] for param in INNOCENT}

    assert len(set(disguised)) == len(disguised) >= 200
    assert min(sum(kind == wanted for kind, _ in disguised) for wanted in ("term", "contact")) >= 80
    assert len(innocent) == len(INNOCENT) >= 500


def test_findings_combine() -> None:
    """A text can have both a blocked term and a contact."""
    assert DEFAULT.scan_now("fuck this, call 07700 900123") == ContentFindings(True, True)


OWN = {
    "Rivalo": [
        "book me on rivalo next time",
        "R I V A L O",
        "ri\u200bv4l0!!",
        "rivaaalo's prices",
        "RIVАLО",
    ],
    "rival agency": ["a Rival  Agency, say", "the r1val-agency", "RivalAgency is cheaper"],
    "café noir": ["meet at CAFE NOIR"],
    "конкурент": ["КОНКУРЕНТ лучше", "кoнкуpент"],
    "μαλάκας": ["ΜΑΛΑΚΑΣ"],
    "منافس": ["عند مُنافِس"],
    "प्रतिद्वंद्वी": ["यह प्रतिद्वंद्वी है"],
    "竞争对手": ["我们的竞争对手更便宜", "竞 争 对 手"],
    "경쟁사": ["경쟁사에서 왔어요"],
    "คู่แข่ง": ["ไปที่คู่แข่งดีกว่า"],
    "🍆": ["tonight? 🍆🏽"],
    "$$$": ["it's $$$, you know"],
    "1488": ["room 1488"],
    "escort": ["an ESCORT"],
}
WITH_OWN = DefaultContentFilter(OWN)


@pytest.mark.parametrize("text", [text for texts in OWN.values() for text in texts])
def test_a_deployments_own_term_is_found(text: str) -> None:
    """A deployment's own term, of any script or several words, is found, and is not in the default
    list."""
    assert not DEFAULT.scan_now(text).has_blocked_term
    assert WITH_OWN.scan_now(text).has_blocked_term


@pytest.mark.parametrize(
    "text",
    [
        "the rivalotta",
        "a rival of the agency",
        "конкурентоспособность",
        "row 14, seats 88 and 11488",
        "$$ for two",
    ],
)
def test_an_own_term_is_found_as_a_whole(text: str) -> None:
    """A term is not found within another word, or with its words apart."""
    assert not WITH_OWN.scan_now(text).has_blocked_term


def test_the_default_list_is_there() -> None:
    """The installed default list has more than 700 terms, and common ones of five languages."""
    listed = blocked_terms.default_terms()

    assert len(listed) > 700
    assert {"fuck", "arschloch", "connard", "gilipollas", "stronzo"} <= {
        term.casefold() for term in listed
    }


def test_a_missing_list_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the filter without the list raises FileNotFoundError."""
    monkeypatch.setattr(blocked_terms, "find_spec", lambda _: None)

    with pytest.raises(FileNotFoundError, match="glin-profanity"):
        DefaultContentFilter().load()


def test_every_exception_is_needed() -> None:
    """Each term of `HARMLESS_TERMS` would be blocked otherwise."""
    all_of_it = TermMatcher([*blocked_terms.listed_terms(), *blocked_terms.ADDED_TERMS])

    assert [
        word for word in sorted(blocked_terms.HARMLESS_TERMS) if not all_of_it.matches(fold(word))
    ] == []


HOSTILE = {
    "digits": "1",
    "digits apart": "1 ",
    "digits between faces": "1😀",
    "dates": "2026-",
    "prices": "$1,",
    "words of figures": "one",
    "letters": "f",
    "letters apart": "f  u ",
    "letters held together": "a.",
    "beginnings of phrases": "a fine ",
    "stars": "f*",
    "at signs": "a@",
    "dots": "a . ",
    "brackets": "(at",
    "names elsewhere": "insta: ",
    "reversed": "\u202ea",
    "Chinese": "操你",
    "marks": "a\u0301\u0302",
    "spaces": " \n",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_the_cost_grows_with_the_length(unit: str) -> None:
    """A text eight times as long takes less than 24 times as long, for each hostile unit."""

    def cost(length: int) -> float:
        text = (unit * length)[:length]
        spent = []
        for _ in range(3):
            started = time.thread_time()
            DEFAULT.scan_now(text)
            spent.append(time.thread_time() - started)
        return min(spent)

    DEFAULT.load()
    assert cost(8_000) < 24 * cost(1_000)


def test_nothing_is_loaded_before_the_first_use() -> None:
    """Importing and creating the filter loads none of its other modules, and using it does not
    import `glin_profanity`."""
    script = """
import sys
from staffbooking_adapters.content.filter import DefaultContentFilter
made = DefaultContentFilter(["term"])
print(sorted(name for name in sys.modules if name.startswith("staffbooking_adapters.content.")))
made.load()
print("staffbooking_adapters.content.term_matcher" in sys.modules, "glin_profanity" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.splitlines() == ["['staffbooking_adapters.content.filter']", "True False"]
