"""Generates docs/reference: each promised name of the core with its signature and what it is for.

    python -m tests.docs.reference_pages

A module of the core promises the names in its `__all__`. The pages are read from the sources, so
that types appear as they were written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

from attrs import frozen

ROOT = Path(__file__).parents[2]
CORE = ROOT / "staffbooking_core"
FOLDER = ROOT / "docs" / "reference"

PAGES = {
    "values": ("domain", "Values", "What use-cases and ports take and return."),
    "bounds": ("bounds", "Bounds", "What stands for an absent field."),
    "errors": ("errors", "Errors", "Each has a `code`, and a message for people."),
    "inputs": ("inputs", "Inputs", "What people and programs enter; the use-cases check it."),
    "operator-inputs": ("operator_inputs", "Inputs of operators", "What operators decide."),
    "policy": ("policy", "Policy", "The rules that a deployment may change."),
    "ports": ("ports", "Ports", "What a deployment brings: implement them, or take adapters."),
    "records": ("representations", "Records", "What an HTTP service answers with."),
    "usecases": ("usecases", "Use-cases", "What people, programs and workers do."),
    "webhook-receiver": ("webhook_receiver", "Webhook receiver", "For those who get webhooks."),
}
"""The pages by file name: the part of the core, the title and the first sentence."""

_HEAD = """\
# Reference: the core

These are the promised names of `staffbooking_core` ([what is promised](../stability.md)). Names
that are not here may change at any time. Values, errors and the ports of `Ports` are names of
`staffbooking_core` itself:

```python
from staffbooking_core import Actor, Booking, NotFound, Ports, Role, inputs, run_all_due
from staffbooking_core.usecases.bookings import actions
```

Which status an HTTP service gives each error: [embedding](../embedding.md#errors).

| Page | |
|---|---|
"""


@frozen
class Module:
    """A module of the core and what it promises."""

    name: str
    """Dotted, below `staffbooking_core`."""
    text: str
    """The source."""
    nodes: list[ast.stmt]
    """The definitions of the promised names, in the order of `__all__`."""


def promised_modules() -> Iterator[Module]:
    """The modules of the core that promise something."""
    for path in sorted({*CORE.rglob("*.py")} - {CORE / "__init__.py"}):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        name = ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")
        defined = {name: node for node in tree.body for name in _names_of(node)}
        nodes = [defined[each] for each in _exported(tree) if each in defined]
        if nodes:
            yield Module(name, text, nodes)


def _exported(tree: ast.Module) -> list[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as value):
                return list(ast.literal_eval(value))
    return []


def _names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


@cache
def render_pages() -> dict[str, str]:
    """The text of each page by its file name."""
    modules = list(promised_modules())
    pages = {}
    index = _HEAD
    for file, (part, title, purpose) in PAGES.items():
        found = [each for each in modules if each.name.partition(".")[0] == part]
        pages[f"{file}.md"] = "\n".join(_render_page(title, purpose, found))
        index += f"| [{title}]({file}.md) | {purpose} |\n"
    return {"README.md": index, **pages}


def _render_page(title: str, purpose: str, modules: list[Module]) -> Iterator[str]:
    yield f"# {title}\n\n{purpose} [All pages](README.md)\n"
    for module in modules:
        yield f"## `staffbooking_core.{module.name}`\n"
        if description := _first_paragraph(module.text):
            yield f"{description}\n"
        for node in module.nodes:
            is_port = module.name.partition(".")[0] == "ports"
            yield from _render_name(module.text, node, is_port=is_port)


def _render_name(text: str, node: ast.stmt, *, is_port: bool) -> Iterator[str]:
    yield f"### `{_names_of(node)[0]}`\n"
    match node:
        case ast.ClassDef():
            yield f"```python\n{_class_outline(text, node, is_told=is_port)}\n```\n"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield f"```python\n{_signature(text, node)}\n```\n"
        case _:
            yield f"```python\n{_source(text, node)}\n```\n"
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        told := ast.get_docstring(node)
    ):
        yield f"{told}\n"


def _class_outline(text: str, node: ast.ClassDef, *, is_told: bool) -> str:
    """The class with its bases, fields, values and the signatures of its public methods; with their
    docstrings where the reader has to keep what they say."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                lines.append(indent(_source(text, each), "    "))
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                lines.append(indent(_source(text, each), "    "))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                not name.startswith("_") or name == "__init__"
            ):
                decorators = "".join(f"    @{ast.unparse(d)}\n" for d in each.decorator_list)
                lines.append(decorators + indent(_signature(text, each), "    "))
                if is_told and ast.get_docstring(each):
                    lines[-1] += ":\n" + indent(_source(text, each.body[0]), "        ")
    return "\n".join(lines if len(lines) > 1 else [*lines, "    ..."])


def _signature(text: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The signature as it is written, without its colon."""
    lines = text.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    return dedent("\n".join(lines)).rstrip(":")


def _source(text: str, node: ast.stmt) -> str:
    return dedent("\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno]))


def _first_paragraph(text: str) -> str:
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in render_pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
