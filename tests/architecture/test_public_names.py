"""The number of public names is limited, and each public class has a unique name.

A public name is a class, function, constant or alias that a module of the five packages defines
at its top level without a leading underscore (migrations aside). It is not public if

- the module has an `__all__` without it, or
- the module is internal: a package above it has an `__all__` that names modules, and not this one.

Internal modules are imported only within the package that keeps them: the outermost one above
them whose `__all__` names modules. Tests and benchmarks may import everything.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.garbage import no_collection

ROOT = Path(__file__).parents[2]
PACKAGES = [f"staffbooking_{name}" for name in ("core", "adapters", "http", "cli", "worker")]
MAX_PUBLIC_NAMES = 1_935
STORES = {"staffbooking_adapters.memory", "staffbooking_adapters.sql"}
CLIENT = "staffbooking_http.client"
IMPORT_LINE = re.compile(r"^(?:from|import) (staffbooking_[\w.]+)(?: import (\w+))?", re.M)


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax trees of the five packages by dotted name, without migrations."""
    found = {}
    with no_collection():
        for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" not in parts:
                name = ".".join(parts).removesuffix(".__init__")
                found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def defined_names(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements at the top level of a module define; imports define none."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
            case ast.If(body=inner) | ast.Try(body=inner) | ast.With(body=inner):
                yield from defined_names(inner)


@cache
def exported_names(module: str) -> frozenset[str] | None:
    """The `__all__` of a module, or None without one."""
    for node in modules()[module].body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return frozenset(importlib.import_module(module).__all__)
    return None


@cache
def exported_modules(package: str) -> frozenset[str]:
    """The modules of a package that its `__all__` names."""
    exported = exported_names(package) or frozenset()
    return frozenset(name for name in exported if f"{package}.{name}" in modules())


@cache
def keeper_of(module: str) -> str | None:
    """The package to which a module is internal, or None for a public module."""
    parts = module.split(".")
    listing = [
        (package, parts[depth])
        for depth in range(1, len(parts))
        for package in [".".join(parts[:depth])]
        if exported_modules(package)
    ]
    if all(child in exported_modules(package) for package, child in listing):
        return None
    return listing[0][0]


def public_names(module: str) -> set[str]:
    defined = {name for name in defined_names(modules()[module].body) if name[0] != "_"}
    exported = exported_names(module)
    return defined if exported is None or exported_modules(module) else defined & exported


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{each.name}" for each in names)


def leaks(importer: str, imported: str) -> bool:
    """Whether a module imports an internal module of another package."""
    keeper = keeper_of(imported) if imported in modules() else None
    return keeper is not None and not f"{importer}.".startswith(f"{keeper}.")


def test_few_names_are_public() -> None:
    """The five packages have at most `MAX_PUBLIC_NAMES` public names."""
    counted = {
        module: len(public_names(module)) for module in modules() if keeper_of(module) is None
    }
    assert sum(counted.values()) <= MAX_PUBLIC_NAMES


def test_internal_modules_stay_inside() -> None:
    """No module imports an internal module of another package."""
    found = {
        f"{module} -> {imported}"
        for module, tree in modules().items()
        for imported in imported_modules(tree)
        if leaks(module, imported)
    }
    assert sorted(found) == []


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in (ROOT / "docs").glob("*"))])
def test_documents_import_public_modules(page: str) -> None:
    """Examples in the documents use no internal module."""
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    text = path.read_text(encoding="utf-8") if path.suffix == ".md" else ""
    imported = {
        name
        for module, member in IMPORT_LINE.findall(text)
        for name in (module, f"{module}.{member}")
        if leaks("an embedder", name)
    }
    assert imported == set()


def test_a_planted_leak_is_seen() -> None:
    """An internal module may be imported within its package and not from another one."""
    internal = "staffbooking_adapters.sql.engine.statements"
    assert keeper_of(internal) == "staffbooking_adapters.sql"
    assert not leaks("staffbooking_adapters.sql.store", internal)
    assert leaks("staffbooking_adapters.wiring", internal)
    assert not leaks("staffbooking_adapters.wiring", "staffbooking_adapters.sql.engine.open")


def test_each_public_class_has_its_own_name() -> None:
    """No two public classes have one name, except one each in the memory and SQL stores. The
    client, which other programs use without the rest, may name its classes as the core does."""
    places: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in () if module.startswith(CLIENT) else tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                places.setdefault(node.name, []).append(".".join(module.split(".")[:2]))
    twice = {
        name: where
        for name, where in places.items()
        if max(Counter(where).values()) > 1 or (len(where) > 1 and not set(where) <= STORES)
    }
    assert twice == {}
