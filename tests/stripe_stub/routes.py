"""The routes of the stub's operations by verb and path."""

from __future__ import annotations

import re
from functools import cache

from attrs import frozen

from tests.stripe_stub import accounts, checkout, disputes, payments, platform, refunds, transfers
from tests.stripe_stub.call import EndpointHandler
from tests.stripe_stub.contract import StripeOperation, stripe_operation

HANDLERS: dict[str, EndpointHandler] = {
    **accounts.ROUTES,
    **checkout.ROUTES,
    **disputes.ROUTES,
    **payments.ROUTES,
    **platform.ROUTES,
    **refunds.ROUTES,
    **transfers.ROUTES,
}


@frozen
class StubRoute:
    operation: StripeOperation
    handler: EndpointHandler


@cache
def _routes() -> tuple[
    dict[tuple[str, str], StubRoute], list[tuple[str, re.Pattern[str], StubRoute]]
]:
    """Routes without ids by verb and path, and routes with ids as patterns."""
    plain: dict[tuple[str, str], StubRoute] = {}
    named: list[tuple[str, re.Pattern[str], StubRoute]] = []
    for name, handler in HANDLERS.items():
        found = stripe_operation(name)
        if "{" in found.path:
            pattern = re.compile(re.sub(r"\{\w+\}", "([^/]+)", found.path))
            named.append((found.verb, pattern, StubRoute(found, handler)))
        else:
            plain[found.verb, found.path] = StubRoute(found, handler)
    return plain, named


def find_route(verb: str, path: str) -> tuple[StubRoute, tuple[str, ...]] | None:
    """The route of a request, and the ids in its path."""
    plain, named = _routes()
    if found := plain.get((verb, path)):
        return found, ()
    for its_verb, pattern, its_route in named:
        if its_verb == verb and (match := pattern.fullmatch(path)):
            return its_route, match.groups()
    return None
