"""HTTP/1.1 of the embedded server: uvicorn's protocol, with what RFC 9112 and CONTRACT 10 demand of
the edge.

uvicorn and its parser (llhttp) refuse two lengths, folded headers, bare line feeds and wrong chunk
sizes. This module refuses what they let through: a request without exactly one valid Host, other
versions than 1.0 and 1.1, transfer codings other than `chunked`, wrong targets, and long heads.
Trailer fields are read and dropped.
"""

import asyncio
import re
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from staffbooking_http.api.endpoint import Header
from staffbooking_http.api.errors import error_body
from staffbooking_http.channel.uvicorn_protocol import BoundedWebSocketProtocol, is_valid_handshake
from staffbooking_http.server.limited_request import Application, LimitedRequest
from staffbooking_http.server.overload import Overload
from staffbooking_http.server.peer_connections import PeerConnections
from staffbooking_http.server.request_scan import HOST_PATTERN, VALID_HOST
from staffbooking_http.server.response_transport import ResponseTransport

HEAD_TIMEOUT_SECONDS = 5.0
"""Seconds that the head of a request may take to arrive."""
UNREAD_BODY_TIMEOUT_SECONDS = 10.0
"""Seconds that the rest of a body may take to arrive after the response."""
MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a head on the wire, and of a trailer section or a chunk's line."""
MAX_CONNECTIONS = 4000
"""Maximum open connections of HTTP and the channel together."""
REFUSAL_TIMEOUT_SECONDS = 2.0
"""Seconds that a client has to read why its input was refused."""

_END_OF_HEAD = b"\r\n\r\n"
_CHECKED_HEADERS = frozenset({b"host", b"origin", b"transfer-encoding"})
_UNKNOWN_METHOD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ")
_STAND_IN_METHOD = b"UNLINK"
"""A method that the parser knows and no endpoint has, in place of one that the parser refuses."""
_FOREIGN_METHODS = frozenset(
    b"ANNOUNCE DESCRIBE FLUSH GET_PARAMETER PAUSE PLAY PRI RECORD REDIRECT SETUP SET_PARAMETER "
    b"TEARDOWN".split()
)
"""Methods of RTSP and HTTP/2, which the parser refuses in HTTP/1.1, but not as unknown."""
_ABSOLUTE_TARGET = re.compile(rf"(?i:https?)://({HOST_PATTERN})(/.*|\?.*)?".encode())
_NO_REQUEST = "This is no HTTP/1.1 request"


class MalformedRequest(Exception):
    """The head of a request is not one that HTTP/1.1 lets a server answer."""


class EdgeConfig(uvicorn.Config):
    """The configuration of a server, with the state that its protocols share."""

    peers: PeerConnections
    overload: Overload | None = None
    """None where nothing is refused."""


class CountedWebSocketProtocol(BoundedWebSocketProtocol):
    """A WebSocket that counts as a connection of its peer until it is lost."""

    config: EdgeConfig

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.peers.remove(self.transport)
        super().connection_lost(exc)


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, with limits on request heads and connections, and with error
    bodies in the contract's format for input that is not a request."""

    config: EdgeConfig
    _input_timer: asyncio.TimerHandle | None = None
    """Closes the connection unless a head arrives in time."""
    _section_bytes = 0
    """Bytes of the head, chunk line or trailer section that is being received."""
    _is_between_bodies = True
    """Whether a head is expected or being received."""
    _head_has_begun = False
    _is_resuming = False
    """Whether a new parser is being told of a request that another one has parsed."""
    _active_at = 0.0
    """The time of the last input or response."""
    _last_valid_host: bytes | None = None
    """Not checked again: the requests of a connection mostly have the same Host."""
    _unknown_method: bytes | None = None
    """The method of the request whose head arrives, if the parser refuses it."""
    _ignores_input = False
    """Whether further input is dropped, because the connection will be closed."""
    _held_input: bytes | None = None
    """Input that came in an overload, until it is received together with that of others."""

    # The connection -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if not self.config.peers.add(transport):
            self._ignores_input = True
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self._response_transport: Any = ResponseTransport(self, transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._respond_and_close(
                503, error_body("overloaded", "Too many connections"), b"retry-after: 2\r\n"
            )
        else:
            self._start_input_timer(HEAD_TIMEOUT_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.config.peers.remove(self.transport)
        self._cancel_input_timer()
        super().connection_lost(exc)

    # Input --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._active_at = self.loop.time()
        overload = self.config.overload
        if self._held_input is not None:
            self.receive_held()  # Responses keep the order of their requests.
        elif (
            overload is not None
            and overload.is_overloaded()
            and not self._ignores_input
            and self._is_idle()
            and not overload.is_exempt(data)
        ):
            self._held_input = data
            overload.hold(self)
            return
        self._receive(data)

    def receive_held(self) -> None:
        """Serve or refuse the request that is held, if one is."""
        data, self._held_input = self._held_input, None
        if data is not None and not self.transport.is_closing():
            self._receive(data)

    def shutdown(self) -> None:
        self.receive_held()
        super().shutdown()

    def _receive(self, data: bytes) -> None:
        overload = self.config.overload
        if overload is not None and overload.is_overloaded() and self._refuse_early(overload, data):
            return
        while data and not self._ignores_input and self.transport.get_protocol() is self:
            size = self._next_piece_size(data)
            self._section_bytes += size
            self._feed(data[:size])
            data = data[size:]
            if self._section_bytes >= MAX_HEAD_BYTES and not self._ignores_input:
                self.send_400_response("The head of the request is too large")
        if not self._ignores_input and self.transport.get_protocol() is self:
            self._watch_input()

    def _refuse_early(self, overload: Overload, data: bytes) -> bool:
        """Refuse a whole request without a parse, if it is one too many. Not while the client
        leaves responses unread: it would get ever more of them, without a bound."""
        if self._ignores_input or self.flow.write_paused or not self._is_idle():
            return False
        if (response := overload.refuse_early(data, self.client)) is None:
            return False
        self._cancel_input_timer()
        self.transport.write(response)
        self._keep_alive_from_now()
        return True

    def _next_piece_size(self, data: bytes) -> int:
        """The number of bytes to parse at once: at most to the end of the head, so that the bytes
        of the next one are counted from its beginning."""
        size = MAX_HEAD_BYTES - self._section_bytes
        if self._is_between_bodies and (end := data.find(_END_OF_HEAD, 0, size)) >= 0:
            return end + len(_END_OF_HEAD)
        return size if size < len(data) else len(data)

    def _feed(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self._cancel_input_timer()
                self._unset_keepalive_if_required()
                self.handle_websocket_upgrade()
            else:
                self._continue_without_upgrade(piece[upgrade.args[0] :])
        except httptools.HttpParserInvalidMethodError:
            self._feed_unknown_method(piece)
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, MalformedRequest):
                self.send_400_response(str(cause))
            elif piece.partition(b" ")[0] in _FOREIGN_METHODS:
                self._feed_unknown_method(piece)
            else:
                self.send_400_response(_NO_REQUEST)

    def _feed_unknown_method(self, piece: bytes) -> None:
        """Parse the head of a request whose method the parser refuses: the application refuses it
        as it refuses each method that a path does not have (404, 405)."""
        match = _UNKNOWN_METHOD.match(piece)
        if match is None or self._section_bytes != len(piece):  # Its beginning came before.
            self.send_400_response(_NO_REQUEST)
            return
        self._unknown_method = match[1]
        self.parser = httptools.HttpRequestParser(self)
        self._feed(_STAND_IN_METHOD + piece[match.end(1) :])

    def _continue_without_upgrade(self, rest: bytes) -> None:
        """Go on in HTTP/1.1 after an upgrade that is not supported (RFC 9110, 7.8). The parser has
        skipped the body and would parse no more, so a new one reads the body."""
        framing = self._framing_headers()
        self.parser = httptools.HttpRequestParser(self)
        self.headers = []  # The request has its own.
        if framing:
            head = b"".join(b"%b: %b\r\n" % header for header in framing)
            self._is_resuming = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % head)
            self._is_resuming = False
        if rest:
            self._feed(rest)

    def _framing_headers(self) -> list[Header]:
        wanted = (b"content-length", b"transfer-encoding")
        return [header for header in self.scope["headers"] if header[0] in wanted]

    # What the parser reports ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._is_resuming:
            self._head_has_begun = True
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_resuming:
            super().on_url(url)

    def on_headers_complete(self) -> None:
        self._section_bytes = 0
        self._is_between_bodies = self._head_has_begun = False
        self._cancel_input_timer()
        if not self._is_resuming:
            has_chunks = self._check_head()
            super().on_headers_complete()
            if self._unknown_method is not None:
                self.scope["method"] = self._unknown_method.decode()
                self._unknown_method = None
            if has_chunks:
                self.headers = []  # Trailer fields go here, which nobody reads.

    def on_chunk_header(self) -> None:
        self._section_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._section_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._section_bytes = 0
        self._is_between_bodies = True
        if self.parser.should_upgrade() and not self._should_upgrade() and self._framing_headers():
            self._is_between_bodies = False
            return  # The body follows, for another parser.
        super().on_message_complete()

    def _check_head(self) -> bool:
        """Check the target and the headers of the request, and normalize them. Returns whether
        the body has chunks. Raises MalformedRequest."""
        if (version := self.parser.get_http_version()) not in ("1.1", "1.0"):
            raise MalformedRequest("The version of HTTP is 1.1 or 1.0")
        hosts: list[int] = []
        origins: list[int] = []
        codings: list[bytes] = []
        for position, (name, value) in enumerate(self.headers):
            if name not in _CHECKED_HEADERS:
                continue
            if name == b"host":
                hosts.append(position)
            elif name == b"origin":
                origins.append(position)
            else:
                codings.append(value.strip(b" \t").lower())
        if len(hosts) != 1 or not self._is_valid_host(self.headers[hosts[0]][1]):
            raise MalformedRequest("A request has exactly one valid Host")
        if not self.url.startswith(b"/") or b"#" in self.url:
            self._normalize_target(hosts[0])
        if len(origins) > 1:
            self._join_equal_origins(origins)
        if codings and (version == "1.0" or codings != [b"chunked"]):
            raise MalformedRequest("The only transfer coding is chunked, in HTTP/1.1")
        return bool(codings)

    def _is_valid_host(self, host: bytes) -> bool:
        if host != self._last_valid_host:
            if not VALID_HOST.fullmatch(host.strip(b" \t")):
                return False
            self._last_valid_host = host
        return True

    def _normalize_target(self, host_position: int) -> None:
        """Check a target that is no path (RFC 9112, 3.2). An absolute one becomes its path, and its
        authority the Host."""
        if b"#" in self.url:
            raise MalformedRequest("The target has no fragment")
        if (self.url, self.parser.get_method()) == (b"*", b"OPTIONS"):
            return
        if not (match := _ABSOLUTE_TARGET.fullmatch(self.url)):
            raise MalformedRequest("The target is a path or an absolute http address")
        authority, rest = match[1], match[2] or b""
        self.headers[host_position] = (b"host", authority)
        self.url = rest if rest.startswith(b"/") else b"/" + rest

    def _join_equal_origins(self, positions: list[int]) -> None:
        """Two equal Origin headers are one (CONTRACT 10)."""
        if len({self.headers[position][1] for position in positions}) == 1:
            for position in reversed(positions[1:]):
                del self.headers[position]

    def _should_upgrade(self) -> bool:
        """Whether to upgrade. An invalid handshake is handled as an ordinary request."""
        return (
            super()._should_upgrade()
            and (self.parser.get_method(), self.parser.get_http_version()) == (b"GET", "1.1")
            and is_valid_handshake(self.url, self.headers)
        )

    # Overload -------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Application) -> None:
        """Start a request when the limiter lets it."""
        overload, scope = self.config.overload, cycle.scope
        if (
            overload is None
            or (limiter := overload.limiter_of(scope["method"], scope["path"])) is None
        ):
            self.start_task(cycle, app)
        else:
            limiter.submit(LimitedRequest(self, cycle, app, limiter, overload))

    def start_task(self, cycle: RequestResponseCycle, app: Application) -> None:
        """Start a request at once."""
        cycle.transport = self._response_transport
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._keep_alive_from_now()

    # Time limits and refusals ---------------------------------------------------------------

    def _keep_alive_from_now(self) -> None:
        """Keep the connection for a while. One timer serves many requests: when it is over, it
        looks at the time of the last one."""
        self._active_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._start_keep_alive_timer(self._active_at + self.timeout_keep_alive)
        if not self._is_idle():
            self._watch_input()  # Perhaps nothing more arrives, which would start the timer.

    def _start_keep_alive_timer(self, until: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it was idle for long enough. While a request arrives or is
        answered, the next response starts the timer again."""
        self.timeout_keep_alive_task = None
        idle_until = self._active_at + self.timeout_keep_alive
        if self._is_idle() and self.loop.time() < idle_until:
            self._start_keep_alive_timer(idle_until)
        elif self._is_idle():
            super().timeout_keep_alive_handler()

    def _is_idle(self) -> bool:
        """Whether no part of a request has arrived that has no response yet."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return (
            is_answered
            and self._is_between_bodies
            and not self._head_has_begun
            and not self._section_bytes
        )

    def _watch_input(self) -> None:
        """Limit the time of what must arrive next, once input has begun it."""
        if self._head_has_begun or self.cycle is None:
            self._start_input_timer(HEAD_TIMEOUT_SECONDS)
        elif self.cycle.response_complete:
            self._start_input_timer(UNREAD_BODY_TIMEOUT_SECONDS)

    def _start_input_timer(self, seconds: float) -> None:
        if self._input_timer is None:
            self._input_timer = self.loop.call_later(seconds, self.transport.close)

    def _cancel_input_timer(self) -> None:
        if self._input_timer is not None:
            self._input_timer.cancel()
            self._input_timer = None

    def send_400_response(self, msg: str) -> None:
        self._respond_and_close(400, error_body("malformed_request", msg))

    def _respond_and_close(self, status: int, body: bytes, extra_headers: bytes = b"") -> None:
        """Refuse further input: send an error response, then close the connection. A request that
        still waits for its own response gets that, or none."""
        self._ignores_input = True
        self._cancel_input_timer()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.transport.close()
                return
        head = (
            b"content-type: application/json\r\nx-content-type-options: nosniff\r\n"
            b"cache-control: no-store\r\nconnection: close\r\n"
        )
        length = b"content-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + extra_headers + length + body)
        self.close_after_reading()

    def close_after_reading(self) -> None:
        """Close once the client has, or after a while. Closing at once would reset a connection
        whose client still sends, and the response could be lost."""
        self._ignores_input = True
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._input_timer = self.loop.call_later(REFUSAL_TIMEOUT_SECONDS, self.transport.close)
