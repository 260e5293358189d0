"""The one way of every call: check by check, in the order of CONTRACT 1.

404 of an unknown path, 405, then 401, 403 and 429 (`access`), then 413, 415, 400 and 422 of
what was sent, then the use-case. Where something is wrong with what was sent, what the path
names is looked up first: its 404 and 403 go before. Good calls find it by themselves.
"""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from attrs import frozen

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Rule
from staffbooking_core.errors import InvalidInput
from staffbooking_http.api import idempotency, query_string, rate_limits, request_body, uploads
from staffbooking_http.api.endpoint import Call, Endpoint, Header, Receive, Reply, Scope, Send, Site
from staffbooking_http.api.errors import (
    ClientGone,
    Refused,
    internal,
    other_method,
    to_reply,
    unknown_path,
)
from staffbooking_http.api.metrics import Tally

log = logging.getLogger("staffbooking.http")


@frozen
class Route:
    """An endpoint as it stands in one application."""

    endpoint: Endpoint
    rules: tuple[Rule, ...]
    tally: Tally


class Resource:
    """What is at one path: a route for each method."""

    def __init__(self, site: Site, endpoints: Sequence[Endpoint]) -> None:
        figures = site.ports.policy.limits
        self.routes = {
            row.method: Route(row, row.rules(figures), Tally(row.method, row.path))
            for row in endpoints
        }
        site.tallies.extend(route.tally for route in self.routes.values())
        if get := self.routes.get("GET"):
            self.routes["HEAD"] = get
        self.allow = ", ".join((*self.routes, "OPTIONS")).encode()
        self.limited = any(row.access.limited for row in endpoints)


class Pipeline:
    """Answers calls of the interface. Nothing that it answers is left to a framework."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._stray = Tally("", "")
        site.tallies.append(self._stray)

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        resource: Resource | None,
        params: Sequence[str] = (),
    ) -> None:
        """Answer one call to a resource, or to nothing."""
        call = Call(self.site, scope, receive)
        call.params = params
        route = None if resource is None else resource.routes.get(scope["method"])
        request_id = next(self.site.request_ids)
        try:
            reply = await _answer(call, resource, route)
        except ClientGone:
            return
        except Exception as error:
            reply = _refusal(call, error, route, request_id)
        tally = self._stray if route is None else route.tally
        tally.add(reply.status, (self.site.ports.clock.wall() - call.now).total_seconds())
        own = (*self._headers(reply), (b"x-request-id", request_id.encode()))
        if resource is None or resource.limited:
            own = (*own, *rate_limits.headers(await rate_limits.shown(call)))
        await respond(send, reply, own, bodiless=scope["method"] == "HEAD")

    def _headers(self, reply: Reply) -> Sequence[Header]:
        """What every answer bears, but for what the reply says otherwise."""
        if not reply.headers:
            return self.site.headers
        said = {name for name, _ in reply.headers}
        return [header for header in self.site.headers if header[0] not in said]


async def respond(
    send: Send, reply: Reply, headers: Sequence[Header], *, bodiless: bool = False
) -> None:
    """Send a reply. A 204 and a 304 have no content, so no length; HEAD has the length of its
    GET."""
    content: tuple[Header, ...] = ()
    if reply.status not in (204, 304):
        content = ((b"content-type", reply.media),)
        if reply.pieces is None:
            content += ((b"content-length", b"%d" % len(reply.body)),)
    await send(
        {
            "type": "http.response.start",
            "status": reply.status,
            "headers": [*content, *headers, *reply.headers],
        }
    )
    if reply.pieces is not None and not bodiless:
        async with aclosing(reply.pieces) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if bodiless else reply.body})


async def _answer(call: Call, resource: Resource | None, route: Route | None) -> Reply:
    if resource is None:
        raise unknown_path()
    if route is None:
        return other_method(call.scope["method"], resource.allow)
    call.rules = route.rules
    endpoint = route.endpoint
    await endpoint.access.admit(call)
    if endpoint.find is None:
        return await _handle(call, endpoint)
    try:
        return await _handle(call, endpoint)
    except (InvalidInput, Refused):
        await endpoint.find(call)
        raise


async def _handle(call: Call, endpoint: Endpoint) -> Reply:
    if endpoint.in_turn:
        turns, read = call.site.turns[endpoint.path], partial(_read, call, endpoint)
        return await turns.carry(call, call.actor.user_id, read, endpoint.handler)
    if endpoint.kept is not None:
        return await idempotency.answer(call, endpoint, await request_body.read(call))
    return await endpoint.handler(await _read(call, endpoint))


async def _read(call: Call, endpoint: Endpoint) -> Call:
    """The call, with what it gives."""
    if endpoint.raw is not None:
        call.given = await request_body.read(call, endpoint.most_raw(call.ports.policy))
        if endpoint.raw_media:
            request_body.check_media(call, endpoint.raw_media)
    elif endpoint.file:
        call.given = await uploads.read(call, call.ports.policy.max_image_bytes)
    elif endpoint.body is not None:
        _take(call, endpoint, await request_body.read(call))
    elif endpoint.query is not None:
        call.given = query_string.read(endpoint.query, call.scope["query_string"])
    return call


def _take(call: Call, endpoint: Endpoint, raw: bytes) -> None:
    assert endpoint.body is not None
    if not raw and endpoint.body_optional:
        call.given = structure(endpoint.body, {})
        return
    request_body.check_media(call)
    call.given = structure(endpoint.body, request_body.parse(raw))


def _refusal(call: Call, error: Exception, route: Route | None, request_id: str) -> Reply:
    if isinstance(error, LimitExceeded):
        call.verdict = error.verdict
    if (reply := to_reply(error)) is not None:
        return reply
    where = "no route" if route is None else f"{route.endpoint.method} {route.endpoint.path}"
    log.error("request %s to %s failed", request_id, where, exc_info=error)
    return internal(request_id)
