"""A call to an endpoint, and the lists and expansion that all endpoints share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from tests.stripe_stub.errors import StripeApiError, resource_missing_error
from tests.stripe_stub.state import StripeObjectData, StripeState


@frozen
class EndpointCall:
    """A parsed call. `ids` are those of the path, in order; `params` are validated."""

    path: str
    ids: Sequence[str]
    params: dict[str, Any]


EndpointHandler = Callable[[StripeState, EndpointCall], StripeObjectData]

PAGING_PARAMS = frozenset({"limit", "starting_after", "ending_before", "expand"})
RANGE_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "gt": int.__gt__,
    "gte": int.__ge__,
    "lt": int.__lt__,
    "lte": int.__le__,
}


def list_page(call: EndpointCall, documents: Iterable[StripeObjectData]) -> StripeObjectData:
    """A page of 10 or `limit` objects, newest first, filtered by the call's parameters.

    A filter is a field's value, fields of a nested object, or a range of a number.
    """
    exact = {name: each for name, each in call.params.items() if not isinstance(each, dict)}
    exact = {name: each for name, each in exact.items() if name not in PAGING_PARAMS}
    nested = {name: each for name, each in call.params.items() if isinstance(each, dict)}
    found = [each for each in documents if exact.items() <= each.items()]
    found = [
        each
        for each in found
        if all(_matches_filter(nested[name], each.get(name)) for name in nested)
    ]
    limit = call.params.get("limit", 10)
    if not 1 <= limit <= 100:
        raise StripeApiError("This value must be between 1 and 100.", param="limit")
    if after := call.params.get("starting_after"):
        found = found[_index_of(found, after, "starting_after") + 1 :]
    if before := call.params.get("ending_before"):
        found = found[: _index_of(found, before, "ending_before")]
    shown = found[-limit:] if before else found[:limit]
    return {"object": "list", "data": shown, "has_more": len(found) > limit, "url": call.path}


def _index_of(documents: list[StripeObjectData], reference: str, param: str) -> int:
    for place, each in enumerate(documents):
        if each["id"] == reference:
            return place
    raise resource_missing_error("object", reference, param)


def _matches_filter(filters: StripeObjectData, found: Any) -> bool:
    """Whether a number is in a range, or an object has the given fields."""
    if isinstance(found, int):
        return all(RANGE_OPERATORS[how](found, border) for how, border in filters.items())
    return isinstance(found, dict) and filters.items() <= found.items()


def expand(
    state: StripeState, document: StripeObjectData, paths: Sequence[str]
) -> StripeObjectData:
    """A copy with the ids at `paths` replaced by their objects."""
    for path in paths:
        if path.count(".") > 3:
            raise StripeApiError("You may expand four levels at most", param="expand")
        document = _expand_path(state, document, path.split("."), path)
    return document


def _expand_path(
    state: StripeState, document: StripeObjectData, steps: list[str], path: str
) -> StripeObjectData:
    step, *rest = steps
    if step not in document:
        raise StripeApiError(f"This property cannot be expanded ({path}).", param="expand")
    value = document[step]
    if isinstance(value, list):
        changed: Any = [_expand_path(state, each, rest, path) if rest else each for each in value]
    else:
        found = state.find_any(value) if isinstance(value, str) else value
        if value is not None and not isinstance(found, dict):
            raise StripeApiError(f"This property cannot be expanded ({path}).", param="expand")
        changed = _expand_path(state, found, rest, path) if rest and found else found
    return {**document, step: changed}
