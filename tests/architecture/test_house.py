"""Repository rules: locks, generated pages, file sizes, test sentences and leftovers."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from staffbooking_core.domain.bookings.lifecycle_page import render_lifecycle_page
from tests.support.garbage import no_collection

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
RUNTIME = [
    *PROJECT["project"]["dependencies"],
    *{
        text
        for name in EXTRAS
        if name != "testing"
        for text in EXTRAS[name]
        if not text.startswith("staffbooking[")
    },
]
GROUPS = PROJECT["dependency-groups"]
LOCKS = {
    "requirements.lock": RUNTIME,
    "requirements-dev.lock": [*RUNTIME, *EXTRAS["testing"], *GROUPS["dev"]],
    "requirements-lowest.lock": [*RUNTIME, *EXTRAS["testing"], *GROUPS["dev"]],
    "requirements-uv.lock": GROUPS["lock"],
    "requirements-clients.lock": GROUPS["clients"],
}
NPM_LOCKS = sorted(
    path for top in ("benchmarks", "tests") for path in (ROOT / top).rglob("package-lock.json")
)
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)(.*?)(?=^\S|\Z)", re.M | re.S)
MAX_LINES = 450
SUITES = ROOT / "staffbooking_adapters/testing/store"


def pins(lock: str) -> dict[str, str]:
    """The versions that a lock pins with a hash, by name."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return {
        canonicalize_name(name): version
        for name, version, rest in PIN.findall(text)
        if re.search(r"--hash=sha256:[0-9a-f]{64}", rest)
    }


@pytest.mark.parametrize(("lock", "wanted"), LOCKS.items(), ids=LOCKS)
def test_a_lock_has_every_dependency(lock: str, wanted: list[str]) -> None:
    """Each dependency of pyproject.toml is pinned with hashes, at a version it allows."""
    pinned = pins(lock)
    missed = [
        text
        for text in wanted
        for requirement in [Requirement(text)]
        if not requirement.specifier.contains(
            pinned.get(canonicalize_name(requirement.name), "0.dev0"), prereleases=True
        )
    ]
    assert missed == [], "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_by_hash_alone(lock: str) -> None:
    """Every line of a lock is a pin, a hash or a comment."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    allowed = re.compile(
        r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==[^\s/:]+( ; [a-z_]+ ([!=>]=|<) '[\w.]+')? \\"
        r"|    --hash=sha256:[0-9a-f]{64}( \\)?"
        r"|    #( via)?( +[a-z0-9-]+( \((pyproject\.toml(:[a-z]+)?|workspace)\))?)?"
    )
    assert [line for line in lines if not allowed.fullmatch(line)] == []


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda lock: str(lock.relative_to(ROOT)))
def test_a_lock_of_npm_pins_by_hash_alone(lock: Path) -> None:
    """Every package of a lock of npm has a hash, and no address."""
    packages: dict[str, dict[str, str]] = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    own = packages.pop("")
    assert all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert [name for name, each in packages.items() if "resolved" in each] == []
    assert set(own["dependencies"]) <= {name.removeprefix("node_modules/") for name in packages}


def test_the_locks_agree() -> None:
    """The development lock pins the versions of the runtime lock."""
    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: development.get(name) for name in runtime} == runtime


def test_the_lowest_lock_has_the_lower_bounds() -> None:
    """The lock of the lowest versions pins the lower bound of each runtime dependency, or the next
    version that exists."""
    lowest = pins("requirements-lowest.lock")
    for text in RUNTIME:
        requirement = Requirement(text)
        [bound] = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        pinned = Version(lowest[canonicalize_name(requirement.name)])
        assert pinned.release[:2] == Version(bound.removesuffix(".*")).release[:2] or (
            pinned.release[:1] == Version(bound).release == (pinned.major,)
        ), text


def test_the_lifecycle_page_is_generated() -> None:
    """docs/lifecycle.md equals the generated page."""
    written = (ROOT / "docs/lifecycle.md").read_text(encoding="utf-8")

    assert written == render_lifecycle_page() + "\n"


def sources() -> Iterator[Path]:
    """All files of the project except generated ones."""
    skipped = {"__pycache__", "build", "dist", "var"}
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if n not in skipped and (n == ".ci" or n[0] != ".")]
        yield from (
            Path(folder, file) for file in files if not file.endswith((".pyc", ".db", ".git"))
        )


def leftovers() -> re.Pattern[str]:
    """A pattern of leftovers, composed so that this file does not match."""
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error"))
    hosts = "|".join(("py" + "pi", "python" + "hosted", "npm" + "js", "deb" + "ian"))
    paths = "|".join(("wo" + "rk", "ro" + "ot", "op" + "t"))
    return re.compile(rf"\b({marks})\b|({hosts})\.(org|com)|(?<![\w.}}])/({paths})/")


def test_no_leftovers() -> None:
    """No file has an unfinished mark, a registry's host or a path of a machine."""
    pattern = leftovers()
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in sources()
        for text in [path.read_text("utf-8", errors="replace")]
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "raise NotImplemented" + "Error",
        "https://py" + "pi.org/simple",
        "see /wo" + "rk/main/README.md",
        'File "/wo' + 'rk/copy/tests/house.py"',
    ],
)
def test_a_planted_leftover_is_seen(line: str) -> None:
    """The pattern finds a leftover of each kind."""
    assert leftovers().search(line)


def test_files_stay_small() -> None:
    """A Python file has at most 450 lines besides the list of its promised names."""
    promised = re.compile(r"^__all__ = \[.*?\]\n+", re.M | re.S)
    lengths = {
        str(path.relative_to(ROOT)): promised.sub("", path.read_text("utf-8")).count("\n")
        for path in sources()
        if path.suffix == ".py"
    }
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_test_states_its_fact() -> None:
    """Each test function has a docstring that ends with a period."""
    with no_collection():
        silent = [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for path in [*(ROOT / "tests").rglob("test_*.py"), *SUITES.rglob("*.py")]
            for node in statements(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
            and not (ast.get_docstring(node) or "").rstrip().endswith(".")
        ]
    assert silent == []


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a node, however deep; no function is defined in an expression."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def test_an_old_python_is_refused_clearly(tmp_path: Path) -> None:
    """`make` with Python 3.10 fails with a message of the required version and makes no
    environment."""
    pretend = "import sys; sys.version_info = (3, 10, 0); exec(sys.argv.pop())"
    made = run_make_demo(tmp_path, f'exec "{sys.executable}" -c "{pretend}" "$2"')
    assert made.returncode != 0
    assert made.stdout == ""
    assert made.stderr.startswith("Python 3.11 or later is needed")
    assert not (tmp_path / "venv").exists()


def test_making_the_environment_is_announced(tmp_path: Path) -> None:
    """`make demo` announces the creation of the environment before it begins."""
    made = run_make_demo(tmp_path, 'test "$2" != venv')
    assert made.returncode != 0
    assert made.stdout == f"Making the environment {tmp_path}/venv...\n"


def run_make_demo(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Run `make demo` with a Python that is a shell command, and an environment in the folder."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{python}\n", encoding="utf-8")
    path.chmod(0o755)
    return subprocess.run(
        ["make", "-s", "demo", f"PY={path}", f"V={folder}/venv"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
