"""One call to an endpoint, and what the endpoints have in common: lists and expansion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from tests.stripe_stub.errors import Refusal, missing
from tests.stripe_stub.state import Books, Doc


@frozen
class Call:
    """`ids` are those of the path, in order; `params` are checked against the contract."""

    path: str
    ids: Sequence[str]
    params: dict[str, Any]


Handler = Callable[[Books, Call], Doc]

PAGING = frozenset({"limit", "starting_after", "ending_before", "expand"})
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "gt": int.__gt__,
    "gte": int.__ge__,
    "lt": int.__lt__,
    "lte": int.__le__,
}


def page(call: Call, documents: Iterable[Doc]) -> Doc:
    """A page of a list, the newest first: 10 of them or `limit`, filtered as the call says.

    A filter is a field of the object; `created` and other numbers may be a range.
    """
    exact = {name: each for name, each in call.params.items() if not isinstance(each, dict)}
    exact = {name: each for name, each in exact.items() if name not in PAGING}
    nested = {name: each for name, each in call.params.items() if isinstance(each, dict)}
    found = [each for each in documents if exact.items() <= each.items()]
    found = [each for each in found if all(_fits(nested[name], each.get(name)) for name in nested)]
    limit = call.params.get("limit", 10)
    if not 1 <= limit <= 100:
        raise Refusal("This value must be between 1 and 100.", param="limit")
    if after := call.params.get("starting_after"):
        found = found[_place(found, after, "starting_after") + 1 :]
    if before := call.params.get("ending_before"):
        found = found[: _place(found, before, "ending_before")]
    shown = found[-limit:] if before else found[:limit]
    return {"object": "list", "data": shown, "has_more": len(found) > limit, "url": call.path}


def _place(documents: list[Doc], reference: str, param: str) -> int:
    for place, each in enumerate(documents):
        if each["id"] == reference:
            return place
    raise missing("object", reference, param)


def _fits(wanted: Doc, found: Any) -> bool:
    """Whether a number is in a range, or an object has these fields."""
    if isinstance(found, int):
        return all(COMPARED[how](found, border) for how, border in wanted.items())
    return isinstance(found, dict) and wanted.items() <= found.items()


def expanded(books: Books, document: Doc, paths: Sequence[str]) -> Doc:
    """A copy with the objects in place of the ids that `paths` lead to."""
    for path in paths:
        if path.count(".") > 3:
            raise Refusal("You may expand four levels at most", param="expand")
        document = _expanded(books, document, path.split("."), path)
    return document


def _expanded(books: Books, document: Doc, steps: list[str], path: str) -> Doc:
    step, *rest = steps
    if step not in document:
        raise Refusal(f"This property cannot be expanded ({path}).", param="expand")
    value = document[step]
    if isinstance(value, list):
        changed: Any = [_expanded(books, each, rest, path) if rest else each for each in value]
    else:
        found = books.anything(value) if isinstance(value, str) else value
        if value is not None and not isinstance(found, dict):
            raise Refusal(f"This property cannot be expanded ({path}).", param="expand")
        changed = _expanded(books, found, rest, path) if rest and found else found
    return {**document, step: changed}
