"""The papers that sources and pages cite are in docs, with the sections that are cited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = {
    "CONTRACT": ROOT / "docs" / "contract.md",
    "SPECIFICATION": ROOT / "docs" / "specification.md",
}
_NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(
    rf"\b({'|'.join(PAPERS)})[\s#]+({_NUMBER}(?:(?:,| and| to)[\s#]+{_NUMBER}\b)*)"
)
"""A paper with sections, over the end of a line too: `CONTRACT 3, 10`."""
INTERNAL = re.compile(
    r"\b(?:RELIABILITY|PERFORMANCE|ARCHITECTURE)\b"
    r"|\b(?:PAYMENTS|FACTS|MODELS|WEB)(?:\.md\b|(?: section)? \d)"
)
"""Papers of the first developers, which no reader has. `PAYMENTS` alone is a setting."""


def texts(*roots: str) -> Iterator[tuple[str, str]]:
    """The sources and pages below folders of the project, by path; without this file, and without
    the reference, which repeats the sources."""
    for root in roots:
        for path in sorted(ROOT.glob(f"{root}/**/*")):
            is_source = path.suffix in (".py", ".pyi", ".md", ".html", ".js", ".css")
            if is_source and path != Path(__file__) and "reference" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def sections_of(page: Path) -> set[str]:
    """The numbers of a paper's sections."""
    return set(re.findall(rf"^#+ ({_NUMBER})\.? ", page.read_text(encoding="utf-8"), re.MULTILINE))


def citations_in(text: str) -> Iterator[tuple[str, str]]:
    """The papers and sections that a text cites."""
    for paper, sections in CITATION.findall(text):
        for section in re.findall(_NUMBER, sections):
            yield paper, section


def test_every_cited_section_exists() -> None:
    """Each section of the specification and the contract that is cited is one of their sections."""
    known = {(paper, section) for paper, page in PAPERS.items() for section in sections_of(page)}
    missing = {
        (path, *cited)
        for path, text in texts("staffbooking_*", "docs", "tests")
        for cited in citations_in(text)
        if cited not in known
    }
    assert missing == set()


def test_citations_of_several_sections_are_read() -> None:
    """Several sections, also over the end of a line, are read as citations of one paper."""
    text = "(SPECIFICATION 4.2 to 4.4,\nCONTRACT\n    # 3, 10: a rule)"
    assert [*citations_in(text)] == [
        ("SPECIFICATION", "4.2"),
        ("SPECIFICATION", "4.4"),
        ("CONTRACT", "3"),
        ("CONTRACT", "10"),
    ]


def test_no_internal_paper_is_cited() -> None:
    """No source and no page cites a paper that is not in the project."""
    found = {
        path: INTERNAL.findall(text)
        for path, text in texts("staffbooking_*", "docs", "tests", "benchmarks")
        if INTERNAL.search(text)
    }
    assert found == {}


@pytest.mark.parametrize("line", ["(RELIABILITY 3.1)", "PAYMENTS section 5", "see WEB.md"])
def test_a_planted_citation_is_seen(line: str) -> None:
    """The pattern finds a citation of an internal paper."""
    assert INTERNAL.search(line)


def test_the_reference_says_where_citations_lead() -> None:
    """The first page of the reference links the papers that its docstrings cite."""
    index = (ROOT / "docs" / "reference" / "README.md").read_text(encoding="utf-8")
    assert [page for page in PAPERS.values() if f"(../{page.name})" not in index] == []
