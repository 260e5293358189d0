"""What search engines read: which pages there are, and which they pass over."""

from collections.abc import Iterable, Sequence
from typing import Annotated
from xml.sax.saxutils import escape

from attrs import frozen
from litestar import Response, get

from staffbooking_core.bounds import IntegerBounds
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.companions import search
from staffbooking_http.api import mounting, query_string, rate_limits
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.public import absolute_url, cacheable_response
from staffbooking_http.pages.session import PageRequest, get_call

IDS_PER_PAGE = 10_000
"""A page of the sitemap has the companions of so many ids. Search engines take 50,000 links."""

_MAX_PAGES = 10**15
_PUBLIC_PATHS = ("/", "/find", "/how-it-works", "/help", "/terms", "/contact-us", "/docs")
_PRIVATE_PATHS = (
    *("/account", "/admin", "/bookings", "/conversations", "/preferences"),
    *("/reviews", "/sandbox", "/staff", "/companions/*/request"),
)
_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
_XML = "application/xml"


@frozen(kw_only=True)
class _SitemapQuery:
    page: Annotated[int, IntegerBounds(1, _MAX_PAGES)] | None = None
    """A page of the sitemap; without one, the whole or its contents."""


@get("/sitemap.xml")
async def show_sitemap(request: PageRequest) -> Response[bytes]:
    """List the public pages: all in one document, or in pages that `/sitemap.xml` lists."""
    call = get_call(request)
    call.rules = (call.ports.policy.limits.pages,)
    await rate_limits.count(call, rate_limits.address_subject(call))
    page = query_string.parse_query(_SitemapQuery, call.scope["query_string"]).page
    pages = -(-await search.last_listed_id(call.ports) // IDS_PER_PAGE) or 1
    if page is None and pages > 1:
        found = [absolute_url(call, f"/sitemap.xml?page={each}") for each in range(1, pages + 1)]
        return cacheable_response(call, _to_xml("sitemapindex", "sitemap", found), _XML)
    if page is not None and page > pages:
        raise NotFound("Page")
    paths = await _paths_of_page(call, page or 1)
    found = [absolute_url(call, path) for path in paths]
    return cacheable_response(call, _to_xml("urlset", "url", found), _XML)


async def _paths_of_page(call: Call, page: int) -> Sequence[str]:
    last = page * IDS_PER_PAGE
    numbers = await search.list_listed_ids(call.ports, last - IDS_PER_PAGE + 1, last)
    people = [f"/companions/{number}" for number in numbers]
    return [*_PUBLIC_PATHS, *people] if page == 1 else people


def _to_xml(root: str, element: str, links: Iterable[str]) -> bytes:
    rows = "\n".join(f"<{element}><loc>{escape(link)}</loc></{element}>" for link in links)
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_NAMESPACE}">'
    return f"{head}\n{rows}\n</{root}>\n".encode()


@get("/robots.txt")
async def show_robots(request: PageRequest) -> Response[bytes]:
    """Tell search engines which pages they pass over, and where the sitemap is."""
    call = get_call(request)
    base = mounting.base_path(call.ports.policy)
    lines = [
        "User-agent: *",
        *(f"Disallow: {base}{path}" for path in _PRIVATE_PATHS),
        f"Sitemap: {absolute_url(call, '/sitemap.xml')}",
    ]
    return cacheable_response(call, "\n".join((*lines, "")).encode(), "text/plain")


PAGES = (show_sitemap, show_robots)
