"""The patches fit the code; `make planted` checks that each bug is found."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutants.bugs import BUGS, Bug, Finding, load_findings
from tests.mutants.patching import (
    PATCH_FILES,
    PatchDoesNotApply,
    apply_patch,
    parse_file_changes,
)
from tests.mutants.table import TABLE_FILE, render_table

ROOT = Path(__file__).parents[2]

DIFF = """\
Why.

--- a/file.py
+++ b/file.py
@@ -1,3 +1,3 @@
 one = 1
-two = 2
+two = 3
 three = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.py"
    path.write_text("zero = 0\none = 1\ntwo = 2\nthree = 3\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("patch", PATCH_FILES, ids=lambda patch: patch.stem)
def test_a_planted_bug_applies(patch: Path, tmp_path: Path) -> None:
    """Each patch applies to the sources, and leaves them parseable and changed."""
    text = patch.read_text(encoding="utf-8")
    touched = [each.path for each in parse_file_changes(text)]
    for path in touched:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)

    apply_patch(text, tmp_path)

    for path in touched:
        changed = (tmp_path / path).read_text(encoding="utf-8")
        ast.parse(changed)
        assert changed != (ROOT / path).read_text(encoding="utf-8")


def test_there_are_at_least_forty() -> None:
    """There are at least forty bugs."""
    assert len(BUGS) >= 40


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_names_tests_that_exist(bug: Bug) -> None:
    """Each bug has a description, and names files or folders of tests near it."""
    assert bug.description
    assert bug.tests
    assert all((ROOT / test.partition("::")[0]).exists() for test in bug.tests)


def test_the_page_is_that_of_the_findings() -> None:
    """The page shows each bug, as it was found."""
    assert TABLE_FILE.read_text(encoding="utf-8") == render_table(load_findings())


def test_the_page_tells_what_was_not_found() -> None:
    """A bug that only one of the two found is a row that says so."""
    bug = BUGS[0]

    page = render_table({bug.digest: Finding(bug.name, bug.digest, "1234abcd", None, "", "")})

    assert f"| 01. {bug.description} | not found |  | not found | 1234abcd |\n" in page


def test_a_patch_finds_its_place(file: Path) -> None:
    """A hunk is applied by its text, whatever its line number."""
    apply_patch(DIFF, file.parent)

    assert file.read_text(encoding="utf-8") == "zero = 0\none = 1\ntwo = 3\nthree = 3\n"


@pytest.mark.parametrize(
    ("found", "put"),
    [
        ("two = 2", "two = 4"),
        ("one = 1\ntwo = 2\nthree = 3\n", "one = 1\ntwo = 2\nthree = 3\n" * 2),
    ],
    ids=["gone", "twice"],
)
def test_a_missing_or_ambiguous_context_is_refused(file: Path, found: str, put: str) -> None:
    """A hunk whose context is missing or ambiguous is refused, and the file is unchanged."""
    text = file.read_text(encoding="utf-8").replace(found, put)
    file.write_text(text, encoding="utf-8")

    with pytest.raises(PatchDoesNotApply):
        apply_patch(DIFF, file.parent)

    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "text",
    ["", DIFF.replace("+++ b/file.py", "+++ b/other.py"), DIFF.replace("-1,3", "-1,4")],
    ids=["empty", "two names", "wrong count"],
)
def test_a_malformed_patch_is_refused(file: Path, text: str) -> None:
    """A patch that is not a unified diff of one file is refused."""
    with pytest.raises(PatchDoesNotApply):
        apply_patch(text, file.parent)
