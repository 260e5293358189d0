"""Matching of paths by the router."""

from __future__ import annotations

import pytest

from staffbooking_http.api.router import Router

ROUTER = Router(
    (path, path)
    for path in ("/", "/a", "/a/{id}", "/a/{id}/b", "/a/new/b", "/x/{y}/{z}", "/a/literal")
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", ("/", [])),
        ("/a", ("/a", [])),
        ("/a/7", ("/a/{id}", ["7"])),
        ("/a/literal", ("/a/literal", [])),
        ("/a/é /", None),
        ("/a/7/b", ("/a/{id}/b", ["7"])),
        ("/x/1/2", ("/x/{y}/{z}", ["1", "2"])),
        ("/x/1", None),
        ("/x//2", None),
        ("/a/", None),
        ("/a//", None),
        ("//a", None),
        ("a", None),
        ("", None),
        ("/A", None),
        ("/a/{id}", ("/a/{id}", ["{id}"])),
    ],
)
def test_a_path_matches_exactly(path: str, found: tuple[str, list[str]] | None) -> None:
    """A path matches exactly: literals win over parameters, parameters are not empty, slashes
    count."""
    there = ROUTER.find(path)
    assert (there and (there[0], list(there[1]))) == found
