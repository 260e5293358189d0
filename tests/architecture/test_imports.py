"""Import rules: the contracts of pyproject.toml hold, and a violation of each is found.

The contracts name packages and frameworks. What import-linter cannot express (the modules of the
standard library that the core may import) is read from the syntax trees here.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from attrs import frozen

from tests.support.garbage import no_collection

ROOT = Path(__file__).parents[2]
PACKAGES = [f"staffbooking_{name}" for name in ("core", "adapters", "http", "cli", "worker")]
LINT = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from importlinter.cli import lint_imports_command

def lint():
    done = CliRunner().invoke(lint_imports_command, ["--no-cache", "--no-logo"])
    return done.exit_code, done.stdout

verdicts = [lint()]
for place, imported in json.load(sys.stdin):
    with Path(place).open("a") as file:
        file.write(f"\\nimport {imported}\\n")
print(json.dumps([*verdicts, lint()]))
"""
"""Reports on the tree, then on the tree with all planted imports; in one process, since the linter
takes longer to load than to run."""

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


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """The linter's exit code and report on a copy of the packages: as they are, and with all
    planted imports."""
    copy = tmp_path_factory.mktemp("planted")
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", copy)
    ran = subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=copy,
        env={"COLUMNS": "200", "PATH": ""},
        input=json.dumps([*PLANTED.values()]),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[tuple[int, str]] = json.loads(ran.stdout)
    return found


def test_the_contracts_are_kept(verdicts: list[tuple[int, str]]) -> None:
    """The tree keeps all ten contracts."""
    code, report = verdicts[0]
    assert code == 0, report
    assert report.count("KEPT") == 10


def arrow(place: str, imported: str) -> str:
    """An import as the linter's report names it."""
    return f"{place.removesuffix('.py').replace('/', '.')} -> {imported}"


def chains_in(report: str) -> Iterator[list[str]]:
    """The chains of imports that the report calls illegal, without the numbers of their lines."""
    for chain in re.findall(r"^- +.* -> .*\n(?: +.* -> .*\n)*", report, re.MULTILINE):
        yield re.findall(r"(\S+ -> \S+) \(l\.", chain)


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_import_breaks_a_contract(
    verdicts: list[tuple[int, str]], planted: tuple[str, str]
) -> None:
    """A forbidden import breaks a contract and is reported with its module: it begins a chain in
    which no other one was planted."""
    code, report = verdicts[1]
    others = {arrow(*each) for each in PLANTED.values()} - {arrow(*planted)}
    assert code == 1
    assert "BROKEN" in report
    assert any(chain[0] == arrow(*planted) and not others & {*chain} for chain in chains_in(report))


@frozen
class Module:
    """What the rules ask about a module."""

    path: Path
    """Relative to the project."""
    roots: list[tuple[int, str]]
    """The line and the top-level name of each absolute import."""
    calls: list[tuple[int, str]]
    """The line and the dotted name of each call of a name."""


@cache
def modules() -> list[Module]:
    """The modules of core, HTTP and worker."""
    found = []
    with no_collection():
        for package in ("staffbooking_core", "staffbooking_http", "staffbooking_worker"):
            for path in sorted((ROOT / package).rglob("*.py")):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                roots, called = [*imported_roots(tree)], [*calls(tree)]
                found.append(Module(path.relative_to(ROOT), roots, called))
    return found


def core_modules() -> list[Module]:
    return [module for module in modules() if module.path.parts[0] == "staffbooking_core"]


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
        f"{module.path}:{line} {root}"
        for module in core_modules()
        for line, root in module.roots
        if root not in allowed
    ]
    assert found == []


def test_the_core_imports_no_system_modules() -> None:
    """The core imports no module for event loops, sockets, files, threads, clocks or random
    numbers."""
    forbidden = {"asyncio", "os", "pathlib", "random", "secrets", "socket", "threading", "time"}
    found = [
        f"{module.path}:{line} {root}"
        for module in core_modules()
        for line, root in module.roots
        if root in forbidden
    ]
    assert found == []


CLOCK_READS = {
    f"{module}{name}"
    for module in ("", "datetime.", "dt.")
    for name in ("datetime.now", "datetime.today", "datetime.utcnow", "date.today")
} | {"time.time", "time.time_ns"}


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of each call of a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, dotted_name(node.func)


def dotted_name(node: ast.expr) -> str:
    """`a.b.c`; what is no name is empty. `ast.unparse` would take ten times as long."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted_name(value)}.{attribute}"
    return ""


def test_only_the_clock_port_reads_the_time() -> None:
    """Core, HTTP and worker do not read the clock of the machine."""
    found = [
        f"{module.path}:{line} {name}()"
        for module in modules()
        for line, name in module.calls
        if name in CLOCK_READS
    ]
    assert found == []


def test_the_core_opens_no_file() -> None:
    """The core does not call open()."""
    found = [
        f"{module.path}:{line}"
        for module in core_modules()
        for line, name in module.calls
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
