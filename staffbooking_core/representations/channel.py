"""The real-time channel without I/O (CONTRACT 6).

A `Line` is one connection: it counts what comes in, and knows which messages it was told.
A `Hub` is all lines of a process, and who types there; `Departures` are those who may have
left. They are told what happens and when, and answer what is to be done; runners do it.
Times are wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, Generic, TypeVar

from attrs import define, frozen

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitExceeded,
    RateLimitWindow,
    record_hits,
)
from staffbooking_core.errors import InvalidInput, StaffbookingError
from staffbooking_core.policy import Policy
from staffbooking_core.representations.errors import field_error_records
from staffbooking_core.representations.frames import (
    AckRecord,
    FrameErrorRecord,
    PresenceRecord,
    ReadMarkRecord,
    ReadyRecord,
    TypingRecord,
)
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.representations.messaging import message_record

R = TypeVar("R")


class ClientEvent(StrEnum):
    """Events that a client sends."""

    SEND_MESSAGE = "send_message"
    TYPING = "typing"
    READ = "read"
    PRESENCE = "presence"
    RESUME = "resume"


class ServerEvent(StrEnum):
    """Events that the service sends."""

    READY = "ready"
    NEW_MESSAGE = "new_message"
    TYPING = "typing"
    PRESENCE = "presence"
    READ = "read"
    ACK = "ack"
    ERROR = "error"


class CloseCode(IntEnum):
    """Why the service ends a connection (RFC 6455, 7.4)."""

    FORBIDDEN = 1008
    """Too many events, or the session has ended."""
    TOO_BIG = 1009
    RESTART = 1012
    SLOW = 1013
    """The client doesn't read what it is sent: it is to come again, and resume."""


# Frames -----------------------------------------------------------------------------------


class MalformedFrame(StaffbookingError):
    """What came is no frame of the channel."""

    code = "bad_frame"


class UnknownClientEvent(StaffbookingError):
    code = "unknown_event"

    def __init__(self) -> None:
        super().__init__(f"There is no such event; there are {', '.join(ClientEvent)}")


@frozen
class Frame:
    """One event as it goes out; `ref` is that of the frame it answers."""

    event: ServerEvent
    data: Mapping[str, Any]
    ref: Any = None


@frozen
class Broadcast:
    """Something that passes, for all connections of some people: typing, presence, a mark."""

    to: tuple[int, ...]
    event: ServerEvent
    data: Mapping[str, Any]


def ready_frame(user_id: int, last_id: int) -> Frame:
    data: ReadyRecord = {"user_id": user_id, "last_message_id": last_id}
    return Frame(ServerEvent.READY, data)


def new_message_frame(message: Message) -> Frame:
    return Frame(ServerEvent.NEW_MESSAGE, message_record(message))


def ack_frame(message: Message, ref: Any = None) -> Frame:
    """The message is stored, for good."""
    data: AckRecord = {"message": message_record(message)}
    return Frame(ServerEvent.ACK, data, ref)


def error_frame(problem: StaffbookingError, ref: Any = None) -> Frame:
    data: FrameErrorRecord = {"error": problem.message, "code": problem.code}
    if isinstance(problem, InvalidInput):
        data["errors"] = field_error_records(problem.field_errors)
    if isinstance(problem, RateLimitExceeded):
        data["retry_after"] = problem.decision.retry_after
    return Frame(ServerEvent.ERROR, data, ref)


def presence_data(user_id: int, online: bool, last_seen: datetime | None) -> PresenceRecord:
    return {"user_id": user_id, "online": online, "last_seen": format_instant(last_seen)}


def typing_data(conversation_id: int, user_id: int, name: str, is_typing: bool) -> TypingRecord:
    return {
        "conversation_id": conversation_id,
        "user_id": user_id,
        "sender_name": name,
        "is_typing": is_typing,
    }


def read_data(conversation_id: int, message_id: int, user_id: int) -> ReadMarkRecord:
    return {"conversation_id": conversation_id, "message_id": message_id, "user_id": user_id}


# One connection -----------------------------------------------------------------------------


class ConnectionPhase(StrEnum):
    QUIET = "quiet"
    """Just opened: whether it wants to resume is not known yet."""
    CATCHING_UP = "catching_up"
    """It is told of messages from the store; new ones wait there."""
    LIVE = "live"
    """It is told of each message as it comes."""


@frozen
class ReceiveResult(Generic[R]):
    """What follows from a frame."""

    request: R | None = None
    """To be carried out; None where the frame was refused."""
    replies: tuple[Frame, ...] = ()
    close: CloseCode | None = None


@define(eq=False)
class ConnectionState:
    """One connection of a user: what it may send, and which messages it was told.

    It is told each message once and in the order of ids: `cursor` is the last one that it was
    told, or that it is to ask for by itself.
    """

    user_id: int
    name: str
    cursor: int = 0
    phase: ConnectionPhase = ConnectionPhase.QUIET
    is_ready: bool = False
    _newest_pending_id: int = 0
    _rate_window: RateLimitWindow | None = None

    def receive(
        self,
        request: R | StaffbookingError,
        ref: Any,
        now: datetime,
        rate_limit: RateLimit,
        overrun_factor: int,
    ) -> ReceiveResult[R]:
        """Take a frame, or what was wrong with it; malformed ones count too. After `overrun`
        times the limit of a window the connection ends."""
        self._rate_window, verdict = record_hits(self._rate_window, now, rate_limit)
        if self._rate_window.count > overrun_factor * rate_limit.limit:
            return ReceiveResult(close=CloseCode.FORBIDDEN)
        if not verdict.allowed:
            return ReceiveResult(replies=(error_frame(RateLimitExceeded(verdict), ref),))
        if isinstance(request, StaffbookingError):
            return ReceiveResult(replies=(error_frame(request, ref),))
        return ReceiveResult(request)

    def mark_ready(self, last_id: int) -> None:
        """It is told that this is the last message: what is newer comes by itself."""
        self.cursor, self.is_ready = last_id, True

    def should_deliver(self, message_id: int) -> bool:
        """Whether it is to be told of a message now; one that waits is told of later."""
        if self.phase is not ConnectionPhase.LIVE:
            self._newest_pending_id = max(self._newest_pending_id, message_id)
            return False
        if message_id <= self.cursor:
            return False
        self.cursor = message_id
        return True

    def resume_after(self, after: int) -> None:
        """It asks for all messages after one; beyond the newest that it could know of there
        is nothing to ask for."""
        self._newest_pending_id = max(self._newest_pending_id, self.cursor)
        self.cursor = min(after, self._newest_pending_id)
        self.phase = ConnectionPhase.CATCHING_UP

    @property
    def newest_known_id(self) -> int:
        """The newest message that waits for it; what it was told, where none does."""
        return max(self._newest_pending_id, self.cursor)

    def mark_caught_up(self, up_to: int) -> bool:
        """It was told of every message up to one. It is live from now on, unless more wait."""
        self.cursor = max(self.cursor, up_to)
        is_live = self._newest_pending_id <= self.cursor
        self.phase = ConnectionPhase.LIVE if is_live else ConnectionPhase.CATCHING_UP
        return is_live


# All connections of a process ---------------------------------------------------------------


@frozen
class _ActiveTyping:
    expires_at: datetime
    broadcast: Broadcast


L = TypeVar("L", bound=ConnectionState)


class Hub(Generic[L]):
    """The lines of a process, and who types to them."""

    def __init__(self, policy: Policy) -> None:
        self._typing_timeout: timedelta = policy.typing_timeout
        self._connections: dict[int, list[L]] = {}
        self._active_typing: dict[tuple[int, int], _ActiveTyping] = {}

    def __len__(self) -> int:
        return sum(map(len, self._connections.values()))

    def __iter__(self) -> Iterator[L]:
        return (line for lines in self._connections.values() for line in lines)

    def add(self, connection: L) -> None:
        self._connections.setdefault(connection.user_id, []).append(connection)

    def remove(self, connection: L) -> None:
        lines = self._connections[connection.user_id]
        lines.remove(connection)
        if not lines:
            del self._connections[connection.user_id]

    def connections_of(self, user_ids: Iterable[int]) -> Iterator[L]:
        for user_id in user_ids:
            yield from self._connections.get(user_id, ())

    def track_typing(self, broadcast: Broadcast, now: datetime) -> None:
        """Note what was told to people, for what lapses by itself."""
        if broadcast.event is not ServerEvent.TYPING:
            return
        typist = (broadcast.data["conversation_id"], broadcast.data["user_id"])
        if broadcast.data["is_typing"]:
            self._active_typing[typist] = _ActiveTyping(now + self._typing_timeout, broadcast)
        else:
            self._active_typing.pop(typist, None)

    def expire_typing(self, now: datetime) -> Sequence[Broadcast]:
        """Whose typing has lapsed; each is told once."""
        ended = [key for key, typist in self._active_typing.items() if typist.expires_at <= now]
        tells = [self._active_typing.pop(key).broadcast for key in ended]
        return [Broadcast(t.to, t.event, {**t.data, "is_typing": False}) for t in tells]


class PresenceQueue:
    """Whose presence is to be told again, since they may have left, or come; and when."""

    def __init__(self, policy: Policy) -> None:
        self._grace_period: timedelta = policy.presence_grace_period
        self._due_at: dict[int, datetime] = {}

    def mark_left(self, user_id: int, now: datetime) -> None:
        """Their last connection here has ended: they have the grace to come back in."""
        self._due_at[user_id] = now + self._grace_period

    def mark_returned(self, user_id: int) -> None:
        self._due_at.pop(user_id, None)

    def mark_uncertain(self, user_ids: Iterable[int], now: datetime) -> None:
        """What was told of these may be wrong, after a process died or came to life again."""
        for user_id in user_ids:
            self._due_at.setdefault(user_id, now)

    def due_users(self, now: datetime) -> Sequence[int]:
        """Who is to be told of now, until it is done."""
        return [user_id for user_id, at in self._due_at.items() if at <= now]

    def mark_broadcast(self, user_id: int, now: datetime) -> None:
        """It was told whether they are there; whoever has left again since then is due later."""
        if self._due_at.get(user_id, now) <= now:
            self._due_at.pop(user_id, None)
