"""The patches fit the code; `make soak` checks that each bug is caught."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutants.patching import (
    PATCH_FILES,
    PatchDoesNotApply,
    apply_patch,
    parse_file_changes,
    patch_description,
)

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
    """Each patch has a description, applies to the sources, and leaves them parseable and
    changed."""
    text = patch.read_text(encoding="utf-8")
    touched = [each.path for each in parse_file_changes(text)]
    for path in touched:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)

    apply_patch(text, tmp_path)

    assert patch_description(text)
    for path in touched:
        changed = (tmp_path / path).read_text(encoding="utf-8")
        ast.parse(changed)
        assert changed != (ROOT / path).read_text(encoding="utf-8")


def test_there_are_at_least_ten() -> None:
    """There are at least ten patches."""
    assert len(PATCH_FILES) >= 10


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
