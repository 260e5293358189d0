"""docs/reference and the promised names of the core."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import staffbooking_core
from tests.docs.reference_pages import FOLDER, PAGES, ROOT, promised_modules, render_pages
from tests.support.garbage import no_collection
from tests.support.npm_packages import install_npm_packages

STUB = ROOT / "staffbooking_core" / "__init__.pyi"
NPM = ROOT / "tests" / "architecture" / "npm"


@pytest.mark.parametrize("page", ["README.md", *(f"{name}.md" for name in PAGES)])
def test_a_page_is_generated(page: str) -> None:
    """A page of the reference equals the generated one; `make docs` remakes it."""
    with no_collection():
        pages = render_pages()
    assert (FOLDER / page).read_text(encoding="utf-8") == pages[page]


def test_no_other_page_is_there() -> None:
    """docs/reference has the generated pages and no others."""
    assert {path.name for path in FOLDER.iterdir()} == set(render_pages())


def test_every_promised_module_has_a_page() -> None:
    """Each module of the core that promises names belongs to a page."""
    parts = {part for part, _, _ in PAGES.values()}
    found = {module.name.partition(".")[0] for module in promised_modules()}
    assert found == parts


def test_a_field_is_explained() -> None:
    """The docstring below a field is shown below it."""
    field = '    country: str = "US"\n    """Default country of payout accounts'
    assert field in render_pages()["policy.md"]


def test_inputs_are_built_by_name() -> None:
    """The outline of an input says that its fields are given by name."""
    assert "@frozen(kw_only=True)\nclass Register:" in render_pages()["inputs.md"]


@pytest.mark.parametrize("name", ["Name", "LongText", "Rate", "TextBounds", "MAX_ID"])
def test_limits_of_inputs_are_shown(name: str) -> None:
    """A type with bounds, what the bounds mean, and a limit are on the page that speaks of them."""
    _, _, shown = render_pages()["inputs.md"].partition("## Other names")
    assert re.search(rf"^({name} = |class {name}:)", shown, re.MULTILINE)


def test_every_module_promises_what_it_defines() -> None:
    """Each name in an `__all__` of the core exists and is defined or imported in that module."""
    for module in promised_modules():
        loaded = importlib.import_module(f"staffbooking_core.{module.name}")
        assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []


def test_the_names_of_the_core_are_promised_where_they_are_defined() -> None:
    """Each name of `staffbooking_core` is in the `__all__` of the module that defines it."""
    missing = [
        name
        for name, module in staffbooking_core._MODULE_BY_NAME.items()  # type: ignore[attr-defined]
        if name not in importlib.import_module(f"staffbooking_core.{module}").__all__
    ]
    assert missing == []


def test_type_checkers_see_the_same_names() -> None:
    """The stub of `staffbooking_core` imports each name from the module that defines it."""
    seen = {
        alias.name: node.module
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = staffbooking_core._MODULE_BY_NAME  # type: ignore[attr-defined]
    rooms = dict.fromkeys(staffbooking_core._ROOMS, "staffbooking_core")  # type: ignore[attr-defined]
    assert seen == {
        **{name: f"staffbooking_core.{module}" for name, module in homes.items()},
        **rooms,
    }


def test_a_deprecated_name_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deprecated name gives what replaces it, with a DeprecationWarning."""
    monkeypatch.setitem(
        staffbooking_core._DEPRECATED,  # type: ignore[attr-defined]
        "Caller",
        "Actor",
    )

    with pytest.warns(DeprecationWarning, match="Caller is deprecated: use Actor"):
        assert staffbooking_core.Caller is staffbooking_core.Actor  # type: ignore[attr-defined]


def test_the_core_loads_attrs_alone() -> None:
    """All modules of the core together load no other package than attrs, and need no module that
    Windows lacks."""
    program = """
import pkgutil, sys
sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios", "uvloop")))
import staffbooking_core
known = set(sys.modules)
for module in pkgutil.walk_packages(staffbooking_core.__path__, "staffbooking_core."):
    __import__(module.name)
loaded = {name.partition(".")[0] for name in set(sys.modules) - known}
print(*sorted(name for name in loaded - sys.stdlib_module_names if name[0] != "_"))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["attr attrs staffbooking_core"]


def test_every_promised_type_is_known(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """A type checker of programs that embed the core knows the type of each of its symbols."""
    folder = install_npm_packages(pytestconfig, NPM, "the types of the core")
    shutil.copytree(ROOT / "staffbooking_core", tmp_path / "staffbooking_core")
    command = [
        *("node", str(folder / "node_modules" / "pyright" / "index.js")),
        *("--pythonpath", sys.executable),
        *("--verifytypes", "staffbooking_core", "--ignoreexternal"),
    ]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Type completeness score: 100%" in ran.stdout, ran.stdout[-3000:]
