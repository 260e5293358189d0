"""The way in to the channel, whatever the transport: who comes, and from whose page.

Handshakes spend no window, and their answers tell of none (CONTRACT 6).
"""

import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence

from staffbooking_core.domain.accounts.users import Session, User, session_digest
from staffbooking_core.errors import Forbidden, StaffbookingError, Unauthenticated
from staffbooking_core.representations.channel import Close
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api.access import session_token
from staffbooking_http.api.endpoint import Header, Message, Reply, Scope, Send, Site
from staffbooking_http.api.errors import internal, to_reply
from staffbooking_http.api.pipeline import respond
from staffbooking_http.channel.hub import Connection, Pipe

log = logging.getLogger("staffbooking.channel")

DEFAULT_PORTS = (("http://", ":80"), ("https://", ":443"))


def origins(base_url: str, allowed: Iterable[str] = ()) -> frozenset[str]:
    """The origins whose pages may open connections: the service's own, and some others."""
    return frozenset(_spelled(origin) for origin in (base_url, *allowed))


async def admit(
    site: Site, scope: Scope, origins: Collection[str], *, origin_needed: bool
) -> tuple[Session, User]:
    """Who opens a connection, by their cookie. Raises Unauthenticated where that is of no living
    session; then Forbidden for a page of somebody else's, or of nobody where an `Origin` is
    needed; Unavailable."""
    session, user = await _signed_in(site, scope)
    shown = [_spelled(origin) for origin in _header(scope, b"origin")]
    if not shown and origin_needed:
        raise Forbidden("foreign_origin", "The request names no origin")
    if any(origin not in origins for origin in shown):
        raise Forbidden("foreign_origin", "The request comes from a foreign page")
    return await sessions.touch(site.ports, session), user


async def _signed_in(site: Site, scope: Scope) -> tuple[Session, User]:
    if _header(scope, b"authorization"):
        raise Unauthenticated("session_required", "This takes a session, not an API key")
    if (token := session_token(scope["headers"])) is None:
        raise Unauthenticated("unauthenticated", "Sign in first")
    now = site.ports.clock.wall()
    caller = await site.ports.admission.by_session(session_digest(token), now)
    if caller is None:
        raise Unauthenticated("unauthenticated", "The session has ended: sign in again")
    return caller.session, caller.user


async def opened(
    pipe: Pipe, user: User, opening: Awaitable[Connection | None]
) -> Connection | None:
    """The connection that is being opened over a pipe. None where there is none: a pipe over
    which it failed is closed."""
    try:
        return await opening
    except Exception as error:
        if not isinstance(error, StaffbookingError):
            log.exception("a connection of user %d could not be opened", user.id)
        pipe.close(Close.SLOW, "come again")
        return None


async def refuse(site: Site, scope: Scope, send: Send, error: Exception) -> None:
    """Answer a handshake that failed, as the interface answers a call."""
    request_id = next(site.request_ids)
    if (reply := to_reply(error)) is None:
        log.error("handshake %s failed", request_id, exc_info=error)
        reply = internal(request_id)
    await answer(scope, send, reply, (*site.headers, (b"x-request-id", request_id.encode())))


async def answer(scope: Scope, send: Send, reply: Reply, headers: Sequence[Header]) -> None:
    """Send a reply in place of a connection. A server that can't send an answer of ours sends
    its own, a 403."""
    if scope["type"] == "http":
        await respond(send, reply, headers)
        return
    if "websocket.http.response" not in (scope.get("extensions") or ()):
        await send({"type": "websocket.close"})
        return

    async def to_handshake(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await respond(to_handshake, reply, headers)


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for known, value in scope["headers"] if known == name]


def _spelled(origin: str) -> str:
    """One spelling for each origin: in lower case, without a port that goes without saying."""
    origin = origin.lower()
    for scheme, port in DEFAULT_PORTS:
        if origin.startswith(scheme):
            return origin.removesuffix(port)
    return origin
