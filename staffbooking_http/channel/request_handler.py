"""Executes clients' channel requests with the use-cases."""

import logging
from typing import Any

from attrs import evolve

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_core.errors import Conflict, StaffbookingError, StoreUnavailable
from staffbooking_core.inputs import (
    MarkReadUpTo,
    QueryPresence,
    Resume,
    SendToConversation,
    SetTyping,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import (
    ConnectionPhase,
    Frame,
    ServerEvent,
    ack_frame,
    error_frame,
)
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.messaging import channel
from staffbooking_core.usecases.messaging.messages import MessageDraft
from staffbooking_http.api.errors import to_reply
from staffbooking_http.channel.catch_up import CatchUp
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.frames import ClientRequest, EncodedFrame
from staffbooking_http.channel.message_batcher import MessageBatcher

log = logging.getLogger("staffbooking.channel")


class InternalChannelError(StaffbookingError):
    """What a client is told of an unexpected error, which is logged."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("Internal server error")


class RequestHandler:
    """Executes clients' requests."""

    def __init__(self, ports: Ports, catch_up: CatchUp) -> None:
        self._ports = ports
        self._catch_up = catch_up
        self._message_batcher = MessageBatcher(ports)

    async def handle(
        self, connection: ChannelConnection, request: ClientRequest, ref: Any
    ) -> Frame | None:
        """Execute a request; returns the ack or error frame to send, if any. Raises nothing."""
        try:
            with DatabaseTime(self._ports.policy.request_database_time.total_seconds()):
                connection.session = await sessions.touch_session(self._ports, connection.session)
                return await self._execute(connection, request, ref)
        except Conflict:
            return error_frame(StoreUnavailable(), ref)
        except Exception as error:
            if isinstance(error, StaffbookingError) and to_reply(error) is not None:
                return error_frame(error, ref)
            log.exception("a %s of user %d failed", type(request).__name__, connection.user_id)
            return error_frame(InternalChannelError(), ref)

    async def _execute(
        self, connection: ChannelConnection, request: ClientRequest, ref: Any
    ) -> Frame | None:
        user_id = connection.user_id
        if isinstance(request, Resume):
            connection.resume_after(request.after)
            self._catch_up.start(connection)
            return None
        if connection.phase is ConnectionPhase.QUIET:
            self._catch_up.start(connection)
        match request:
            case SendToConversation():
                draft = MessageDraft(
                    user_id, request.conversation_id, request.content, request.client_message_id
                )
                return ack_frame(await self._message_batcher.send(draft), ref)
            case SetTyping():
                await channel.broadcast_typing(self._ports, user_id, request)
            case MarkReadUpTo():
                await channel.mark_read(self._ports, user_id, request)
            case QueryPresence():
                for frame in await channel.query_presence(self._ports, user_id, request):
                    if frame.event is ServerEvent.ERROR:
                        return evolve(frame, ref=ref)
                    connection.send(EncodedFrame(frame))
        return None
