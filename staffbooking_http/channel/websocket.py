"""The channel over WebSocket: frames of a client go to the switchboard, one after the other."""

from collections.abc import Collection

from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.representations.channel import BadFrame, Close
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Message, Receive, Scope, Send, Site
from staffbooking_http.api.query_string import Connect
from staffbooking_http.channel import frames
from staffbooking_http.channel.handshake import admit, opened, refuse
from staffbooking_http.channel.hub import Connection, Pipe, Switchboard
from staffbooking_http.channel.outbound import carried


class WebSocket:
    """An ASGI application for WebSockets."""

    def __init__(self, site: Site, switchboard: Switchboard, origins: Collection[str]) -> None:
        self._site = site
        self._switchboard = switchboard
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # That somebody wants to connect: the scope says all of it.
        try:
            session, user = await admit(self._site, scope, self._origins, origin_needed=True)
            asked = query_string.read(Connect, scope["query_string"])
            await self._switchboard.reserve(user)
        except Exception as error:
            await refuse(self._site, scope, send, error)
            return
        try:
            await send({"type": "websocket.accept"})
            async with carried(scope, send) as pipe:
                await self._talk(session, user, pipe, receive, asked.after)
        finally:
            await self._switchboard.release(user.id)

    async def _talk(
        self, session: Session, user: User, pipe: Pipe, receive: Receive, after: int | None
    ) -> None:
        opening = self._switchboard.open(session, user, pipe, after)
        if (connection := await opened(pipe, user, opening)) is None:
            return
        try:
            while (message := await receive())["type"] == "websocket.receive":
                await self._take(connection, message)
        finally:
            self._switchboard.close(connection)

    async def _take(self, connection: Connection, message: Message) -> None:
        text = message.get("text")
        raw = message["bytes"] if text is None else text.encode(errors="replace")
        if len(raw) > frames.FRAME_BYTES:
            connection.pipe.close(Close.TOO_BIG, "a frame is too long")
        elif text is None:
            await self._switchboard.receive(connection, BadFrame("Frames are text, not binary"))
        else:
            await self._switchboard.receive(connection, *frames.parse(text))
