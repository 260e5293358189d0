"""Finds the names of the core that stand in promised definitions without being promised.

A reader of the reference meets them in fields and signatures: types with bounds, such as `Name` of
`inputs`, and constants in default values. They are read from the sources.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

from attrs import frozen

CORE = Path(__file__).parents[2] / "staffbooking_core"


@frozen
class Source:
    """A module of the core as it is written."""

    name: str
    """Dotted, below `staffbooking_core`."""
    text: str
    tree: ast.Module

    @cached_property
    def promised(self) -> list[str]:
        """The names in `__all__`."""
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as value):
                    return list(ast.literal_eval(value))
        return []

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The definitions of the module by name."""
        return {name: node for node in self.tree.body for name in names_of(node)}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """The module and the name of each name that is imported from another module of the core."""
        return {
            alias.asname or alias.name: (node.module.removeprefix("staffbooking_core."), alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            and node.module is not None
            and node.module.startswith("staffbooking_core.")
            for alias in node.names
        }


@cache
def core_sources() -> dict[str, Source]:
    """All modules of the core by name, in the order of their paths."""
    found = {}
    for path in sorted({*CORE.rglob("*.py")} - {CORE / "__init__.py"}):
        name = ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        found[name] = Source(name, text, ast.parse(text))
    return found


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=several)]):
            return [each.id for each in several if isinstance(each, ast.Name)]
    return []


def unpromised_names(module: str, nodes: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The modules and names that definitions of a module speak of, over any number of steps, and
    that no module promises. A name comes after those that its own definition speaks of."""
    found: dict[tuple[str, str], None] = {}

    def follow(module: str, node: ast.stmt) -> None:
        for name in _mentioned(node):
            home = _home_of(module, name)
            if home is not None and home not in found and home not in visited:
                visited.add(home)
                follow(home[0], core_sources()[home[0]].definitions[home[1]])
                found[home] = None

    visited: set[tuple[str, str]] = set()
    for node in nodes:
        follow(module, node)
    yield from found


def _home_of(module: str, name: str) -> tuple[str, str] | None:
    """Where an unpromised alias, class or constant is defined; None for what is promised, for a
    function, and for names of other packages."""
    while (source := core_sources().get(module)) is not None:
        node = source.definitions.get(name)
        if name in source.promised or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if node is not None:
            return module, name
        if name not in source.imports:
            return None
        module, name = source.imports[name]
    return None


def _mentioned(node: ast.stmt) -> Iterator[str]:
    """The names in what the outline of a definition shows."""
    for part in _shown(node):
        yield from (each.id for each in ast.walk(part) if isinstance(each, ast.Name))


def _shown(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.ClassDef():
            yield from node.bases
            for each in node.body:
                if not any(name.startswith("_") and name != "__init__" for name in names_of(each)):
                    yield from _shown(each)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.args
            if node.returns is not None:
                yield node.returns
        case ast.Assign() | ast.AnnAssign():
            yield node
