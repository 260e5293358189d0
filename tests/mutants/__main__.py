"""`python -m tests.mutants [NAME ...]`: plants each bug in a copy of the project and checks that
the money tests find it. Exits with 1 if a bug survives, or if the tests fail without one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.patching import PATCH_FILES, apply_patch, patch_description

ROOT = Path(__file__).parents[2]
SUITE = (
    *("tests/domain", "tests/usecases", "tests/simulation"),
    *("tests/money/test_scenarios.py", "tests/money/test_scenarios_faults.py"),
    "tests/money/test_endurance.py",
)
IGNORED_FILES = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "var", "*.db")
TEST_TIMEOUT_SECONDS = 1800
"""Seconds after which a bug counts as found, since it makes the tests hang."""

_FAILURE_PATTERN = re.compile(r"^(?:FAILED|ERROR) (.*)$", re.M)


def main(names: list[str]) -> int:
    patches = [patch for patch in PATCH_FILES if not names or patch.stem in names]
    with TemporaryDirectory(prefix="mutants-") as folder:
        if found := _run_in_copy(Path(folder), None):
            _print(f"the tests fail without a planted bug: {found}")
            return 1
        survivors = [patch.stem for patch in patches if not _is_caught(Path(folder), patch)]
    if survivors:
        _print(f"not caught: {', '.join(survivors)}")
        return 1
    _print(f"all {len(patches)} planted bugs are caught")
    return 0


def _is_caught(folder: Path, patch: Path) -> bool:
    began = time.monotonic()
    text = patch.read_text(encoding="utf-8")
    found = _run_in_copy(folder, text)
    _print(f"{patch.stem}: {patch_description(text)}")
    _print(f"    {found or 'SURVIVES'} ({time.monotonic() - began:.0f} s)")
    return found != ""


def _run_in_copy(folder: Path, text: str | None) -> str:
    """The first failure of the tests in a copy with this patch; empty if they pass."""
    copy = folder / "copy"
    shutil.copytree(ROOT, copy, ignore=IGNORED_FILES)
    try:
        if text is not None:
            apply_patch(text, copy)
        return _run_tests(copy)
    finally:
        shutil.rmtree(copy)


def _run_tests(copy: Path) -> str:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *SUITE]
    try:
        ran = subprocess.run(
            command,
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=TEST_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the tests do not end"
    if ran.returncode == 0:
        return ""
    failed = _FAILURE_PATTERN.findall(ran.stdout)
    return failed[0] if failed else f"pytest ended with {ran.returncode}: {ran.stderr[-500:]}"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
