"""HTML pages on Litestar: the collection of all handlers, and the policy of their content."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from litestar.handlers import HTTPRouteHandler

from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.api import mounting
from staffbooking_http.pages import (
    account,
    assets,
    booking_disputes,
    booking_documents,
    bookings,
    calendars,
    documentation,
    earnings,
    email_links,
    home,
    hours,
    information,
    landing,
    messages,
    payouts,
    portfolio,
    preferences,
    profile,
    profile_preview,
    requests,
    reviews,
    sandbox as sandbox_pages,
    saved,
    search,
    settings,
    sitemap,
    special_days,
)
from staffbooking_http.pages.administration import handlers as administration_handlers
from staffbooking_http.pages.dashboard import handlers as dashboard_handlers
from staffbooking_http.pages.testers import handlers as testers_handlers
from staffbooking_http.pages.testers.bar import DemoBars

_PAGE_MODULES = (
    home,
    search,
    requests,
    bookings,
    booking_disputes,
    booking_documents,
    reviews,
    messages,
    profile,
    profile_preview,
    portfolio,
    hours,
    special_days,
    calendars,
    payouts,
    earnings,
    account,
    settings,
    saved,
    preferences,
    email_links,
    administration_handlers,
    dashboard_handlers,
    documentation,
    information,
    sitemap,
    assets,
)


def content_security_policy(policy: Policy, checkout_origin: str) -> str:
    """The policy of all pages: scripts, styles, images and the channel of this service only, no
    inline code, and forms that lead to this service or to the processor's checkout."""
    channel = mounting.origin(policy).replace("http", "ws", 1)
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src 'self' {channel}; manifest-src 'self'; "
        f"form-action 'self' {checkout_origin}; "
        "base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
"""Features of browsers that no page uses."""


def page_state() -> dict[str, Any]:
    """What the handlers keep in the state of their application from request to request."""
    return {"market": landing.MarketCache()}


def make_demo_bars(ports: Ports) -> DemoBars | None:
    """The bars of a sandbox, which show nothing without a sample; None without a sandbox."""
    return DemoBars(ports) if ports.policy.sandbox and ports.sandbox is not None else None


def page_handlers(*, sandbox: bool, testers: bool = False) -> list[HTTPRouteHandler]:
    """The handlers of all pages; `sandbox` adds the fake processor's pages, `testers` those of a
    sandbox's testers.

    The handlers read `site`, `document` and `page_state` from the state of their application.
    """
    modules: list[Any] = [*_PAGE_MODULES]
    if sandbox:
        modules.append(sandbox_pages)
    if testers:
        modules.append(testers_handlers)
    return [handler for module in modules for handler in module.PAGES]


def page_methods(handlers: Iterable[HTTPRouteHandler]) -> Mapping[str, Sequence[str]]:
    """The allowed methods of each page by path, with path parameters as in the route table."""
    methods: dict[str, list[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            for method in handler.http_methods:
                names = ("GET", "HEAD") if method == "GET" else (method,)
                methods.setdefault(path.replace(":str}", "}"), []).extend(names)
    return methods
