"""The Bruno collection of docs/bruno is that of the document."""

from __future__ import annotations

import re

from tests.docs.bruno_collection import FOLDER, LIFE, VARIABLES, calls, render_files

FILES = render_files()
VARIABLE = re.compile(r"\{\{(\w+)\}\}")


def text_of(step_name: str) -> str:
    return FILES[f"The life of a booking/{step_name}.bru"]


def test_the_collection_is_that_of_the_document() -> None:
    """docs/bruno has the files that `make docs` makes, and no others."""
    found = {
        str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    assert found == FILES


def test_each_call_has_its_request() -> None:
    """Each call of the document but the channel's has one request, with its method and path."""
    requests = re.findall(
        r"^(get|post|put|patch|delete) \{\n  url: \{\{base\}\}([^?\n]+)",
        "\n".join(text for path, text in FILES.items() if "life of a booking" not in path),
        re.M,
    )
    assert sorted(requests) == sorted(
        (call.method, re.sub(r"\{(\w+)\}", r":\1", call.path)) for call in calls().values()
    )


def test_the_life_uses_what_it_has() -> None:
    """Each variable of the life of a booking is of the environment, or kept by a call before."""
    known = {*VARIABLES, "key"}
    for step in LIFE:
        assert set(VARIABLE.findall(text_of(step.name))) <= known, step.name
        known |= step.keeps.keys()


def test_blocks_are_closed() -> None:
    """A block begins and ends at the start of a line and what is in it is indented, so that no
    text of the document ends it."""
    outer = [
        line
        for path, text in FILES.items()
        if path.endswith(".bru")
        for line in text.splitlines()
        if line and line[0] != " "
    ]
    assert set(outer[1::2]) == {"}", "]"}
    assert all(re.fullmatch(r"[\w:-]+ [{\[]", line) for line in outer[::2])
