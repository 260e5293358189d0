"""The responses to requests that are refused in an overload (CONTRACT 1), or cut off by a stop."""

from __future__ import annotations

import logging
import re
from time import monotonic

from attrs import evolve
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from staffbooking_http.api import rate_limits
from staffbooking_http.api.access_log import redact_path
from staffbooking_http.api.endpoint import (
    REQUEST_ID_KEY,
    Call,
    Header,
    Receive,
    Reply,
    Scope,
    Send,
)
from staffbooking_http.api.errors import overloaded_reply, unavailable_reply
from staffbooking_http.api.mounting import base_path, strip_mount_path
from staffbooking_http.api.pipeline import send_reply
from staffbooking_http.api.request_id import find_request_id
from staffbooking_http.app import StaffbookingApp
from staffbooking_http.pages.problems import accepts_html
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import unchecked_csrf

log = logging.getLogger("staffbooking.http")

_OVERLOADED_REPLY = overloaded_reply()
_RESTARTING_REPLY = unavailable_reply("The service restarts; try again later")
_CUT_OFF_REPLY = evolve(
    _RESTARTING_REPLY, headers=(*_RESTARTING_REPLY.headers, (b"connection", b"close"))
)
_PROXY_HEADERS = re.compile(
    rb"\r\n(x-forwarded-for|x-request-id|traceparent):[ \t]*([^\r\n]*)", re.IGNORECASE
)
"""Headers in which a trusted proxy passes on the client's address and the request's id."""
_LIMITS_CACHE_SECONDS = 0.5
_MAX_CACHED_LIMITS = 1_000
_REQUEST_ID_PLACEHOLDER = "id-of-the-request"


class Refusals:
    """Refuses requests, as an ASGI application or in bytes for the socket."""

    def __init__(self, application: StaffbookingApp) -> None:
        self._application = application
        self._site = application.site
        self._base_path = base_path(application.site.ports.policy)
        self._pages: dict[tuple[str, str, bool], tuple[Reply, bytes]] = {}
        """Rendered pages by language, theme and whether there is a session, with
        _REQUEST_ID_PLACEHOLDER in place of an id; and the CSRF token in each."""
        self._limits: dict[object, bytes] = {}
        """Encoded limit headers by client."""
        self._limits_expire_at = 0.0
        headers = (*self._site.default_headers, *_OVERLOADED_REPLY.headers)
        content = (
            (b"content-type", _OVERLOADED_REPLY.media_type),
            (b"content-length", b"%d" % len(_OVERLOADED_REPLY.body)),
        )
        self._response_start = STATUS_LINE[_OVERLOADED_REPLY.status] + _encode_headers(
            (*content, *headers)
        )
        """What all responses to programs begin with."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request; its body is not read."""
        scope = strip_mount_path(scope, self._base_path)
        scope[REQUEST_ID_KEY] = find_request_id(self._site, scope)
        reply = self._page(scope) if accepts_html(scope) else _OVERLOADED_REPLY
        await self._send(scope, send, reply)

    async def cut_off(self, scope: Scope, send: Send) -> None:
        """Respond to a request that does not end before the server has to."""
        request_id = scope.get(REQUEST_ID_KEY) or find_request_id(self._site, scope)
        scope = {**strip_mount_path(scope, self._base_path), REQUEST_ID_KEY: request_id}
        path = redact_path(scope["path"])
        log.warning("request %s to %s was cut off: the server stops", request_id, path)
        reply = self._application.to_error_page(scope, _CUT_OFF_REPLY)
        await self._send(scope, send, reply)

    async def _send(self, scope: Scope, send: Send, reply: Reply) -> None:
        request_id = scope[REQUEST_ID_KEY]
        if accepts_html(scope):
            headers = self._application.page_headers(request_id)
        else:
            headers = (*self._site.default_headers, (b"x-request-id", request_id.encode()))
            if self._has_limits(scope):
                headers += self._limit_headers(scope)
        await send_reply(send, reply, headers, omits_body=scope["method"] == "HEAD")

    def encode(self, path: str, client: tuple[str, int] | None, request: bytes) -> bytes:
        """The response in bytes to a program's request of which little is parsed."""
        headers: list[Header] = []
        if self._site.trusted_proxies:
            headers = [(name.lower(), value) for name, value in _PROXY_HEADERS.findall(request)]
        scope: Scope = {"path": path, "client": client, "headers": headers}
        request_id = find_request_id(self._site, scope).encode()
        scope = strip_mount_path(scope, self._base_path)
        limits = self._encode_limits(scope) if self._has_limits(scope) else b""
        body = _OVERLOADED_REPLY.body
        return b"%b%bx-request-id: %b\r\n\r\n%b" % (self._response_start, limits, request_id, body)

    def _encode_limits(self, scope: Scope) -> bytes:
        """The limit headers of a client, which are cached for _LIMITS_CACHE_SECONDS at most."""
        now, key = monotonic(), (scope["client"][0], *scope["headers"])
        if now >= self._limits_expire_at or len(self._limits) >= _MAX_CACHED_LIMITS:
            self._limits.clear()
            self._limits_expire_at = now + _LIMITS_CACHE_SECONDS
        if (encoded := self._limits.get(key)) is None:
            encoded = self._limits[key] = _encode_headers(self._limit_headers(scope))
        return encoded

    def _has_limits(self, scope: Scope) -> bool:
        return self._application.has_limit_headers(scope["path"])

    def _limit_headers(self, scope: Scope) -> tuple[Header, ...]:
        call = Call(self._site, scope, _receive_disconnect)
        return rate_limits.headers(rate_limits.unmatched_verdict(call))

    def _page(self, scope: Scope) -> Reply:
        """The page in the visitor's language and theme, rendered once for each of these."""
        view, csrf = view_of_scope(scope), unchecked_csrf(scope).encode()
        key = (view.locale.language, view.theme, bool(csrf))
        if key not in self._pages:
            page_scope = {**scope, "path": "/", REQUEST_ID_KEY: _REQUEST_ID_PLACEHOLDER}
            page = self._application.to_error_page(page_scope, _OVERLOADED_REPLY)
            self._pages[key] = page, csrf
        page, rendered_csrf = self._pages[key]
        body = page.body.replace(rendered_csrf, csrf)
        request_id = scope[REQUEST_ID_KEY].encode()
        return evolve(page, body=body.replace(_REQUEST_ID_PLACEHOLDER.encode(), request_id))


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)


async def _receive_disconnect() -> dict[str, str]:
    return {"type": "http.disconnect"}
