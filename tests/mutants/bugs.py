"""The planted bugs: each is a patch below a description, and names the tests near it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from attrs import asdict, frozen

from tests.mutants.patching import PATCH_FILES, patch_description

FINDINGS_FILE = Path(__file__).parent / "findings.json"


@frozen
class Bug:
    name: str
    description: str
    tests: tuple[str, ...]
    """Files, folders or names of the tests near it."""
    store: str
    """The store of the histories that find it: memory or sqlite."""
    patch: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.patch.encode()).hexdigest()[:16]


@frozen
class Finding:
    """What found a bug."""

    name: str
    digest: str
    """Of the bug."""
    commit: str
    """The commit at which it was found."""
    seed: int | None
    """The first seed of the simulation that found it; None if none did."""
    violation: str
    test: str
    """The name of the first test that failed; empty if none did."""

    @property
    def is_found(self) -> bool:
        return self.seed is not None and self.test != ""

    @property
    def text(self) -> str:
        seen = f"seed {self.seed}: {self.violation}" if self.seed else "NOT FOUND BY THE SIMULATION"
        return f"{seen[:200]}\n    {self.test or 'NOT FOUND BY THE TESTS'}"


def read_bug(path: Path) -> Bug:
    """A bug from its patch: a description, an empty line, and lines such as `tests: tests/http`.
    Raises KeyError without `tests`."""
    text = path.read_text(encoding="utf-8")
    description, _, facts = patch_description(text).partition("\n\n")
    given = dict(line.split(": ", 1) for line in facts.splitlines())
    return Bug(
        path.stem,
        " ".join(description.split()),
        tuple(given["tests"].split()),
        given.get("store", "memory"),
        text,
    )


BUGS = tuple(map(read_bug, PATCH_FILES))


def load_findings() -> dict[str, Finding]:
    """The findings of earlier runs, by the digests of their bugs."""
    if not FINDINGS_FILE.is_file():
        return {}
    stored = json.loads(FINDINGS_FILE.read_text(encoding="utf-8"))
    return {each["digest"]: Finding(**each) for each in stored}


def save_findings(findings: Mapping[str, Finding]) -> None:
    """Save the findings of the present bugs."""
    rows = [asdict(findings[bug.digest]) for bug in BUGS if bug.digest in findings]
    FINDINGS_FILE.write_text(f"{json.dumps(rows, indent=1)}\n", encoding="utf-8")
