"""docs/adapters.md: its adapters pass their contracts, run as their readers would run them."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import fields

from staffbooking_core.ports import ReadView, Transaction
from tests.support.pytest_runs import without_other_plugins

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOTIFIER, MAIL_SERVICE, PROCESSOR, BENCH, FAMILY, OPENER, FILES, PROGRAM, OWN, STRATEGY = BLOCKS
CONFTEST = """
from hypothesis import HealthCheck, settings

pytest_plugins = ["staffbooking_adapters.testing.plugin"]
options = {"max_examples": 10, "deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("page", **options)
settings.load_profile("page")
"""
"""Examples that are slow on a busy machine are no failures. A few show that the program works."""
OWN_SUITES = ("Saved", "Transactions", "OpenTransactions", "Families")
"""The suites of the store that concern what is its own; the rest of it is the memory store."""

MODULES = {
    "notifier": [NOTIFIER, MAIL_SERVICE],
    "processor": [PROCESSOR, BENCH],
    "store": [FAMILY, OPENER],
    "files": [FILES],
    "program": [PROGRAM],
    "own": [PROCESSOR, OWN],
    "strategy": [STRATEGY],
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Counter[str]]:
    """How often each outcome came, by module of the page."""
    folder = tmp_path_factory.mktemp("adapters")
    for name, blocks in MODULES.items():
        (folder / f"test_{name}.py").write_text("\n".join(blocks), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "till.py", folder)
    (folder / "conftest.py").write_text(CONFTEST)
    chosen = [f"{folder}/test_{name}.py" for name in MODULES if name != "store"]
    chosen += [f"{folder}/test_store.py::Test{suite}Contract" for suite in OWN_SUITES]
    options = ["-v", "-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider"]
    options += ["-p", "anyio"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen],
        cwd=ROOT,
        env=without_other_plugins(),
        capture_output=True,
        text=True,
        check=False,
    )
    counted: dict[str, Counter[str]] = {name: Counter() for name in MODULES}
    for name, outcome in re.findall(r"test_(\w+)\.py::.* ([A-Z]+) +\[", ran.stdout):
        counted[name][outcome] += 1
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return counted


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("notifier", 8),
        ("processor", 60),
        ("store", 20),
        ("files", 20),
        ("program", 1),
        ("own", 1),
        ("strategy", 1),
    ],
)
def test_the_page_works(outcomes: Mapping[str, Counter[str]], name: str, least: int) -> None:
    """Each adapter of the page passes the whole of its contract, and so do the page's tests."""
    assert outcomes[name].keys() == {"PASSED"}
    assert outcomes[name]["PASSED"] >= least


def test_adapters_are_as_short_as_the_page_says() -> None:
    """The processor has the stated number of lines, below 150; the notifier's class has 15."""
    lines = PROCESSOR.strip().splitlines()
    assert f"{len(lines)} lines" in PAGE
    assert len(lines) < 150
    notifier = [line for line in NOTIFIER.partition("class ")[2].splitlines() if line.strip()]
    assert len(notifier) == 15


def test_each_contract_of_the_table_is_there() -> None:
    """The table names all contracts of the kit."""
    listed = re.findall(r"^\| `\w+` \| `(\w+)\.(\w+)`", PAGE, re.MULTILINE)
    for module, contract in listed:
        kit = importlib.import_module(f"staffbooking_adapters.testing.{module}")
        assert contract in kit.__all__
    assert len(listed) == 10


def test_the_table_of_families_names_families() -> None:
    """Each family in the table of families is one of a store."""
    table = PAGE.partition("| Family |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table)) - {"backlog"}
    assert named <= {each.name for each in (*fields(ReadView), *fields(Transaction))}
