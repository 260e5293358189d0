"""Pages for everybody: their rate limit, their addresses, and their validators in caches."""

import hashlib
from typing import Any

from litestar import Response
from litestar.response import Template

from staffbooking_http.api import mounting, query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.rendering import create_environment, view_of_scope
from staffbooking_http.pages.session import find_visitor, render

_ETAG_LENGTH = 20


async def admit_visitor(call: Call) -> SignedInUser | None:
    """The signed-in visitor of a public search or profile page, or None, counted by address
    (CONTRACT 8). Raises RateLimitExceeded."""
    call.rules = (call.ports.policy.limits.pages,)
    await rate_limits.count(call, rate_limits.address_subject(call))
    return await find_visitor(call)


def absolute_url(call: Call, path: str) -> str:
    """The address of a page for search engines and other sites."""
    policy = call.ports.policy
    return f"{mounting.origin(policy)}{mounting.base_path(policy)}{path}"


def render_public(
    call: Call, visitor: SignedInUser | None, template_name: str, **context: Any
) -> Template | Response[bytes]:
    """Render a page that looks the same to every signed-out visitor of one language and theme:
    those get a validator, and 304 where they have the page."""
    address = query_string.requested_address(call.scope)
    way = "" if call.scope["path"] == "/" else address
    context |= {"origin": absolute_url(call, ""), "address": address, "way": way}
    if visitor is not None:
        return render(template_name, visitor, **context)
    environment = create_environment(mounting.base_path(call.ports.policy))
    view = view_of_scope(call.scope)
    page = environment.get_template(template_name).render(page_of_visit=view, **context)
    return cacheable_response(call, page.encode(), "text/html")


def cacheable_response(call: Call, body: bytes, media_type: str) -> Response[bytes]:
    """A response that anybody may keep, and has to validate before each use."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:_ETAG_LENGTH]}"'
    headers = {
        "cache-control": "public, no-cache",
        "etag": f"W/{etag}",
        "vary": "Cookie, Accept-Language",
    }
    if call.has_matching_etag(etag.encode()):
        return Response(b"", status_code=304, headers=headers, media_type=media_type)
    return Response(body, headers=headers, media_type=media_type)
