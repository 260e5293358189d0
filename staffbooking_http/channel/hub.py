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
from staffbooking_core.errors import Conflict, StaffbookingError, Unavailable
from staffbooking_core.inputs import AskPresence, ReadUpTo, Resume, SendToConversation, Type
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel as frames_of
from staffbooking_core.representations.channel import (
    Close,
    Frame,
    Hub,
    Line,
    Phase,
    Step,
    Tell,
    Told,
)
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.messaging import channel
from staffbooking_core.usecases.messaging.messages import Letter, open_missing
from staffbooking_http.api.errors import to_reply
from staffbooking_http.api.metrics import Traffic
from staffbooking_http.channel.frames import Outgoing, Request
from staffbooking_http.channel.message_batcher import Post
from staffbooking_http.channel.presence import Seats

log = logging.getLogger("staffbooking.channel")

LOOK_EVERY = timedelta(seconds=1)
"""After it, it looks for messages that nobody told it of."""
PATIENCE = 2.0
"""Seconds that saying goodbye may take."""
TICK = timedelta(milliseconds=250)
"""Between looks at what lapses."""


class Pipe(Protocol):
    """What carries frames to one client."""

    def send(self, frame: Outgoing) -> bool:
        """Hand a frame over, without waiting; False, and it may be lost, where more would lie
        unread than a client may leave. Nothing happens once it is closed."""
        ...

    def close(self, code: Close, reason: str) -> None:
        """End the connection, soon: also of a client that reads nothing."""
        ...

    @property
    def is_open(self) -> bool: ...

    async def drained(self) -> None:
        """Until the client has read most of what it was sent, or the pipe is closed."""
        ...


@define(eq=False, kw_only=True)
class Connection(Line):
    """A line of the channel with what carries its frames."""

    session: Session
    pipe: Pipe
    is_catching_up: bool = field(default=False, init=False)


class InternalFault(StaffbookingError):
    code = "internal"

    def __init__(self) -> None:
        super().__init__("Internal server error")


class Switchboard:
    """Open while `running`; runners bring connections, and the frames that clients send."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._hub: Hub[Connection] = Hub(ports.policy)
        self.traffic = Traffic()
        self._quiet: list[tuple[Connection, int]] = []
        """Those that have not spoken yet, with how many ticks more they have for that."""
        self._seats = Seats(ports)
        self._post = Post(ports)
        self._news = anyio.Event()
        self._tasks: TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._hub)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carry messages and word, and look after the connections, until the context ends: then
        all are closed, to be opened anew elsewhere."""
        async with anyio.create_task_group() as tasks, self.ports.chat.listen(self):
            self._tasks = tasks
            policy, start = self.ports.policy, await channel.last_id(self.ports)
            await self._seats.beat()
            tasks.start_soon(self._tail, start)
            tasks.start_soon(_again, policy.presence_beat, self._seats.beat)
            tasks.start_soon(_again, policy.sessions_judged_every, self._judge)
            tasks.start_soon(_again, TICK, self._seats.tell)
            tasks.start_soon(_again, TICK, self._tick)
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
            connection.pipe.close(Close.RESTART, "restarting")
        with anyio.move_on_after(PATIENCE):
            await _harmless(self._seats.leave)

    # Connections ------------------------------------------------------------------------

    async def reserve(self, user: User) -> None:
        """Count a connection that is about to be opened. Raises LimitExceeded where the user
        has too many, and Unavailable. `release` it once, whatever happens then."""
        if not self.is_open:
            raise Unavailable("the channel is closed")
        await self._seats.take(user.id)

    async def release(self, user_id: int) -> None:
        """The connection that was counted is over, or never came about."""
        await self._seats.give_back(user_id)

    async def open(
        self, session: Session, user: User, pipe: Pipe, after: int | None = None
    ) -> Connection:
        """Begin with a connection that was counted: it is greeted, and told of what comes; of
        what came `after` a message first, where one is named."""
        connection = Connection(user.id, user.name, session=session, pipe=pipe)
        self._hub.open(connection)
        self.traffic.connections += 1
        if not self.is_open:  # Since it was counted.
            pipe.close(Close.RESTART, "restarting")
        try:
            await open_missing(self.ports, user.id)
            last_id = await channel.last_id(self.ports, user.id)
            connection.greet(last_id)
            self._push(connection, Outgoing(frames_of.ready(user.id, last_id)))
            await channel.show(self.ports, user.id)
        except BaseException:
            self.close(connection)
            raise
        if after is None:
            ticks = math.ceil(self.ports.policy.resume_grace / TICK)
            self._quiet.append((connection, ticks))
        else:
            connection.rewind(after)
            self._catch_up_soon(connection)
        return connection

    def close(self, connection: Connection) -> None:
        """Done with a connection, which is closed."""
        self._hub.close(connection)
        self.traffic.connections -= 1

    async def receive(
        self, connection: Connection, request: Request | StaffbookingError, ref: Any = None
    ) -> Frame | None:
        """Carry out what a client asks for, one frame of a connection after the other. Returns
        the ack or the error that the client was sent, if any."""
        policy = self.ports.policy
        step: Step[Request] = connection.receive(
            request, ref, self.ports.clock.wall(), policy.limits.channel, policy.channel_overrun
        )
        if step.close is not None:
            connection.pipe.close(step.close, "too many events")
        answer = step.replies[0] if step.replies else None
        if step.request is not None:
            answer = await self._answer(connection, step.request, ref)
        if answer is not None:
            self._push(connection, Outgoing(answer))
        return answer

    async def _answer(self, connection: Connection, request: Request, ref: Any) -> Frame | None:
        try:
            connection.session = await sessions.touch(self.ports, connection.session)
            return await self._carry_out(connection, request, ref)
        except Conflict:
            return frames_of.error(Unavailable(), ref)
        except Exception as error:
            if isinstance(error, StaffbookingError) and to_reply(error) is not None:
                return frames_of.error(error, ref)
            log.exception("a %s of user %d failed", type(request).__name__, connection.user_id)
            return frames_of.error(InternalFault(), ref)

    async def _carry_out(self, connection: Connection, request: Request, ref: Any) -> Frame | None:
        user_id = connection.user_id
        if isinstance(request, Resume):
            connection.rewind(request.after)
            self._catch_up_soon(connection)
            return None
        if connection.phase is Phase.QUIET:
            self._catch_up_soon(connection)
        match request:
            case SendToConversation():
                letter = Letter(
                    user_id, request.conversation_id, request.content, request.client_message_id
                )
                return frames_of.ack(await self._post.send(letter), ref)
            case Type():
                await channel.type_(self.ports, user_id, request)
            case ReadUpTo():
                await channel.read(self.ports, user_id, request)
            case AskPresence():
                for frame in await channel.ask(self.ports, user_id, request):
                    if frame.event is Told.ERROR:
                        return evolve(frame, ref=ref)
                    self._push(connection, Outgoing(frame))
        return None

    def _push(self, connection: Connection, frame: Outgoing) -> None:
        """Hand a frame over; what becomes of it concerns nobody but who is to get it."""
        try:
            if not connection.pipe.send(frame):
                connection.pipe.close(Close.SLOW, "too much lies unread")
                self.traffic.slow += 1
            elif frame.frame.event is Told.NEW_MESSAGE:
                self.traffic.messages += 1
        except Exception as error:
            _complain(f"user {connection.user_id} can't be told", error)
            connection.pipe.close(Close.SLOW, "come again")

    # Messages ---------------------------------------------------------------------------

    def stored(self) -> None:
        self._news.set()

    async def _tail(self, cursor: int) -> None:
        """Give every message from a point on to those who are here, in the order of ids."""
        while True:
            self._news = anyio.Event()
            try:
                while found := await channel.tail(self.ports, cursor):
                    for message in found:
                        self._give(message)
                        cursor = message.id
                        await anyio.lowlevel.checkpoint()  # What was written goes out.
            except Exception as error:
                _complain("messages can't be read", error)
                await anyio.sleep(LOOK_EVERY.total_seconds())
            with anyio.move_on_after(LOOK_EVERY.total_seconds()):
                await self._news.wait()

    def _give(self, message: Message) -> None:
        frame = Outgoing(frames_of.new_message(message))
        for connection in self._hub.lines_of(message.recipients):
            if connection.takes(message.id):
                self._push(connection, frame)

    def _catch_up_soon(self, connection: Connection) -> None:
        """Tell a connection what it has not been told, and then let it live."""
        if connection.waiting <= connection.cursor:
            connection.caught_up(connection.cursor)
        elif not connection.is_catching_up:
            connection.phase = Phase.CATCHING_UP
            connection.is_catching_up = True
            self._soon(self._catch_up, connection)

    async def _catch_up(self, connection: Connection) -> None:
        """From the store, as fast as the client reads. Where it asks for other messages in
        between, those come next."""
        try:
            while connection.phase is not Phase.LIVE and connection.pipe.is_open:
                await self._tell_page(connection)
        except Exception as error:
            _complain(f"user {connection.user_id} can't be told what was missed", error)
            connection.pipe.close(Close.SLOW, "come again")
        finally:
            connection.is_catching_up = False

    async def _tell_page(self, connection: Connection) -> None:
        start, upto = connection.cursor, connection.waiting
        found, has_more = await channel.missed(self.ports, connection.user_id, start)
        for message in found:
            await connection.pipe.drained()
            if connection.cursor != start:
                return
            start = connection.cursor = message.id
            self._push(connection, Outgoing(frames_of.new_message(message)))
        if not has_more and connection.cursor == start:
            connection.caught_up(upto)

    # What passes ------------------------------------------------------------------------

    def told(self, tell: Tell) -> None:
        self._hub.told(tell, self.ports.clock.wall())
        self._pass_on(tell)

    def _pass_on(self, tell: Tell) -> None:
        frame = Outgoing(Frame(tell.event, tell.data))
        for connection in self._hub.lines_of(tell.to):
            if connection.is_greeted:
                self._push(connection, frame)

    async def _tick(self) -> None:
        for tell in self._hub.lapsed(self.ports.clock.wall()):
            self._pass_on(tell)
        # Counted in ticks: where the process stalls, what clients sent meanwhile is read first.
        quiet, self._quiet = self._quiet, []
        for connection, ticks in quiet:
            if ticks > 0 and connection.phase is Phase.QUIET and connection.pipe.is_open:
                self._quiet.append((connection, ticks - 1))
            elif connection.phase is Phase.QUIET:
                self._catch_up_soon(connection)

    # The process ------------------------------------------------------------------------

    async def _judge(self) -> None:
        """Cut off whose session has ended."""
        digests = {connection.session.digest for connection in self._hub}
        if not digests:
            return
        ended = await channel.ended(self.ports, [*digests])
        for connection in [each for each in self._hub if each.session.digest in ended]:
            connection.pipe.close(Close.FORBIDDEN, "the session has ended")

    def _soon(
        self, work: Callable[[Connection], Coroutine[Any, Any, None]], connection: Connection
    ) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(work, connection)


async def _again(pause: timedelta, work: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again, with a pause after the end of the last time."""
    while True:
        await anyio.sleep(pause.total_seconds())
        await _harmless(work)


async def _harmless(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:
        _complain("the channel's upkeep failed", error)


def _complain(what: str, error: Exception) -> None:
    if isinstance(error, StaffbookingError):
        log.warning("%s: %s", what, error)
    else:
        log.error(what, exc_info=error)
