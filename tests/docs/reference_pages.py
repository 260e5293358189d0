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

from tests.docs.reference_names import Source, core_sources, names_of, unpromised_names

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"

PAGES = {
    "values": ("domain", "Values", "What use-cases and ports take and return."),
    "bounds": ("bounds", "Bounds", "What stands for an absent field."),
    "errors": ("errors", "Errors", "Each has a `code`, and a message for people."),
    "inputs": (
        "inputs",
        "Inputs",
        "What people and programs enter, each field by its name; the use-cases check it.",
    ),
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
that are not here, or only among the *other names* of a page, may change at any time.
Values, errors and the ports of `Ports` are names of `staffbooking_core` itself:

```python
from staffbooking_core import Actor, Booking, NotFound, Ports, Role, inputs, run_all_due
from staffbooking_core.usecases.bookings import actions
```

Citations such as CONTRACT 4 are sections of the [contract](../contract.md), those such as
SPECIFICATION 4.2 are sections of the [specification](../specification.md) of the interface.

Which status an HTTP service gives each error: [embedding](../embedding.md#errors).

| Page | |
|---|---|
"""


_OTHERS = """\
They stand in the definitions above and are shown for their fields, values and limits. A release may
rename what is in no `__all__`, so do not import it."""


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
    for source in core_sources().values():
        defined = source.definitions
        nodes = [defined[each] for each in source.promised if each in defined]
        if nodes:
            yield Module(source.name, source.text, nodes)


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
    others = _other_names(modules)
    if others:
        yield "Names that have no entry of their own are [at the end](#other-names) of the page.\n"
    for module in modules:
        yield f"## `staffbooking_core.{module.name}`\n"
        if description := _first_paragraph(module.text):
            yield f"{description}\n"
        for node in module.nodes:
            yield from _render_name(module.text, node)
    if others:
        yield f"## Other names\n\n{_OTHERS}\n"
    for name, outlines in others.items():
        yield f"### In `staffbooking_core.{name}`\n"
        yield "```python\n" + "\n".join(outlines).strip().replace("\n\n\n", "\n\n") + "\n```\n"


def _other_names(modules: list[Module]) -> dict[str, list[str]]:
    """The outlines of the names that the definitions of a page speak of and nobody promises, by
    module, in the order of the source."""
    found = {home for each in modules for home in unpromised_names(each.name, each.nodes)}
    outlines: dict[str, list[str]] = {}
    for source in core_sources().values():
        for node in source.tree.body:
            if any((source.name, name) in found for name in names_of(node)):
                outlines.setdefault(source.name, []).append(_outline(source, node))
    return outlines


def _outline(source: Source, node: ast.stmt) -> str:
    """A definition in a block of several: a class with its docstring, an alias or a constant with
    the string below it."""
    if isinstance(node, ast.ClassDef):
        return f"\n{_class_outline(source.text, node, is_told=True)}\n"
    following = source.tree.body[source.tree.body.index(node) + 1 :][:1]
    told = [_source(source.text, each) for each in following if _is_docstring(each)]
    return "\n".join([_source(source.text, node), *told])


def _render_name(text: str, node: ast.stmt) -> Iterator[str]:
    yield f"### `{names_of(node)[0]}`\n"
    match node:
        case ast.ClassDef():
            yield f"```python\n{_class_outline(text, node)}\n```\n"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield f"```python\n{_signature(text, node)}\n```\n"
        case _:
            yield f"```python\n{_source(text, node)}\n```\n"
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        told := ast.get_docstring(node)
    ):
        yield f"{told}\n"


def _class_outline(text: str, node: ast.ClassDef, *, is_told: bool = False) -> str:
    """The class with its decorators, bases, fields, values and the signatures of its public
    methods, each with its docstring; with its own docstring if it is told here."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"@{ast.unparse(each)}" for each in node.decorator_list]
    lines += [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    told = [_source(text, node.body[0])] if is_told and ast.get_docstring(node) else []
    members = [*told, *_members(text, node)] or ["..."]
    return "\n".join([*lines, *(indent(each, "    ") for each in members)])


def _members(text: str, node: ast.ClassDef) -> Iterator[str]:
    for each, following in zip(node.body, [*node.body[1:], None], strict=True):
        yield from _heading(text, each)
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if not name.startswith("_"):
                    yield _source(text, each)
                    if following is not None and _is_docstring(following):
                        yield _source(text, following)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_") or name == "__init__":
                    yield from (f"@{ast.unparse(one)}" for one in each.decorator_list)
                    told = ast.get_docstring(each) is not None
                    yield _signature(text, each) + ":" * told
                    if told:
                        yield indent(_source(text, each.body[0]), "    ")


def _heading(text: str, node: ast.stmt) -> Iterator[str]:
    """The comment line above a member, which names the part of the class that begins there."""
    above = text.splitlines()[: node.lineno - 1][-2:]
    if len(above) == 2 and not above[0].strip() and above[1].strip().startswith("# "):
        yield "\n" + above[1].strip().rstrip("- ")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


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
