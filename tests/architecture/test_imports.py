"""Import rules: the contracts of pyproject.toml hold, and a violation of each is found.

The contracts name packages and frameworks. What import-linter cannot express (the modules of the
standard library that the core may import) is read from the syntax trees here.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [f"staffbooking_{name}" for name in ("core", "adapters", "http", "cli", "worker")]
LINT = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"

PLANTED = {
    "a framework in the domain": ("staffbooking_core/domain/planted.py", "sqlalchemy"),
    "a framework in a use-case": ("staffbooking_core/usecases/planted.py", "litestar"),
    "a use-case in the domain": (
        "staffbooking_core/domain/planted.py",
        "staffbooking_core.usecases",
    ),
    "ports in the domain": ("staffbooking_core/domain/planted.py", "staffbooking_core.ports"),
    "a use-case in the ports": ("staffbooking_core/ports.py", "staffbooking_core.usecases"),
    "the domain in the errors": (
        "staffbooking_core/errors.py",
        "staffbooking_core.domain.shared.money",
    ),
    "an adapter in the core": ("staffbooking_core/usecases/planted.py", "staffbooking_adapters"),
    "an adapter in an adapter": (
        "staffbooking_adapters/sql/planted.py",
        "staffbooking_adapters.memory",
    ),
    "an adapter in the codec": ("staffbooking_adapters/codec.py", "staffbooking_adapters.sql"),
    "a runner in an adapter": ("staffbooking_adapters/sql/planted.py", "staffbooking_http"),
    "the worker in HTTP": ("staffbooking_http/planted.py", "staffbooking_worker"),
    "HTTP in the worker": ("staffbooking_worker/planted.py", "staffbooking_http"),
    "the command line in the worker": ("staffbooking_worker/planted.py", "staffbooking_cli"),
    "bookings in the shared values": (
        "staffbooking_core/domain/shared/planted.py",
        "staffbooking_core.domain.bookings",
    ),
    "bookings in the accounts": (
        "staffbooking_core/usecases/accounts/planted.py",
        "staffbooking_core.usecases.bookings",
    ),
    "a table in the SQL engine": (
        "staffbooking_adapters/sql/engine/planted.py",
        "staffbooking_adapters.sql.schema",
    ),
    "a family in the memory state": (
        "staffbooking_adapters/memory/state.py",
        "staffbooking_adapters.memory.store",
    ),
    "a route in the api": ("staffbooking_http/api/planted.py", "staffbooking_http.routes"),
    "an adapter in HTTP": ("staffbooking_http/planted.py", "staffbooking_adapters.sql"),
    "an adapter in the command line": (
        "staffbooking_cli/planted.py",
        "staffbooking_adapters.memory",
    ),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's result for the tree in `folder`, by the contracts in it."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        env={"COLUMNS": "200", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the packages and their contracts, which tests can change."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_are_kept() -> None:
    """The tree keeps all ten contracts."""
    verdict = lint(ROOT)
    assert verdict.returncode == 0, verdict.stdout
    assert verdict.stdout.count("KEPT") == 10


@pytest.mark.parametrize(("place", "imported"), PLANTED.values(), ids=PLANTED)
def test_a_planted_import_breaks_a_contract(copy: Path, place: str, imported: str) -> None:
    """A forbidden import breaks a contract and is reported with its module."""
    with (copy / place).open("a") as file:
        file.write(f"\nimport {imported}\n")
    verdict = lint(copy)
    assert verdict.returncode == 1
    assert "BROKEN" in verdict.stdout
    importer = place.removesuffix(".py").replace("/", ".")
    assert f"{importer} -> {imported} (l." in verdict.stdout


def modules(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def imported_roots(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the top-level name of each absolute import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]


def test_the_core_imports_the_standard_library_and_attrs() -> None:
    """The core imports only itself, the standard library and attrs."""
    allowed = sys.stdlib_module_names | {"attr", "attrs", "staffbooking_core"}
    found = [
        f"{path}:{line} {root}"
        for path, tree in modules("staffbooking_core")
        for line, root in imported_roots(tree)
        if root not in allowed
    ]
    assert found == []


def test_the_core_imports_no_system_modules() -> None:
    """The core imports no module for event loops, sockets, files, threads, clocks or random
    numbers."""
    forbidden = {"asyncio", "os", "pathlib", "random", "secrets", "socket", "threading", "time"}
    found = [
        f"{path}:{line} {root}"
        for path, tree in modules("staffbooking_core")
        for line, root in imported_roots(tree)
        if root in forbidden
    ]
    assert found == []


CLOCK_READS = {
    f"{module}{name}"
    for module in ("", "datetime.", "dt.")
    for name in ("datetime.now", "datetime.today", "datetime.utcnow", "date.today")
} | {"time.time", "time.time_ns"}


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of each call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def test_only_the_clock_port_reads_the_time() -> None:
    """Core, HTTP and worker do not read the clock of the machine."""
    found = [
        f"{path}:{line} {name}()"
        for path, tree in modules("staffbooking_core", "staffbooking_http", "staffbooking_worker")
        for line, name in calls(tree)
        if name in CLOCK_READS
    ]
    assert found == []


def test_the_core_opens_no_file() -> None:
    """The core does not call open()."""
    found = [
        f"{path}:{line}"
        for path, tree in modules("staffbooking_core")
        for line, name in calls(tree)
        if name in ("open", "io.open")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("from datetime import datetime\nnow = datetime.now(tz)", "datetime.now"),
        ("import datetime as dt\ntoday = dt.date.today()", "dt.date.today"),
        ("import time\nstarted = time.time()", "time.time"),
    ],
)
def test_a_planted_clock_read_is_seen(source: str, read: str) -> None:
    """The rule finds each way to read the clock."""
    assert [name for _, name in calls(ast.parse(source)) if name in CLOCK_READS] == [read]
