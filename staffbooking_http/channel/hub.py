"""The switchboard: all connections of one process, whatever transport they came by.

What is stored reaches them by one way only: the process reads the messages of all
conversations in the order of their ids, from where it was, and gives each to the connections
of its recipients. Word from other processes (`Chat`) only wakes it; it looks by itself, too.
"""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from attrs import define, evolve, field

from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import Conflict, StaffbookingError, StoreUnavailable
from staffbooking_core.inputs import (
    MarkReadUpTo,
    QueryPresence,
    Resume,
    SendToConversation,
    SetTyping,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel as frames_of
from staffbooking_core.representations.channel import (
    Broadcast,
    CloseCode,
    ConnectionPhase,
    ConnectionState,
    Frame,
    Hub,
    ReceiveResult,
    ServerEvent,
)
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.messaging import channel
from staffbooking_core.usecases.messaging.messages import MessageDraft, open_missing_conversations
from staffbooking_http.api.errors import to_reply
from staffbooking_http.api.metrics import ChannelMetrics
from staffbooking_http.channel.frames import ClientRequest, EncodedFrame
from staffbooking_http.channel.message_batcher import MessageBatcher
from staffbooking_http.channel.presence import Presence

log = logging.getLogger("staffbooking.channel")

TAIL_POLL_INTERVAL = timedelta(seconds=1)
"""After it, it looks for messages that nobody told it of."""
LEAVE_TIMEOUT_SECONDS = 2.0
"""Seconds that saying goodbye may take."""
TICK_INTERVAL = timedelta(milliseconds=250)
"""Between looks at what lapses."""


class Outbound(Protocol):
    """What carries frames to one client."""

    def send(self, frame: EncodedFrame) -> bool:
        """Hand a frame over, without waiting; False, and it may be lost, where more would lie
        unread than a client may leave. Nothing happens once it is closed."""
        ...

    def close(self, code: CloseCode, reason: str) -> None:
        """End the connection, soon: also of a client that reads nothing."""
        ...

    @property
    def is_open(self) -> bool: ...

    async def wait_until_drained(self) -> None:
        """Until the client has read most of what it was sent, or the pipe is closed."""
        ...


@define(eq=False, kw_only=True)
class ChannelConnection(ConnectionState):
    """A line of the channel with what carries its frames."""

    session: Session
    outbound: Outbound
    is_catching_up: bool = field(default=False, init=False)


class InternalChannelError(StaffbookingError):
    code = "internal"

    def __init__(self) -> None:
        super().__init__("Internal server error")


class ChannelHub:
    """Open while `running`; runners bring connections, and the frames that clients send."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._hub: Hub[ChannelConnection] = Hub(ports.policy)
        self.metrics = ChannelMetrics()
        self._silent_connections: list[tuple[ChannelConnection, int]] = []
        """Those that have not spoken yet, with how many ticks more they have for that."""
        self._presence = Presence(ports)
        self._message_batcher = MessageBatcher(ports)
        self._new_messages = anyio.Event()
        self._tasks: TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._hub)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carry messages and word, and look after the connections, until the context ends: then
        all are closed, to be opened anew elsewhere."""
        async with anyio.create_task_group() as tasks, self.ports.pubsub.subscribe(self):
            self._tasks = tasks
            policy, start = self.ports.policy, await channel.last_message_id(self.ports)
            await self._presence.send_heartbeat()
            tasks.start_soon(self._broadcast_new_messages, start)
            tasks.start_soon(
                _run_periodically, policy.presence_heartbeat_interval, self._presence.send_heartbeat
            )
            tasks.start_soon(
                _run_periodically, policy.sessions_judged_every, self._close_ended_sessions
            )
            tasks.start_soon(_run_periodically, TICK_INTERVAL, self._presence.broadcast_departures)
            tasks.start_soon(_run_periodically, TICK_INTERVAL, self._tick)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self.retire()

    @property
    def is_open(self) -> bool:
        return self._tasks is not None

    async def retire(self) -> None:
        """Take no more connections, and end those that are there: for a restart."""
        if not self.is_open:
            return
        self._tasks = None
        for connection in list(self._hub):
            connection.outbound.close(CloseCode.RESTART, "restarting")
        with anyio.move_on_after(LEAVE_TIMEOUT_SECONDS):
            await _run_logging_errors(self._presence.leave)

    # Connections ------------------------------------------------------------------------

    async def reserve(self, user: User) -> None:
        """Count a connection that is about to be opened. Raises LimitExceeded where the user
        has too many, and Unavailable. `release` it once, whatever happens then."""
        if not self.is_open:
            raise StoreUnavailable("the channel is closed")
        await self._presence.add_connection(user.id)

    async def release(self, user_id: int) -> None:
        """The connection that was counted is over, or never came about."""
        await self._presence.remove_connection(user_id)

    async def open(
        self, session: Session, user: User, outbound: Outbound, after: int | None = None
    ) -> ChannelConnection:
        """Begin with a connection that was counted: it is greeted, and told of what comes; of
        what came `after` a message first, where one is named."""
        connection = ChannelConnection(user.id, user.name, session=session, outbound=outbound)
        self._hub.add(connection)
        self.metrics.open_connections += 1
        if not self.is_open:  # Since it was counted.
            outbound.close(CloseCode.RESTART, "restarting")
        try:
            await open_missing_conversations(self.ports, user.id)
            last_id = await channel.last_message_id(self.ports, user.id)
            connection.mark_ready(last_id)
            self._send_frame(connection, EncodedFrame(frames_of.ready_frame(user.id, last_id)))
            await channel.broadcast_presence(self.ports, user.id)
        except BaseException:
            self.close(connection)
            raise
        if after is None:
            ticks = math.ceil(self.ports.policy.resume_grace / TICK_INTERVAL)
            self._silent_connections.append((connection, ticks))
        else:
            connection.resume_after(after)
            self._start_catch_up(connection)
        return connection

    def close(self, connection: ChannelConnection) -> None:
        """Done with a connection, which is closed."""
        self._hub.remove(connection)
        self.metrics.open_connections -= 1

    async def receive(
        self,
        connection: ChannelConnection,
        request: ClientRequest | StaffbookingError,
        ref: Any = None,
    ) -> Frame | None:
        """Carry out what a client asks for, one frame of a connection after the other. Returns
        the ack or the error that the client was sent, if any."""
        policy = self.ports.policy
        step: ReceiveResult[ClientRequest] = connection.receive(
            request, ref, self.ports.clock.wall(), policy.limits.channel, policy.channel_overrun
        )
        if step.close is not None:
            connection.outbound.close(step.close, "too many events")
        answer = step.replies[0] if step.replies else None
        if step.request is not None:
            answer = await self._handle_request(connection, step.request, ref)
        if answer is not None:
            self._send_frame(connection, EncodedFrame(answer))
        return answer

    async def _handle_request(
        self, connection: ChannelConnection, request: ClientRequest, ref: Any
    ) -> Frame | None:
        try:
            connection.session = await sessions.touch_session(self.ports, connection.session)
            return await self._execute_request(connection, request, ref)
        except Conflict:
            return frames_of.error_frame(StoreUnavailable(), ref)
        except Exception as error:
            if isinstance(error, StaffbookingError) and to_reply(error) is not None:
                return frames_of.error_frame(error, ref)
            log.exception("a %s of user %d failed", type(request).__name__, connection.user_id)
            return frames_of.error_frame(InternalChannelError(), ref)

    async def _execute_request(
        self, connection: ChannelConnection, request: ClientRequest, ref: Any
    ) -> Frame | None:
        user_id = connection.user_id
        if isinstance(request, Resume):
            connection.resume_after(request.after)
            self._start_catch_up(connection)
            return None
        if connection.phase is ConnectionPhase.QUIET:
            self._start_catch_up(connection)
        match request:
            case SendToConversation():
                letter = MessageDraft(
                    user_id, request.conversation_id, request.content, request.client_message_id
                )
                return frames_of.ack_frame(await self._message_batcher.send(letter), ref)
            case SetTyping():
                await channel.broadcast_typing(self.ports, user_id, request)
            case MarkReadUpTo():
                await channel.mark_read(self.ports, user_id, request)
            case QueryPresence():
                for frame in await channel.query_presence(self.ports, user_id, request):
                    if frame.event is ServerEvent.ERROR:
                        return evolve(frame, ref=ref)
                    self._send_frame(connection, EncodedFrame(frame))
        return None

    def _send_frame(self, connection: ChannelConnection, frame: EncodedFrame) -> None:
        """Hand a frame over; what becomes of it concerns nobody but who is to get it."""
        try:
            if not connection.outbound.send(frame):
                connection.outbound.close(CloseCode.SLOW, "too much lies unread")
                self.metrics.slow_disconnects += 1
            elif frame.frame.event is ServerEvent.NEW_MESSAGE:
                self.metrics.sent_messages += 1
        except Exception as error:
            _log_failure(f"user {connection.user_id} can't be told", error)
            connection.outbound.close(CloseCode.SLOW, "come again")

    # Messages ---------------------------------------------------------------------------

    def on_messages_stored(self) -> None:
        self._new_messages.set()

    async def _broadcast_new_messages(self, cursor: int) -> None:
        """Give every message from a point on to those who are here, in the order of ids."""
        while True:
            self._new_messages = anyio.Event()
            try:
                while found := await channel.messages_after(self.ports, cursor):
                    for message in found:
                        self._broadcast_message(message)
                        cursor = message.id
                        await anyio.lowlevel.checkpoint()  # What was written goes out.
            except Exception as error:
                _log_failure("messages can't be read", error)
                await anyio.sleep(TAIL_POLL_INTERVAL.total_seconds())
            with anyio.move_on_after(TAIL_POLL_INTERVAL.total_seconds()):
                await self._new_messages.wait()

    def _broadcast_message(self, message: Message) -> None:
        frame = EncodedFrame(frames_of.new_message_frame(message))
        for connection in self._hub.connections_of(message.recipients):
            if connection.should_deliver(message.id):
                self._send_frame(connection, frame)

    def _start_catch_up(self, connection: ChannelConnection) -> None:
        """Tell a connection what it has not been told, and then let it live."""
        if connection.newest_known_id <= connection.cursor:
            connection.mark_caught_up(connection.cursor)
        elif not connection.is_catching_up:
            connection.phase = ConnectionPhase.CATCHING_UP
            connection.is_catching_up = True
            self._start_task(self._catch_up, connection)

    async def _catch_up(self, connection: ChannelConnection) -> None:
        """From the store, as fast as the client reads. Where it asks for other messages in
        between, those come next."""
        try:
            while connection.phase is not ConnectionPhase.LIVE and connection.outbound.is_open:
                await self._send_missed_page(connection)
        except Exception as error:
            _log_failure(f"user {connection.user_id} can't be told what was missed", error)
            connection.outbound.close(CloseCode.SLOW, "come again")
        finally:
            connection.is_catching_up = False

    async def _send_missed_page(self, connection: ChannelConnection) -> None:
        start, upto = connection.cursor, connection.newest_known_id
        found, has_more = await channel.missed_messages(self.ports, connection.user_id, start)
        for message in found:
            await connection.outbound.wait_until_drained()
            if connection.cursor != start:
                return
            start = connection.cursor = message.id
            self._send_frame(connection, EncodedFrame(frames_of.new_message_frame(message)))
        if not has_more and connection.cursor == start:
            connection.mark_caught_up(upto)

    # What passes ------------------------------------------------------------------------

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self._hub.track_typing(broadcast, self.ports.clock.wall())
        self._send_broadcast(broadcast)

    def _send_broadcast(self, broadcast: Broadcast) -> None:
        frame = EncodedFrame(Frame(broadcast.event, broadcast.data))
        for connection in self._hub.connections_of(broadcast.to):
            if connection.is_ready:
                self._send_frame(connection, frame)

    async def _tick(self) -> None:
        for tell in self._hub.expire_typing(self.ports.clock.wall()):
            self._send_broadcast(tell)
        # Counted in ticks: where the process stalls, what clients sent meanwhile is read first.
        quiet, self._silent_connections = self._silent_connections, []
        for connection, ticks in quiet:
            if (
                ticks > 0
                and connection.phase is ConnectionPhase.QUIET
                and connection.outbound.is_open
            ):
                self._silent_connections.append((connection, ticks - 1))
            elif connection.phase is ConnectionPhase.QUIET:
                self._start_catch_up(connection)

    # The process ------------------------------------------------------------------------

    async def _close_ended_sessions(self) -> None:
        """Cut off whose session has ended."""
        digests = {connection.session.digest for connection in self._hub}
        if not digests:
            return
        ended = await channel.ended_sessions(self.ports, [*digests])
        for connection in [each for each in self._hub if each.session.digest in ended]:
            connection.outbound.close(CloseCode.FORBIDDEN, "the session has ended")

    def _start_task(
        self,
        work: Callable[[ChannelConnection], Coroutine[Any, Any, None]],
        connection: ChannelConnection,
    ) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(work, connection)


async def _run_periodically(interval: timedelta, work: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again, with a pause after the end of the last time."""
    while True:
        await anyio.sleep(interval.total_seconds())
        await _run_logging_errors(work)


async def _run_logging_errors(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:
        _log_failure("the channel's upkeep failed", error)


def _log_failure(description: str, error: Exception) -> None:
    if isinstance(error, StaffbookingError):
        log.warning("%s: %s", description, error)
    else:
        log.error(description, exc_info=error)
