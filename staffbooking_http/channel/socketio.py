"""The channel over Socket.IO: the same events, through the same switchboard (CONTRACT 6).

python-socketio speaks the protocol (Socket.IO 5 over Engine.IO 4), by long polling and over
WebSockets. What reaches it was looked at here: who asks, from whose page, for which connection,
and whether it is a packet at all.
"""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import anyio

from staffbooking_core.domain.accounts.users import session_digest
from staffbooking_core.errors import Forbidden, NotFound, StaffbookingError, Unauthenticated
from staffbooking_core.representations.channel import BadFrame, Close
from staffbooking_http.api import request_body
from staffbooking_http.api.access import session_token
from staffbooking_http.api.endpoint import Call, Header, Message, Receive, Reply, Scope, Send, Site
from staffbooking_http.api.errors import ClientGone, Refused, other_method, problem
from staffbooking_http.api.pipeline import respond
from staffbooking_http.channel import frames
from staffbooking_http.channel.handshake import admit, opened, refuse
from staffbooking_http.channel.hub import Connection, Switchboard
from staffbooking_http.channel.outbound import LINGER
from staffbooking_http.channel.socketio_client import CLIENT, Client, Link
from staffbooking_http.channel.socketio_engine import Engine, Environ, Socket, make_server

log = logging.getLogger("staffbooking.channel")

PATHS = ("/socket.io/", "/socket.io")
MOST_PACKETS = 512
"""Of one request: as events, so many would end a connection anyway."""
PIECE = 64 * 1024
"""Bytes of an answer that are sent at a time."""
TEXT = b"text/plain; charset=UTF-8"

_METHODS = b"GET, POST, OPTIONS"
_OUR_SITE = (b"same-origin", b"none")
"""Where a request comes from that names no origin, as browsers tell: a page of the service's
own, or no page."""


class SocketIo:
    """An ASGI application for HTTP and WebSockets."""

    def __init__(self, site: Site, switchboard: Switchboard, origins: Collection[str]) -> None:
        self._site = site
        self._switchboard = switchboard
        self._origins = origins
        self._clients: dict[str, Client] = {}
        self._server = make_server(self._arrive, self._leave)
        self._server.on("connect", self._open)
        self._server.on("disconnect", self._quit)
        self._server.on("*", self._take)
        self._engine: Engine = self._server.eio

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """What looks after connections ends with the context, and so do they."""
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                self.retire()
                for client in self._clients.values():
                    client.cut()
                await self._engine.shutdown()

    def retire(self) -> None:
        """End the connections that are there: for a restart."""
        for client in self._clients.values():
            client.close(Close.RESTART, "restarting")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()  # That somebody wants to connect: the scope says all of it.
        else:
            send = self._for_pages(scope, send)
        try:
            await self._serve(scope, receive, send)
        except ClientGone:
            log.debug("a client hung up")
        except Exception as error:
            await refuse(self._site, scope, send, error)

    # Requests ---------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["method"] if scope["type"] == "http" else "websocket"
        if scope["type"] == "http" and kind not in ("GET", "POST"):
            await respond(send, other_method(kind, _METHODS), self._site.headers)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if "sid" in query:
            client = self._known(scope, kind, query["sid"][0])
            await self._carry(client, kind, scope, receive, send)
        else:
            await self._welcome(query, kind, scope, receive, send)

    async def _welcome(
        self,
        query: dict[str, list[str]],
        kind: str,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """A new connection, if all is well."""
        session, user = await admit(self._site, scope, self._origins, origin_needed=False)
        shown = dict(scope["headers"])
        if b"origin" not in shown and shown.get(b"sec-fetch-site", b"none") not in _OUR_SITE:
            raise Forbidden("foreign_origin", "The request comes from a foreign page")
        transport = "websocket" if kind == "websocket" else "polling"
        if kind == "POST" or query.get("EIO") != ["4"] or query.get("transport") != [transport]:
            raise Refused(400, "bad_handshake", "This is no handshake of Engine.IO, protocol 4")
        await self._switchboard.reserve(user)
        client = Client(session, user, Socket(self._engine))
        try:
            await self._carry(client, kind, scope, receive, send)
        finally:
            if not client.socket.is_made:
                await self._switchboard.release(user.id)

    def _known(self, scope: Scope, kind: str, sid: str) -> Client:
        """The client of a connection; to others than its session there is none. Programs often
        show the cookie to open something, and not when they poll: then the `sid` must do, which
        nobody else was told."""
        token, client = session_token(scope["headers"]), self._clients.get(sid)
        if token is None and kind == "websocket":
            raise Unauthenticated("unauthenticated", "Sign in first")
        if client is None or (token and client.session.digest != session_digest(token)):
            raise NotFound("Connection")
        if not client.is_open and kind != "GET":
            raise NotFound("Connection")
        return client

    async def _carry(
        self, client: Client, kind: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        reply: Reply | None = None
        with client.carried(kind) as carrier:
            match kind:
                case "GET":
                    reply = await self._poll(client, receive)
                    await self._answer(reply, send)
                    if reply.status == 200 and not client.socket.is_upgraded:
                        client.outbox.sent()
                case "POST":
                    reply = await self._post(client, scope, receive)
                    await self._answer(reply, send)
                case _:
                    await self._link(client, Link(client, carrier, receive, send))
        if reply is None and kind != "websocket":  # It was cut off.
            raise NotFound("Connection")

    async def _poll(self, client: Client, receive: Receive) -> Reply:
        """Whatever waits for the client, or comes next; of a closed one, what is left."""
        if client.is_closed:
            if rest := client.outbox.rest():
                return Reply(200, rest.encode(), media=TEXT)
            raise NotFound("Connection")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_notice_end, client, receive)
            reply = await self._ask(client, "GET")
            tasks.cancel_scope.cancel()
        return reply

    async def _post(self, client: Client, scope: Scope, receive: Receive) -> Reply:
        """Take what the client has sent, packet by packet."""
        raw = await request_body.read(Call(self._site, scope, receive))
        packets = raw.split(b"\x1e")
        if len(packets) > MOST_PACKETS:
            client.close(Close.FORBIDDEN, "too many packets")
        for packet in packets:
            heard = client.heard(_text(packet))
            if not client.is_open:
                break
            reply = await self._ask(client, "POST", heard.encode())
            if reply.status != 200:
                return reply
        return Reply(200, b"ok", media=TEXT)

    async def _ask(self, client: Client, method: str, body: bytes = b"") -> Reply:
        """The engine's answer to a request."""
        answer: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            answer.append(message)

        await self._engine.handle_request(client.scope(method, len(body)), receive, send)
        start, end = answer
        if start["status"] == 200 and end["body"]:
            return Reply(200, end["body"], media=TEXT)
        return Reply(400, problem("bad_handshake", "This connection takes no such request"))

    async def _answer(self, reply: Reply, send: Send) -> None:
        """Send an answer as fast as the client reads it."""

        async def in_pieces(message: Message) -> None:
            while len(message.get("body", b"")) > PIECE:
                body = message["body"]
                await send({**message, "body": body[:PIECE], "more_body": True})
                message = {**message, "body": body[PIECE:]}
            await send(message)

        await respond(in_pieces, reply, self._site.headers)

    async def _link(self, client: Client, link: Link) -> None:
        """Carry a client over a WebSocket, as long as that is open."""
        is_new = not client.socket.is_made
        try:
            await self._engine.handle_request(client.scope("websocket"), link.receive, link.send)
        except Exception:
            if not link.is_accepted:
                raise
            log.debug("a WebSocket of user %d broke", client.user.id, exc_info=True)
            if is_new or client.socket.is_upgraded:
                client.leave()
        finally:
            if client.socket.is_made:
                client.socket.end_upgrade()

    def _for_pages(self, scope: Scope, send: Send) -> Send:
        """Let pages of allowed origins read the answers."""
        headers: list[Header] = [(b"vary", b"origin")]
        shown = [value for name, value in scope["headers"] if name == b"origin"]
        if len(shown) == 1 and shown[0].decode("latin-1") in self._origins:
            headers += [
                (b"access-control-allow-origin", shown[0]),
                (b"access-control-allow-credentials", b"true"),
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", b"content-type"),
            ]

        async def readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        return readable

    # Connections ------------------------------------------------------------------------

    def _arrive(self, sid: str, environ: Environ) -> None:
        client = _client_of(environ)
        client.begin(sid)
        self._clients[sid] = client
        if not self._switchboard.is_open:  # Since it was counted.
            client.close(Close.RESTART, "restarting")
        self._engine.start_background_task(self._attend, client)

    def _leave(self, environ: Environ) -> None:
        _client_of(environ).leave()

    async def _attend(self, client: Client) -> None:
        try:
            await client.ended()
        finally:
            await self._bury(client)

    async def _bury(self, client: Client) -> None:
        """The end of a client that was closed. As long as anything is kept for it, it has its
        seat."""
        try:
            if client.connection is not None:
                self._switchboard.close(client.connection)
            await client.socket.close()
            with anyio.move_on_after(LINGER):
                await client.settled()
        finally:
            client.cut()
            client.socket.forget()
            del self._clients[client.socket.sid]
            await self._switchboard.release(client.user.id)

    # Socket.IO --------------------------------------------------------------------------

    async def _open(self, sid: str, environ: Environ, auth: Any) -> None:
        """A client connects."""
        client = _client_of(environ)
        connection = await opened(client, client.user, self._connect(client))
        if connection is not None and client.is_open:
            client.connect(connection)
        elif connection is not None:
            self._switchboard.close(connection)

    async def _connect(self, client: Client) -> Connection | None:
        """Since the handshake its session may have ended: then there is none."""
        ports = self._site.ports
        caller = await ports.admission.by_session(client.session.digest, ports.clock.wall())
        if caller is None:
            client.close(Close.FORBIDDEN, "the session has ended")
            return None
        return await self._switchboard.open(caller.session, caller.user, client)

    async def _quit(self, sid: str, reason: str) -> None:
        """A client disconnects."""
        self._client(sid).leave()

    async def _take(self, event: str, sid: str, *args: Any) -> Any:
        """An event of a client; what is returned goes to the callback that came with it."""
        client = self._client(sid)
        if client.connection is None or not client.is_open:
            return self._server.not_handled
        request: frames.Request | StaffbookingError
        if event:
            request = frames.understand(event, args[0] if len(args) == 1 else None)
        else:
            request = BadFrame("An event has a name, and one object of data")
        async with client.turn:
            answer = await self._switchboard.receive(client.connection, request)
        return None if answer is None else answer.data

    def _client(self, sid: str) -> Client:
        return _client_of(self._server.get_environ(sid))


def _client_of(environ: Environ) -> Client:
    client: Client = environ["asgi.scope"][CLIENT]
    return client


async def _notice_end(client: Client, receive: Receive) -> None:
    """Whoever hangs up while they wait to hear something is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    client.leave()


def _text(packet: bytes) -> str | None:
    try:
        return packet.decode()
    except UnicodeDecodeError:
        return None
