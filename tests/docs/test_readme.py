"""The README: its program runs, and all links of the documents lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from staffbooking_http.client import Client

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CALLING, EMBEDDING = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PAGES = [
    "README.md",
    "CHANGELOG.md",
    *(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if "reference" not in path.parts
    ),
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([\w-]+))?\)")


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as repository hosts make them."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_program_to_embed_runs() -> None:
    """The program of *Embed it* runs as it stands."""
    ran = subprocess.run(
        [sys.executable, "-c", EMBEDDING], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("grace@example.com\n", "")


def test_the_calling_program_fits_the_client() -> None:
    """The lines of *Call it* compile, and call a method that the client has."""
    compile(CALLING, "README.md", "exec")
    assert callable(Client.search)
    assert ".search(location=" in CALLING


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each link of a page to a file, a folder or a heading has its target."""
    path = ROOT / page
    dead = []
    for target, anchor in LINK.findall(
        re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S)
    ):
        found = path.parent / target if target else path
        if not found.exists() or (
            anchor and found.suffix == ".md" and anchor not in anchors_of(found.read_text("utf-8"))
        ):
            dead.append(f"{target}#{anchor}")
    assert dead == []


def test_the_index_of_decisions_is_complete() -> None:
    """The index has a link to each decision."""
    folder = ROOT / "docs/decisions"
    linked = [target for target, _ in LINK.findall((folder / "README.md").read_text("utf-8"))]
    assert sorted(linked) == sorted(path.name for path in folder.glob("0*.md"))
