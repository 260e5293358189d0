"""The channel over WebSocket: a client's frames go to the hub in order."""

from collections.abc import Collection

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.representations.channel import CloseCode, MalformedFrame
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import AppContext, AsgiMessage, Receive, Scope, Send
from staffbooking_http.api.query_string import ConnectQuery
from staffbooking_http.channel import frames
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.handshake import (
    authenticate_handshake,
    open_or_close,
    send_error,
)
from staffbooking_http.channel.hub import ChannelHub
from staffbooking_http.channel.outbound import Outbound, open_outbound


class WebSocketApp:
    """An ASGI application for WebSockets."""

    def __init__(self, site: AppContext, hub: ChannelHub, allowed_origins: Collection[str]) -> None:
        self._site = site
        self._hub = hub
        self._allowed_origins = allowed_origins
        self._database_seconds = site.ports.policy.request_database_time.total_seconds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # The connect message; the scope has all of its data.
        try:
            with DatabaseTime(self._database_seconds):
                session, user = await authenticate_handshake(
                    self._site, scope, self._allowed_origins, is_origin_required=True
                )
                query = query_string.parse_query(ConnectQuery, scope["query_string"])
                await self._hub.reserve(user)
        except Exception as error:
            await send_error(self._site, scope, send, error, "the channel")
            return
        try:
            await send({"type": "websocket.accept"})
            async with open_outbound(scope, send) as outbound:
                await self._serve_connection(session, user, outbound, receive, query.after)
        finally:
            await self._hub.release(user.id)

    async def _serve_connection(
        self, session: Session, user: User, outbound: Outbound, receive: Receive, after: int | None
    ) -> None:
        opening = self._hub.open(session, user, outbound, after)
        if (connection := await open_or_close(outbound, user, opening)) is None:
            return
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._receive_frame(connection, message)
        finally:
            self._hub.close(connection)

    async def _receive_frame(self, connection: ChannelConnection, message: AsgiMessage) -> None:
        text = message.get("text")
        raw = message["bytes"] if text is None else text.encode(errors="replace")
        if len(raw) > frames.MAX_FRAME_BYTES:
            connection.outbound.close(CloseCode.TOO_BIG, "a frame is too long")
        elif text is None:
            await self._hub.receive(connection, MalformedFrame("Frames are text, not binary"))
        else:
            await self._hub.receive(connection, *frames.parse_frame(text))
