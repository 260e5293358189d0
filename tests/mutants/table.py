"""The page of the planted bugs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.mutants.bugs import BUGS, Bug, Finding

TABLE_FILE = Path(__file__).parents[2] / "docs/planted-bugs.md"

_HEAD = """\
# Planted bugs

Each of these bugs is a patch in `tests/mutants`. It is planted in a copy of the project and must be
found twice: by the simulation of the whole system (`tests/simulation`), within 6,000 seeds, and by
the tests near the code. The number is that of the first seed that finds it, counted from 1, at the
commit in the last column.

`make planted` runs those that were not found yet and writes this page; `python -m tests.mutants
--again` runs all, `python -m tests.mutants 17` one.

| Bug | Seeds | What the simulation saw | Test near the code | Commit |
| --- | ---: | --- | --- | --- |
"""
_MAX_VIOLATION_LENGTH = 110


def render_table(findings: Mapping[str, Finding]) -> str:
    """The page in Markdown, from the findings by the digests of their bugs."""
    return _HEAD + "".join(_render_row(bug, findings.get(bug.digest)) for bug in BUGS)


def _render_row(bug: Bug, finding: Finding | None) -> str:
    if finding is None:
        return f"| {bug.name[:2]}. {bug.description} | not run yet | | | |\n"
    seeds = "not found" if finding.seed is None else str(finding.seed)
    if bug.store != "memory":
        seeds += f" ({bug.store})"
    cells = (
        f"{bug.name[:2]}. {bug.description}",
        seeds,
        _escape(finding.violation),
        f"`{finding.test.removeprefix('tests/')}`" if finding.test else "not found",
        finding.commit,
    )
    return f"| {' | '.join(cells)} |\n"


def _escape(text: str) -> str:
    if len(text) > _MAX_VIOLATION_LENGTH:
        text = f"{text[:_MAX_VIOLATION_LENGTH].rstrip()}…"
    return text.replace("|", "\\|").replace("<", "&lt;")
