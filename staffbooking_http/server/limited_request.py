"""A request under the load limiter, and its response.

uvicorn checks each header of a response by two regular expressions and writes the head before the
body. A response of usual headers and a known length is checked as a whole and written at once, at a
tenth of the cost. uvicorn sends all others: streams, HEAD, the last response of a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from staffbooking_http.api.endpoint import AsgiMessage
from staffbooking_http.server.load_limiter import LoadLimiter
from staffbooking_http.server.overload import Overload

if TYPE_CHECKING:
    from staffbooking_http.server.http_protocol import BoundedHttpProtocol

Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

_USUAL_NAMES = frozenset(
    b"allow cache-control content-disposition content-length content-security-policy content-type "
    b"cross-origin-opener-policy date deprecation etag idempotent-replay location "
    b"permissions-policy referrer-policy retry-after set-cookie strict-transport-security sunset "
    b"vary www-authenticate x-content-type-options x-ratelimit-limit x-ratelimit-remaining "
    b"x-ratelimit-reset x-request-id".split()
)
"""Valid names of headers, without those that change the framing or end the connection."""
_CONTROL_BYTES = bytes([*range(0x09), *range(0x0A, 0x20), 0x7F])
_LINE_END = b"\r\n"


@define(eq=False)
class LimitedRequest:
    """A request that counts while it runs, except while its client sends the body."""

    _protocol: BoundedHttpProtocol
    _cycle: RequestResponseCycle
    _app: Application
    _limiter: LoadLimiter
    _overload: Overload
    _start_message: AsgiMessage | None = field(default=None, init=False)
    """The start of the response, which waits for the first part of the body."""

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has gone."""
        return self._cycle.disconnected

    def start(self) -> None:
        """Run the application; the limiter counts the request until it ends."""
        self._protocol.start_task(self._cycle, self._run)

    def refuse(self) -> None:
        """Respond 503 without the application."""
        self._overload.count_refusal()
        self._protocol.start_task(self._cycle, self._overload.refusals)

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, self._receive, self._send)
        except asyncio.CancelledError:  # By uvicorn, which would log a traceback of it.
            if self._cycle.response_started:
                raise
            # A client that leaves responses unread gets none: the stop would wait for it.
            self._cycle.disconnected |= self._cycle.flow.write_paused
            await self._overload.refusals.cut_off(scope, send)
        finally:
            self._limiter.finish(self)

    async def _receive(self) -> Any:
        if not self._cycle.more_body or self._cycle.message_event.is_set():
            return await self._cycle.receive()
        is_counted = self._limiter.pause(self)
        try:
            return await self._cycle.receive()
        finally:
            if is_counted:
                self._limiter.resume(self)

    async def _send(self, message: Any) -> None:
        cycle, start = self._cycle, self._start_message
        if start is not None:
            self._start_message = None
            if _write_whole_response(cycle, start, message):
                return
            await cycle.send(start)  # type: ignore[arg-type]
        elif message["type"] == "http.response.start" and not cycle.response_started:
            self._start_message = message
            return
        await cycle.send(message)


def _write_whole_response(
    cycle: RequestResponseCycle, start: AsgiMessage, message: AsgiMessage
) -> bool:
    """Write a usual response that is complete with this message. Returns whether it was."""
    body = message.get("body", b"")
    headers = [*cycle.default_headers, *start.get("headers", ())]
    values = dict(headers)
    if (
        values.get(b"content-length") != b"%d" % len(body)
        or message.get("more_body")
        or not values.keys() <= _USUAL_NAMES
        or not cycle.keep_alive
        or cycle.disconnected
        or cycle.flow.write_paused
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    lines = _LINE_END.join(map(b": ".join, headers))
    line_end_bytes = len(_LINE_END) * (len(headers) - 1)
    if len(lines.translate(None, _CONTROL_BYTES)) != len(lines) - line_end_bytes:
        return False  # A value has a control character; uvicorn raises.
    cycle.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINE[start["status"]], lines, body))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True
