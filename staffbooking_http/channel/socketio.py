"""The channel over Socket.IO: the same events, through the same hub (CONTRACT 6).

python-socketio implements the protocol (Socket.IO 5 over Engine.IO 4), by long polling and over
WebSockets. This module first checks the session, the origin, the connection and the packets of
each request.
"""

import logging
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qs

import anyio

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_core.domain.accounts.users import Session, User, hash_session_token
from staffbooking_core.errors import NotFound, StaffbookingError, Unauthenticated
from staffbooking_core.representations.channel import CloseCode, MalformedFrame
from staffbooking_http.api import request_body
from staffbooking_http.api.access import find_session_token
from staffbooking_http.api.endpoint import (
    AppContext,
    AsgiMessage,
    Call,
    Header,
    Receive,
    Reply,
    Scope,
    Send,
)
from staffbooking_http.api.errors import (
    ClientDisconnected,
    HttpError,
    error_body,
    method_not_allowed_reply,
)
from staffbooking_http.api.pipeline import send_reply
from staffbooking_http.channel import frames
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.handshake import (
    authenticate_handshake,
    check_origin,
    open_or_close,
    send_error,
)
from staffbooking_http.channel.hub import ChannelHub
from staffbooking_http.channel.outbound import CLOSE_TIMEOUT_SECONDS
from staffbooking_http.channel.socketio_client import (
    CLIENT_SCOPE_KEY,
    EngineWebSocket,
    SocketIoClient,
)
from staffbooking_http.channel.socketio_engine import (
    EngineSocket,
    Environ,
    TrackedEngine,
    create_server,
)

log = logging.getLogger("staffbooking.channel")

_MAX_PACKETS_PER_REQUEST = 512
"""Packets in one request: that many events would exceed the rate limit anyway."""
_RESPONSE_CHUNK_BYTES = 64 * 1024
"""Bytes of a response that are sent at a time."""
_TEXT_MEDIA_TYPE = b"text/plain; charset=UTF-8"

_ALLOWED_METHODS = b"GET, POST, OPTIONS"


class SocketIoApp:
    """An ASGI application for HTTP and WebSockets."""

    def __init__(self, site: AppContext, hub: ChannelHub, allowed_origins: Collection[str]) -> None:
        self._site = site
        self._hub = hub
        self._allowed_origins = allowed_origins
        self._clients: dict[str, SocketIoClient] = {}
        self._server = create_server(self._on_socket_created, self._on_socket_closed)
        self._server.on("connect", self._on_connect)
        self._server.on("disconnect", self._on_disconnect)
        self._server.on("*", self._on_event)
        self._engine: TrackedEngine = self._server.eio

    async def close(self) -> None:
        """Close the connections at once."""
        with anyio.CancelScope(shield=True):
            self.retire()
            for client in self._clients.values():
                client.abort()
            await self._engine.shutdown()

    def retire(self) -> None:
        """Close the open connections, for a restart."""
        for client in self._clients.values():
            client.close(CloseCode.RESTART, "restarting")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()  # The connect event, which adds nothing to the scope.
        else:
            send = self._with_cors_headers(scope, send)
        try:
            await self._handle_scope(scope, receive, send)
        except ClientDisconnected:
            log.debug("a client hung up")
        except Exception as error:
            await send_error(self._site, scope, send, error, "the channel")

    # Requests ---------------------------------------------------------------------------

    async def _handle_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["method"] if scope["type"] == "http" else "websocket"
        if scope["type"] == "http" and kind not in ("GET", "POST"):
            await send_reply(
                send, method_not_allowed_reply(kind, _ALLOWED_METHODS), self._site.default_headers
            )
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if "sid" in query:
            client = self._find_client(scope, kind, query["sid"][0])
            await self._handle_client_request(client, kind, scope, receive, send)
        else:
            await self._handle_handshake(query, kind, scope, receive, send)

    async def _handle_handshake(
        self,
        query: dict[str, list[str]],
        kind: str,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Open a new connection if every check passes."""
        with DatabaseTime(self._site.ports.policy.request_database_time.total_seconds()):
            session, user = await self._reserve_connection(query, kind, scope)
        client = SocketIoClient(session, user, EngineSocket(self._engine))
        try:
            await self._handle_client_request(client, kind, scope, receive, send)
        finally:
            if not client.socket.is_attached:
                await self._hub.release(user.id)

    async def _reserve_connection(
        self, query: dict[str, list[str]], kind: str, scope: Scope
    ) -> tuple[Session, User]:
        """Check a handshake and reserve its connection; returns the session and its user."""
        session, user = await authenticate_handshake(
            self._site, scope, self._allowed_origins, is_origin_required=False
        )
        transport = "websocket" if kind == "websocket" else "polling"
        if kind == "POST" or query.get("EIO") != ["4"] or query.get("transport") != [transport]:
            raise HttpError(400, "bad_handshake", "This is no handshake of Engine.IO, protocol 4")
        await self._hub.reserve(user)
        return session, user

    def _find_client(self, scope: Scope, kind: str, sid: str) -> SocketIoClient:
        """Return the client of a connection, which only its own session can find: the `sid` is no
        credential without the session's cookie (CONTRACT 10)."""
        if (token := find_session_token(scope["headers"])) is None:
            raise Unauthenticated("unauthenticated", "Sign in first")
        check_origin(scope, self._allowed_origins, is_required=False)
        client = self._clients.get(sid)
        if client is None or client.session.digest != hash_session_token(token):
            raise NotFound("Connection")
        if not client.is_open and kind != "GET":
            raise NotFound("Connection")
        return client

    async def _handle_client_request(
        self, client: SocketIoClient, kind: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        reply: Reply | None = None
        with client.track_request(kind) as carrier:
            match kind:
                case "GET":
                    reply = await self._poll(client, receive)
                    await self._send_in_chunks(reply, send)
                    if reply.status == 200 and not client.socket.is_upgraded:
                        client.packet_queue.mark_sent()
                case "POST":
                    reply = await self._receive_packets(client, scope, receive)
                    await self._send_in_chunks(reply, send)
                case _:
                    await self._run_websocket(
                        client, EngineWebSocket(client, carrier, receive, send)
                    )
        if reply is None and kind != "websocket":  # The request was cancelled.
            raise NotFound("Connection")

    async def _poll(self, client: SocketIoClient, receive: Receive) -> Reply:
        """Return the queued packets or the next ones; for a closed client, the remaining ones."""
        if client.is_closed:
            if rest := client.packet_queue.take_remaining():
                return Reply(200, rest.encode(), media_type=_TEXT_MEDIA_TYPE)
            raise NotFound("Connection")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_disconnect, client, receive)
            reply = await self._call_engine(client, "GET")
            tasks.cancel_scope.cancel()
        return reply

    async def _receive_packets(
        self, client: SocketIoClient, scope: Scope, receive: Receive
    ) -> Reply:
        """Process the packets of a request one by one."""
        raw = await request_body.read(Call(self._site, scope, receive))
        packets = raw.split(b"\x1e")
        if len(packets) > _MAX_PACKETS_PER_REQUEST:
            client.close(CloseCode.FORBIDDEN, "too many packets")
        for packet in packets:
            accepted = client.accept_packet(_decode_packet(packet))
            if not client.is_open:
                break
            reply = await self._call_engine(client, "POST", accepted.encode())
            if reply.status != 200:
                return reply
        return Reply(200, b"ok", media_type=_TEXT_MEDIA_TYPE)

    async def _call_engine(self, client: SocketIoClient, method: str, body: bytes = b"") -> Reply:
        """Return the engine's response to a request."""
        messages: list[AsgiMessage] = []

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: AsgiMessage) -> None:
            messages.append(message)

        await self._engine.handle_request(
            client.build_engine_scope(method, len(body)), receive, send
        )
        start, end = messages
        if start["status"] == 200 and end["body"]:
            return Reply(200, end["body"], media_type=_TEXT_MEDIA_TYPE)
        return Reply(400, error_body("bad_handshake", "This connection takes no such request"))

    async def _send_in_chunks(self, reply: Reply, send: Send) -> None:
        """Send a response as fast as the client reads it."""

        async def send_chunked(message: AsgiMessage) -> None:
            while len(message.get("body", b"")) > _RESPONSE_CHUNK_BYTES:
                body = message["body"]
                await send({**message, "body": body[:_RESPONSE_CHUNK_BYTES], "more_body": True})
                message = {**message, "body": body[_RESPONSE_CHUNK_BYTES:]}
            await send(message)

        await send_reply(send_chunked, reply, self._site.default_headers)

    async def _run_websocket(
        self, client: SocketIoClient, engine_websocket: EngineWebSocket
    ) -> None:
        """Serve a client over a WebSocket until that is closed."""
        is_new = not client.socket.is_attached
        try:
            await self._engine.handle_request(
                client.build_engine_scope("websocket"),
                engine_websocket.receive,
                engine_websocket.send,
            )
        except Exception:
            if not engine_websocket.is_accepted:
                raise
            log.debug("a WebSocket of user %d broke", client.user.id, exc_info=True)
            if is_new or client.socket.is_upgraded:
                client.disconnect()
        finally:
            if client.socket.is_attached:
                client.socket.end_upgrade()

    def _with_cors_headers(self, scope: Scope, send: Send) -> Send:
        """Let pages of allowed origins read the responses."""
        headers: list[Header] = [(b"vary", b"origin")]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(origins) == 1 and origins[0].decode("latin-1") in self._allowed_origins:
            headers += [
                (b"access-control-allow-origin", origins[0]),
                (b"access-control-allow-credentials", b"true"),
                (b"access-control-allow-methods", _ALLOWED_METHODS),
                (b"access-control-allow-headers", b"content-type"),
            ]

        async def send_with_cors(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        return send_with_cors

    # Connections ------------------------------------------------------------------------

    def _on_socket_created(self, sid: str, environ: Environ) -> None:
        client = _client_from_environ(environ)
        client.attach_socket(sid)
        self._clients[sid] = client
        if not self._hub.is_open:  # It may have closed since the reservation.
            client.close(CloseCode.RESTART, "restarting")
        self._engine.start_background_task(self._supervise, client)

    def _on_socket_closed(self, environ: Environ) -> None:
        _client_from_environ(environ).disconnect()

    async def _supervise(self, client: SocketIoClient) -> None:
        try:
            await client.wait_until_closed()
        finally:
            await self._clean_up(client)

    async def _clean_up(self, client: SocketIoClient) -> None:
        """Clean up after a closed client. Its reservation lasts until nothing is kept for it."""
        try:
            if client.connection is not None:
                self._hub.close(client.connection)
            await client.socket.close()
            with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS):
                await client.wait_until_idle()
        finally:
            client.abort()
            client.socket.forget()
            del self._clients[client.socket.sid]
            await self._hub.release(client.user.id)

    # Socket.IO --------------------------------------------------------------------------

    async def _on_connect(self, sid: str, environ: Environ, auth: Any) -> None:
        """Handle the Socket.IO connect of a client."""
        client = _client_from_environ(environ)
        connection = await open_or_close(client, client.user, self._open_connection(client))
        if connection is not None and client.is_open:
            client.attach_connection(connection)
        elif connection is not None:
            self._hub.close(connection)

    async def _open_connection(self, client: SocketIoClient) -> ChannelConnection | None:
        """Open the connection, unless the session has ended since the handshake."""
        ports = self._site.ports
        caller = await ports.admission.authenticate_session(
            client.session.digest, ports.clock.wall()
        )
        if caller is None:
            client.close(CloseCode.FORBIDDEN, "the session has ended")
            return None
        return await self._hub.open(caller.session, caller.user, client)

    async def _on_disconnect(self, sid: str, reason: str) -> None:
        """Handle the disconnect of a client."""
        self._client_by_sid(sid).disconnect()

    async def _on_event(self, event: str, sid: str, *args: Any) -> Any:
        """Handle an event of a client. The return value goes to the event's callback."""
        client = self._client_by_sid(sid)
        if client.connection is None or not client.is_open:
            return self._server.not_handled
        request: frames.ClientRequest | StaffbookingError
        if event:
            request = frames.parse_request(event, args[0] if len(args) == 1 else None)
        else:
            request = MalformedFrame("An event has a name, and one object of data")
        async with client.event_lock:
            answer = await self._hub.receive(client.connection, request)
        return None if answer is None else answer.data

    def _client_by_sid(self, sid: str) -> SocketIoClient:
        return _client_from_environ(self._server.get_environ(sid))


def _client_from_environ(environ: Environ) -> SocketIoClient:
    client: SocketIoClient = environ["asgi.scope"][CLIENT_SCOPE_KEY]
    return client


async def _watch_disconnect(client: SocketIoClient, receive: Receive) -> None:
    """Disconnect a client that closes its HTTP connection while it polls."""
    while (await receive())["type"] != "http.disconnect":
        pass
    client.disconnect()


def _decode_packet(packet: bytes) -> str | None:
    try:
        return packet.decode()
    except UnicodeDecodeError:
        return None
