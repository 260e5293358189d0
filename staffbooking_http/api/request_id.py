"""The id of a request: a new one, or the one of a trusted proxy (CONTRACT 10)."""

from __future__ import annotations

import re

from staffbooking_http.api.addresses import is_trusted_peer
from staffbooking_http.api.endpoint import AppContext, Scope

_GIVEN_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_TRACE_PARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*", re.S)


def find_request_id(site: AppContext, scope: Scope) -> str:
    """The request's id: from a trusted proxy's `X-Request-Id`, else the trace id of its
    `traceparent` (W3C Trace Context), else a new one. Malformed values are ignored."""
    if site.trusted_proxies and is_trusted_peer(scope, site.trusted_proxies):
        headers = dict(scope["headers"])
        if (given := headers.get(b"x-request-id")) and _GIVEN_ID.fullmatch(given):
            return str(given, "ascii")
        if trace := _TRACE_PARENT.fullmatch(headers.get(b"traceparent", b"")):
            return str(trace[1], "ascii")
    return next(site.request_ids)
