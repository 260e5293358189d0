"""The pipeline of every call, with its checks in the order of CONTRACT 1.

1. The path and method: 404, 405.
2. Authentication and rate limits (`access`): 401, 403, 429.
3. A stored response under an Idempotency-Key (`idempotency`).
4. The input: 413, 415, 400, 422. Before such an error, `check_target` looks up the path's target,
   whose 404 and 403 take precedence.
5. The use-case, which looks up the target itself.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from time import perf_counter

from attrs import frozen

from staffbooking_adapters.database_time import renew_database_time
from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitExceeded
from staffbooking_core.errors import InvalidInput
from staffbooking_http.api import idempotency, query_string, rate_limits, request_body, uploads
from staffbooking_http.api.endpoint import (
    REQUEST_ID_KEY,
    AppContext,
    Call,
    Endpoint,
    Header,
    Receive,
    Reply,
    Scope,
    Send,
)
from staffbooking_http.api.errors import (
    ClientDisconnected,
    HttpError,
    method_not_allowed_reply,
    reply_to_error,
    unknown_path_error,
)
from staffbooking_http.api.metrics import RequestMetrics
from staffbooking_http.api.security_log import log_refusal

_UNREAD_BODY_STATUSES = (413, 415)
"""Too large, and of another type: the body is not read."""
_PAGE_REFUSALS = (401, 403, 404, 405)
"""The statuses that a browser shows as a page of their own."""


@frozen
class Route:
    """An endpoint in one application, with its rate limit rules, metrics, and the headers of all
    its responses."""

    endpoint: Endpoint
    rules: tuple[RateLimit, ...]
    metrics: RequestMetrics
    headers: tuple[Header, ...]


def allow_header(methods: Iterable[str]) -> bytes:
    """The value of the `Allow` header for these methods; OPTIONS is allowed on every path."""
    return ", ".join((*methods, "OPTIONS")).encode()


class Resource:
    """The routes of one path, by method."""

    def __init__(self, site: AppContext, endpoints: Sequence[Endpoint]) -> None:
        limits_policy = site.ports.policy.limits
        self.routes = {
            row.method: Route(
                row,
                row.rate_limit_rules(limits_policy),
                RequestMetrics(row.method, row.path),
                () if row.deprecation is None else row.deprecation.headers,
            )
            for row in endpoints
        }
        site.request_metrics.extend(route.metrics for route in self.routes.values())
        if get := self.routes.get("GET"):
            self.routes["HEAD"] = get
        self.allow = allow_header(self.routes)
        self.is_rate_limited = any(row.access.is_rate_limited for row in endpoints)


class Pipeline:
    """Handles calls of the API from start to end, without the web framework."""

    def __init__(
        self, site: AppContext, to_error_page: Callable[[Scope, Reply], Reply] | None = None
    ) -> None:
        """`to_error_page` gives an error in the form for its client: a page or JSON."""
        self.site = site
        self._to_error_page = to_error_page
        self._unmatched_metrics = RequestMetrics("", "")
        site.request_metrics.append(self._unmatched_metrics)

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        resource: Resource | None,
        params: Sequence[str] = (),
    ) -> None:
        """Handle one call; the resource is None for an unknown path."""
        started = perf_counter()
        call = Call(self.site, scope, receive)
        call.params = params
        route = None if resource is None else resource.routes.get(scope["method"])
        request_id = scope[REQUEST_ID_KEY]
        try:
            reply = await _dispatch(call, resource, route)
        except ClientDisconnected:
            return
        except Exception as error:
            log_refusal(call, error)
            reply = _reply_to_error(call, error, route, request_id)
        if self._to_error_page is not None and _may_be_page(scope, route, reply):
            reply = self._to_error_page(scope, reply)
        tally = self._unmatched_metrics if route is None else route.metrics
        tally.record(reply.status, perf_counter() - started)
        headers = [*self._default_headers(reply), (b"x-request-id", request_id.encode())]
        if route is not None:
            headers += route.headers
        if resource is None or resource.is_rate_limited:
            if (verdict := call.verdict) is None:
                verdict = (
                    rate_limits.unmatched_verdict(call)
                    if route is None
                    else await rate_limits.peek_verdict(call)
                )
            headers += rate_limits.headers(verdict)
        await send_reply(send, reply, headers, omits_body=scope["method"] == "HEAD")

    def _default_headers(self, reply: Reply) -> Sequence[Header]:
        """The default headers that the reply does not override."""
        if not reply.headers:
            return self.site.default_headers
        own_names = {name for name, _ in reply.headers}
        return [header for header in self.site.default_headers if header[0] not in own_names]


async def send_reply(
    send: Send, reply: Reply, headers: Sequence[Header], *, omits_body: bool = False
) -> None:
    """Send a reply. 204 and 304 have neither Content-Type nor Content-Length; HEAD has the
    Content-Length of GET."""
    all_headers = [*headers, *reply.headers]
    if reply.status not in (204, 304):
        all_headers.append((b"content-type", reply.media_type))
        if reply.body_stream is None:
            all_headers.append((b"content-length", b"%d" % len(reply.body)))
    await send({"type": "http.response.start", "status": reply.status, "headers": all_headers})
    if reply.body_stream is not None and not omits_body:
        async with aclosing(reply.body_stream) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                renew_database_time()
    await send({"type": "http.response.body", "body": b"" if omits_body else reply.body})


def _may_be_page(scope: Scope, route: Route | None, reply: Reply) -> bool:
    """Whether people who ask for HTML get a page: for an error of the framework (CONTRACT 1), and
    where a page's address was loaded and refused."""
    if route is None or reply.status in _UNREAD_BODY_STATUSES:
        return True
    return reply.status in _PAGE_REFUSALS and scope["method"] in ("GET", "HEAD")


async def _dispatch(call: Call, resource: Resource | None, route: Route | None) -> Reply:
    if resource is None:
        raise unknown_path_error()
    if route is None:
        return method_not_allowed_reply(call.scope["method"], resource.allow)
    call.rules = route.rules
    endpoint = route.endpoint
    await endpoint.access.admit(call)
    has_key = endpoint.takes_idempotency_key and call.headers(idempotency.KEY_HEADER)
    handle = _handle_with_idempotency_key if has_key else _handle
    if endpoint.check_target is None and not call.scope["query_string"]:
        return await handle(call, endpoint)
    return await _handle_preferring_target_errors(call, endpoint, handle)


async def _handle_preferring_target_errors(
    call: Call, endpoint: Endpoint, handle: idempotency.EndpointHandler
) -> Reply:
    """Handle a call. If its input is invalid, the path's target is looked up, whose 404 and 403 are
    raised in place of the error in the input."""
    try:
        return await handle(call, endpoint)
    except (InvalidInput, HttpError):
        if endpoint.check_target is not None:
            await endpoint.check_target(call)
        elif endpoint.method == "GET" and endpoint.query is None:
            # Such a handler only reads its target: it is called for its 404, its reply is
            # discarded.
            await endpoint.handler(call)
        raise


async def _handle_with_idempotency_key(call: Call, endpoint: Endpoint) -> Reply:
    handle = partial(_handle_preferring_target_errors, handle=_handle)
    return await idempotency.handle_idempotently(call, endpoint, handle)


async def _handle(call: Call, endpoint: Endpoint) -> Reply:
    if endpoint.is_upload_limited:
        limiter = call.site.upload_limiters[endpoint.path]
        read_input = partial(_read_input, call, endpoint)
        return await limiter.process(call, call.actor.user_id, read_input, endpoint.handler)
    return await endpoint.handler(await _read_input(call, endpoint))


async def _read_input(call: Call, endpoint: Endpoint) -> Call:
    """Read and validate the input into `parsed_input`; returns the call."""
    query = call.scope["query_string"]
    if endpoint.max_raw_bytes is not None:
        call.parsed_input = await request_body.read(
            call, endpoint.raw_byte_limit(call.ports.policy)
        )
        if endpoint.raw_media_type:
            request_body.check_media_type(call, endpoint.raw_media_type)
    elif endpoint.has_file:
        call.parsed_input = await uploads.read_upload(call, call.ports.policy.max_image_bytes)
    elif endpoint.body is not None:
        _parse_body(call, endpoint, await request_body.read(call))
    elif endpoint.query is not None:
        call.parsed_input = query_string.parse_query(endpoint.query, query)
        return call
    if query:
        query_string.parse_query(query_string.NoParameters, query)
    return call


def _parse_body(call: Call, endpoint: Endpoint, raw: bytes) -> None:
    assert endpoint.body is not None
    if not raw and endpoint.is_body_optional:
        call.parsed_input = structure(endpoint.body, {})
        return
    request_body.check_media_type(call)
    call.parsed_input = structure(endpoint.body, request_body.parse_object(raw))


def _reply_to_error(call: Call, error: Exception, route: Route | None, request_id: str) -> Reply:
    if isinstance(error, RateLimitExceeded):
        call.verdict = error.decision
    where = "no route" if route is None else f"{route.endpoint.method} {route.endpoint.path}"
    return reply_to_error(error, request_id, where)
