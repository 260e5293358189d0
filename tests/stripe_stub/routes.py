"""Which operation a verb and a path mean."""

from __future__ import annotations

import re
from functools import cache

from attrs import frozen

from tests.stripe_stub import accounts, checkout, disputes, payments, platform, refunds, transfers
from tests.stripe_stub.call import Handler
from tests.stripe_stub.contract import Operation, operation

HANDLERS: dict[str, Handler] = {
    **accounts.ROUTES,
    **checkout.ROUTES,
    **disputes.ROUTES,
    **payments.ROUTES,
    **platform.ROUTES,
    **refunds.ROUTES,
    **transfers.ROUTES,
}


@frozen
class Route:
    operation: Operation
    handler: Handler


@cache
def _routes() -> tuple[dict[tuple[str, str], Route], list[tuple[str, re.Pattern[str], Route]]]:
    """Those without ids by verb and path, and those with ids."""
    plain: dict[tuple[str, str], Route] = {}
    named: list[tuple[str, re.Pattern[str], Route]] = []
    for name, handler in HANDLERS.items():
        found = operation(name)
        if "{" in found.path:
            pattern = re.compile(re.sub(r"\{\w+\}", "([^/]+)", found.path))
            named.append((found.verb, pattern, Route(found, handler)))
        else:
            plain[found.verb, found.path] = Route(found, handler)
    return plain, named


def route(verb: str, path: str) -> tuple[Route, tuple[str, ...]] | None:
    """The route of a request, and the ids in its path."""
    plain, named = _routes()
    if found := plain.get((verb, path)):
        return found, ()
    for its_verb, pattern, its_route in named:
        if its_verb == verb and (match := pattern.fullmatch(path)):
            return its_route, match.groups()
    return None
