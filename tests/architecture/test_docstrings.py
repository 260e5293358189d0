"""Public definitions of ports and use-cases have docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTED_PACKAGES = ("staffbooking_core/ports", "staffbooking_core/usecases")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """The public classes and functions of a module, and the public methods of its classes."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def undocumented(source: str) -> list[str]:
    """The names without a docstring; `module` for the module itself."""
    tree = ast.parse(source)
    missing = [node.name for node in public_definitions(tree) if not ast.get_docstring(node)]
    return missing if ast.get_docstring(tree) else ["module", *missing]


@pytest.mark.parametrize("package", DOCUMENTED_PACKAGES)
def test_public_definitions_have_docstrings(package: str) -> None:
    """Every module, public class, function and method of a package has a docstring."""
    missing = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / package).rglob("*.py"))
        if (names := undocumented(path.read_text(encoding="utf-8")))
    }
    assert missing == {}


def test_missing_docstrings_are_seen() -> None:
    """The rule finds a module, class, method and function without a docstring."""
    planted = (
        "class Port:\n    def read(self): ...\n\n\nasync def write(): ...\n\n\ndef _own(): ...\n"
    )
    assert undocumented(planted) == ["module", "Port", "read", "write"]
