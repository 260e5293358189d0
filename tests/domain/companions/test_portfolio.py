"""Image paths: relative, and in normal form."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given, strategies as st

from staffbooking_core.domain.companions.portfolio import validate_image_path

PAGE = "https://booking.example/companions/7"


def is_fine(path: str) -> bool:
    try:
        validate_image_path(path)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "path",
    ["", "me.jpg", "media/a_b-C9.webp", "photos/2027/Über uns 1.jpg", "a..b/c.png", "@2x.png"],
)
def test_a_plain_relative_path_is_taken(path: str) -> None:
    """File names, folders, letters of any script and the empty path are accepted."""
    validate_image_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "/photos/me.jpg",
        "//elsewhere.example/me.jpg",
        "https://elsewhere.example/me.jpg",
        "data:image/png;base64,AAAA",
        "photos//me.jpg",
        "photos/",
        "../me.jpg",
        "photos/../media/me.jpg",
        "./media/me.jpg",
        "photos\\me.jpg",
        "me.jpg?size=1",
        "me.jpg#top",
        "m%65dia/me.jpg",
        " media/me.jpg",
        "media/me.jpg ",
        "me\tdia/me.jpg",
        "me\ndia/me.jpg",
        "media/me\x00.jpg",
        "media/\u202egpj.em",
    ],
)
def test_what_leads_elsewhere_is_refused(path: str) -> None:
    """Other sites, other folders and paths that a browser would rewrite are refused."""
    assert not is_fine(path)


@given(st.text("aA.:/\\?#%@ \t\n&=-", max_size=12))
@example("media/x")
def test_a_browser_reads_a_path_as_it_stands(path: str) -> None:
    """A browser resolves an accepted path on this site, unchanged."""
    if path and is_fine(path):
        parts = urlsplit(urljoin(PAGE, "/" + path))
        assert (parts.netloc, parts.path) == ("booking.example", "/" + path)
        assert (parts.query, parts.fragment) == ("", "")
