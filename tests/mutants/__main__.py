"""`python -m tests.mutants [NAME ...]` plants each bug in a copy of the project, and says after how
many seeds the simulation of the whole system finds it, and which of the tests near it does.

What was found is kept in findings.json, so that a run that was interrupted goes on, and only new
bugs are run; `--again` runs those that were found at another commit. docs/planted-bugs.md is the
table. The exit code is 1 if a bug is found by only one of the two, or if the simulation or the
tests fail without a bug.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutants.bugs import BUGS, Bug, Finding, load_findings, save_findings
from tests.mutants.patching import apply_patch, parse_file_changes
from tests.mutants.table import TABLE_FILE, render_table

ROOT = Path(__file__).parents[2]
IGNORED_FILES = shutil.ignore_patterns(
    *(".*", "__pycache__", "build", "dist", "var", "*.db", "node_modules")
)
MAX_SEEDS = 6_000
"""Seeds within which the simulation must find a bug."""
UNHARMED_SEEDS = 40
"""Seeds that must pass without a bug."""
TIMEOUT_SECONDS = 3 * 3600
"""Seconds after which the simulation or the tests count as failed, since they hang."""

_SEED_PATTERN = re.compile(r"^seed (\d+): (.*)\Z", re.M | re.S)
_FAILURE_PATTERN = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.M)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", help="bugs, by the beginnings of their names")
    parser.add_argument("--seeds", type=int, default=MAX_SEEDS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="run what was found before, too")
    given = parser.parse_args()
    bugs = [bug for bug in BUGS if bug.name.startswith(tuple(given.names) or "")]
    findings, commit = load_findings(), _find_commit()
    waiting = [bug for bug in bugs if not _is_known(findings.get(bug.digest), commit, given.again)]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(given.processes) as pool:
        copies = _make_copies(Path(folder), given.processes)
        if waiting and (wrong := _find_wrong(copies, waiting)):
            _print(f"found without a planted bug: {wrong}")
            return 1
        runs = [pool.submit(_run, copies, bug, given.seeds, commit) for bug in waiting]
        for finding in (run.result() for run in as_completed(runs)):
            findings[finding.digest] = finding
            save_findings(findings)
            TABLE_FILE.write_text(render_table(findings), encoding="utf-8")
            _print(f"{finding.name}: {finding.text}")
    missed = [bug.name for bug in bugs if not _is_known(findings.get(bug.digest))]
    _print(f"not found: {', '.join(missed)}" if missed else f"{len(bugs)} bugs found")
    return 1 if missed else 0


def _find_commit() -> str:
    """The commit of the work tree; empty outside of a repository."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def _is_known(finding: Finding | None, commit: str = "", again: bool = False) -> bool:
    if finding is None or not finding.is_found:
        return False
    return not again or finding.commit == commit


Copies = SimpleQueue[Path]
"""Copies of the project that nobody uses now."""


def _make_copies(folder: Path, number: int) -> Copies:
    copies: Copies = SimpleQueue()
    for each in range(number):
        copies.put(Path(shutil.copytree(ROOT, folder / str(each), ignore=IGNORED_FILES)))
    return copies


def _find_wrong(copies: Copies, bugs: Sequence[Bug]) -> str:
    """What the simulation and the tests find without a bug; empty if all is well."""
    copy = copies.get()
    tests = sorted({test for bug in bugs for test in bug.tests})
    stores = sorted({bug.store for bug in bugs})
    found = [_simulate(copy, store, UNHARMED_SEEDS)[1] for store in stores]
    found.append(_run_tests(copy, tests))
    copies.put(copy)
    return ", ".join(filter(None, found))


def _run(copies: Copies, bug: Bug, seeds: int, commit: str) -> Finding:
    copy = copies.get()
    apply_patch(bug.patch, copy)
    seed, violation = _simulate(copy, bug.store, seeds)
    test = _run_tests(copy, bug.tests)
    for change in parse_file_changes(bug.patch):
        shutil.copy(ROOT / change.path, copy / change.path)
    copies.put(copy)
    return Finding(bug.name, bug.digest, commit, seed, violation, test)


def _simulate(copy: Path, store: str, seeds: int) -> tuple[int | None, str]:
    """The first seed of the simulation that finds something, and what; None for no seed."""
    ended, output = _execute(copy, "tests.simulation", "1", str(seeds), "--store", store, "--plain")
    if ended == 0:
        return None, ""
    if (found := _SEED_PATTERN.search(output)) is None:
        return None, output[-500:]
    return int(found[1]), found[2].strip().splitlines()[-1]  # Of a traceback, the error.


def _run_tests(copy: Path, tests: Sequence[str]) -> str:
    """The first test that fails; empty if they pass."""
    ended, output = _execute(copy, "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
    if ended == 0:
        return ""
    failed = _FAILURE_PATTERN.findall(output)
    return failed[0] if failed else f"pytest ended with {ended}"


def _execute(copy: Path, module: str, *arguments: str) -> tuple[int, str]:
    """Run a module in a copy; returns its exit code and output, warnings first."""
    command = [sys.executable, "-B", "-m", module, *arguments]
    try:
        ran = subprocess.run(
            command, cwd=copy, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, "does not end"
    return ran.returncode, ran.stderr + ran.stdout


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
