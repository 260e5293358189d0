"""Applies unified diffs strictly: the context of a hunk must occur exactly once.

Line numbers are ignored, since they change whenever a file grows above the hunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from attrs import frozen

PATCH_FILES = tuple(sorted(Path(__file__).parent.glob("*.patch")))

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")


class PatchDoesNotApply(Exception):
    """The patch is malformed, or its context does not occur exactly once."""


@frozen
class Hunk:
    before: tuple[str, ...]
    after: tuple[str, ...]


@frozen
class FileChange:
    """The hunks of a patch for one file."""

    path: str
    hunks: tuple[Hunk, ...]


def patch_description(text: str) -> str:
    """The text of a patch above the diff."""
    return text.partition("\n--- ")[0].strip()


def parse_file_changes(text: str) -> list[FileChange]:
    """The changes of a patch by file. Raises PatchDoesNotApply for a malformed patch."""
    lines = text.splitlines()
    files = [number for number, line in enumerate(lines) if line.startswith("--- a/")]
    if not files:
        raise PatchDoesNotApply("the patch changes no file")
    ends = [*files[1:], len(lines)]
    return [_parse_file_change(lines[start:end]) for start, end in zip(files, ends, strict=True)]


def _parse_file_change(lines: Sequence[str]) -> FileChange:
    path = lines[0].removeprefix("--- a/")
    if len(lines) < 3 or lines[1] != f"+++ b/{path}" or not _HUNK.fullmatch(lines[2]):
        raise PatchDoesNotApply(f"the head of {path} is malformed")
    return FileChange(path, tuple(_parse_hunks(lines[2:])))


def _parse_hunks(lines: Sequence[str]) -> Iterator[Hunk]:
    heads = [line for line in lines if line.startswith("@@")]
    bodies = [
        list(group)
        for is_head, group in groupby(lines, key=lambda line: line.startswith("@@"))
        if not is_head
    ]
    for head, body in zip(heads, bodies, strict=True):
        known = _HUNK.fullmatch(head)
        hunk = Hunk(
            tuple(line[1:] for line in body if line[:1] in " -"),
            tuple(line[1:] for line in body if line[:1] in " +"),
        )
        counts = [int(count or 1) for count in known.groups()] if known else []
        if counts != [len(hunk.before), len(hunk.after)] or any(
            line[:1] not in " -+" for line in body
        ):
            raise PatchDoesNotApply(f"{head} does not count its lines right")
        yield hunk


def apply_patch(text: str, root: Path) -> None:
    """Apply a patch below a folder, completely or not at all. Raises PatchDoesNotApply."""
    patched = {root / each.path: _apply_hunks(each, root) for each in parse_file_changes(text)}
    for path, changed in patched.items():
        path.write_text(changed, encoding="utf-8")


def _apply_hunks(change: FileChange, root: Path) -> str:
    path = root / change.path
    if not path.is_file():
        raise PatchDoesNotApply(f"there is no {change.path}")
    lines = path.read_text(encoding="utf-8").splitlines()
    for hunk in change.hunks:
        at = _find_hunk(lines, hunk, change.path)
        lines[at : at + len(hunk.before)] = hunk.after
    return "\n".join(lines) + "\n"


def _find_hunk(lines: Sequence[str], hunk: Hunk, path: str) -> int:
    size = len(hunk.before)
    found = [
        at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.before
    ]
    if len(found) != 1:
        raise PatchDoesNotApply(f"{path} has the place {len(found)} times")
    return found[0]
