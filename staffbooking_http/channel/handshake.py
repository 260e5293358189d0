"""Handshakes of the channel, for every transport: authentication and the origin check.

Handshakes count against no rate limit, and their responses have no limit headers (CONTRACT 6).
"""

import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence

from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.errors import Forbidden, StaffbookingError, Unauthenticated
from staffbooking_core.representations.channel import CloseCode
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api.access import authenticate_session
from staffbooking_http.api.endpoint import (
    REQUEST_ID_KEY,
    AppContext,
    AsgiMessage,
    Header,
    Reply,
    Scope,
    Send,
)
from staffbooking_http.api.errors import reply_to_error
from staffbooking_http.api.pipeline import send_reply
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.outbound import Outbound

log = logging.getLogger("staffbooking.channel")

_SAME_SITE_VALUES = ("same-origin", "none")
"""Accepted `Sec-Fetch-Site` values of requests without an origin: the service's own pages, or
no page."""
_DEFAULT_PORT_SUFFIXES = (("http://", ":80"), ("https://", ":443"))


def normalize_origins(origins: Iterable[str]) -> frozenset[str]:
    """The allowed origins in normalized form: lower case, without default ports."""
    return frozenset(map(_normalize_origin, origins))


async def authenticate_handshake(
    site: AppContext, scope: Scope, allowed_origins: Collection[str], *, is_origin_required: bool
) -> tuple[Session, User]:
    """The session and user of the cookie. Raises Unauthenticated without an active session,
    Forbidden for a foreign origin or a missing required one, and StoreUnavailable."""
    if _header_values(scope, b"authorization"):
        raise Unauthenticated("session_required", "This takes a session, not an API key")
    now = site.ports.clock.wall()
    signed_in = await authenticate_session(site.ports, scope["headers"], now)
    check_origin(scope, allowed_origins, is_required=is_origin_required)
    return await sessions.touch_session(site.ports, signed_in.session), signed_in.user


def check_origin(scope: Scope, allowed_origins: Collection[str], *, is_required: bool) -> None:
    """Raise Forbidden for a foreign origin, for a missing required one, and for a request without
    one that a page of another site has sent."""
    origins = [_normalize_origin(origin) for origin in _header_values(scope, b"origin")]
    if not origins and is_required:
        raise Forbidden("foreign_origin", "The request names no origin")
    sites = _header_values(scope, b"sec-fetch-site")
    is_cross_site = not origins and any(site not in _SAME_SITE_VALUES for site in sites)
    if is_cross_site or any(origin not in allowed_origins for origin in origins):
        raise Forbidden("foreign_origin", "The request comes from a foreign page")


async def open_or_close(
    outbound: Outbound, user: User, opening: Awaitable[ChannelConnection | None]
) -> ChannelConnection | None:
    """The opened connection. If opening fails, closes `outbound` and returns None."""
    try:
        return await opening
    except Exception as error:
        if not isinstance(error, StaffbookingError):
            log.exception("a connection of user %d could not be opened", user.id)
        outbound.close(CloseCode.SLOW, "reconnect")
        return None


async def send_error(
    site: AppContext, scope: Scope, send: Send, error: Exception, where: str
) -> None:
    """Answer a failed request or handshake with the API's error response."""
    request_id = scope[REQUEST_ID_KEY]
    reply = reply_to_error(error, request_id, where)
    await send_handshake_reply(
        scope, send, reply, (*site.default_headers, (b"x-request-id", request_id.encode()))
    )


async def send_handshake_reply(
    scope: Scope, send: Send, reply: Reply, headers: Sequence[Header]
) -> None:
    """Send a reply that refuses a handshake. A server without the `websocket.http.response`
    extension sends its own 403."""
    if scope["type"] == "http":
        await send_reply(send, reply, headers)
        return
    if "websocket.http.response" not in (scope.get("extensions") or ()):
        await send({"type": "websocket.close"})
        return

    async def to_handshake(message: AsgiMessage) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await send_reply(to_handshake, reply, headers)


def _header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for known, value in scope["headers"] if known == name]


def _normalize_origin(origin: str) -> str:
    """The origin in lower case, without the scheme's default port."""
    origin = origin.lower()
    for scheme, port in _DEFAULT_PORT_SUFFIXES:
        if origin.startswith(scheme):
            return origin.removesuffix(port)
    return origin
