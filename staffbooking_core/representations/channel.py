"""The real-time channel without I/O (CONTRACT 6).

Runners pass in frames, messages and times, and carry out the results. Times are wall time.

The phases of a connection (`ConnectionState`), which deliver each message once and in order of ids:

1. `quiet`: the connection is open, and the client may still ask to resume. New messages are only
   remembered as pending.
2. `catching_up`: the client asked to resume after an id, or messages became pending while it was
   quiet. The runner reads the messages after `cursor` from the store; new ones become pending.
3. `live`: all pending messages were delivered (`mark_caught_up`). Each new message is delivered as
   it comes, and moves `cursor`.

Presence (`PresenceQueue`):

1. When the last connection of a user ends, a broadcast becomes due after the grace period.
2. A user who reconnects within it is removed from the queue, and stayed online for others.
3. A due user is broadcast from the store's present state, and then removed.
4. Users whose state is uncertain after a crash of a process are due at once.
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

__all__ = ["Broadcast", "ServerEvent"]


class ClientEvent(StrEnum):
    """Names of events that a client sends."""

    SEND_MESSAGE = "send_message"
    TYPING = "typing"
    READ = "read"
    PRESENCE = "presence"
    RESUME = "resume"


class ServerEvent(StrEnum):
    """Names of events that the service sends."""

    READY = "ready"
    NEW_MESSAGE = "new_message"
    TYPING = "typing"
    PRESENCE = "presence"
    READ = "read"
    ACK = "ack"
    ERROR = "error"


class CloseCode(IntEnum):
    """Why the service closes a connection (RFC 6455, 7.4)."""

    FORBIDDEN = 1008
    """Too many events, or the session has ended."""
    TOO_BIG = 1009
    RESTART = 1012
    SLOW = 1013
    """The client reads too slowly: it must reconnect and resume."""


# Frames -----------------------------------------------------------------------------------


class MalformedFrame(StaffbookingError):
    """The text is not a frame of the channel."""

    code = "bad_frame"


class UnknownClientEvent(StaffbookingError):
    """The frame has an unknown event."""

    code = "unknown_event"

    def __init__(self) -> None:
        super().__init__(f"There is no such event; there are {', '.join(ClientEvent)}")


@frozen
class Frame:
    """One event to a client; `ref` is the `ref` of the frame that it answers."""

    event: ServerEvent
    data: Mapping[str, Any]
    ref: Any = None


@frozen
class Broadcast:
    """An event that is not stored (typing, presence, a read mark), for all connections of the given
    users."""

    to: tuple[int, ...]
    event: ServerEvent
    data: Mapping[str, Any]


def ready_frame(user_id: int, last_id: int) -> Frame:
    """The first frame of a connection."""
    data: ReadyRecord = {"user_id": user_id, "last_message_id": last_id}
    return Frame(ServerEvent.READY, data)


def new_message_frame(message: Message) -> Frame:
    """The frame of a new message."""
    return Frame(ServerEvent.NEW_MESSAGE, message_record(message))


def ack_frame(message: Message, ref: Any = None) -> Frame:
    """The frame that confirms a stored message."""
    data: AckRecord = {"message": message_record(message)}
    return Frame(ServerEvent.ACK, data, ref)


def error_frame(problem: StaffbookingError, ref: Any = None) -> Frame:
    """The frame of an error, with field errors and `retry_after` where they apply."""
    data: FrameErrorRecord = {"error": problem.message, "code": problem.code}
    if isinstance(problem, InvalidInput):
        data["errors"] = field_error_records(problem.field_errors)
    if isinstance(problem, RateLimitExceeded):
        data["retry_after"] = problem.decision.retry_after
    return Frame(ServerEvent.ERROR, data, ref)


def presence_data(user_id: int, online: bool, last_seen: datetime | None) -> PresenceRecord:
    """The data of a presence event."""
    return {"user_id": user_id, "online": online, "last_seen": format_instant(last_seen)}


def typing_data(conversation_id: int, user_id: int, name: str, is_typing: bool) -> TypingRecord:
    """The data of a typing event."""
    return {
        "conversation_id": conversation_id,
        "user_id": user_id,
        "sender_name": name,
        "is_typing": is_typing,
    }


def read_data(conversation_id: int, message_id: int, user_id: int) -> ReadMarkRecord:
    """The data of a read mark."""
    return {"conversation_id": conversation_id, "message_id": message_id, "user_id": user_id}


# One connection -----------------------------------------------------------------------------


class ConnectionPhase(StrEnum):
    """Phases of a connection's delivery of messages (see the module)."""

    QUIET = "quiet"
    """Just opened: it may still ask to resume."""
    CATCHING_UP = "catching_up"
    """It receives messages from the store; new ones wait there."""
    LIVE = "live"
    """It receives each message as it comes."""


@define(eq=False)
class ConnectionState:
    """The state of one connection of a user: its rate limit, and the messages delivered to it.

    `cursor` is the id of the last message delivered, or the last one before those that the
    connection receives by itself.
    """

    user_id: int
    name: str
    cursor: int = 0
    phase: ConnectionPhase = ConnectionPhase.QUIET
    is_ready: bool = False
    _newest_pending_id: int = 0
    _rate_window: RateLimitWindow | None = None

    def count_frame(
        self, ref: Any, now: datetime, rate_limit: RateLimit, overrun_factor: int
    ) -> Frame | CloseCode | None:
        """Count a frame, valid or not, against the rate limit. Returns the error that refuses it;
        None if it is admitted.

        After `overrun_factor` times the limit within one window, returns the code to close with.
        """
        self._rate_window, verdict = record_hits(self._rate_window, now, rate_limit)
        if self._rate_window.count > overrun_factor * rate_limit.limit:
            return CloseCode.FORBIDDEN
        return None if verdict.allowed else error_frame(RateLimitExceeded(verdict), ref)

    def mark_ready(self, last_id: int) -> None:
        """Set the id of the last message before the connection: newer ones are delivered by
        themselves."""
        self.cursor, self.is_ready = last_id, True

    def should_deliver(self, message_id: int) -> bool:
        """Whether to deliver a new message now. In other phases than `live` it stays pending."""
        if self.phase is not ConnectionPhase.LIVE:
            self._newest_pending_id = max(self._newest_pending_id, message_id)
            return False
        if message_id <= self.cursor:
            return False
        self.cursor = message_id
        return True

    def resume_after(self, after: int) -> None:
        """Start catching up after the message `after`, or after the newest known one if that is
        older."""
        self._newest_pending_id = max(self._newest_pending_id, self.cursor)
        self.cursor = min(after, self._newest_pending_id)
        self.phase = ConnectionPhase.CATCHING_UP

    @property
    def newest_known_id(self) -> int:
        """The id of the newest pending message, or of the last one delivered."""
        return max(self._newest_pending_id, self.cursor)

    def mark_caught_up(self, up_to: int) -> bool:
        """Record that all messages up to `up_to` were delivered. Returns whether the connection is
        live now, that is whether none is pending."""
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
    """The connections of a process, and the active typing broadcasts to their users."""

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
        """Record a typing broadcast, so that it can expire; other events are ignored."""
        if broadcast.event is not ServerEvent.TYPING:
            return
        typist = (broadcast.data["conversation_id"], broadcast.data["user_id"])
        if broadcast.data["is_typing"]:
            self._active_typing[typist] = _ActiveTyping(now + self._typing_timeout, broadcast)
        else:
            self._active_typing.pop(typist, None)

    def expire_typing(self, now: datetime) -> Sequence[Broadcast]:
        """Remove expired typing, and return one broadcast for each that ends it."""
        ended = [key for key, typist in self._active_typing.items() if typist.expires_at <= now]
        broadcasts = [self._active_typing.pop(key).broadcast for key in ended]
        return [Broadcast(t.to, t.event, {**t.data, "is_typing": False}) for t in broadcasts]


class PresenceQueue:
    """Users whose presence must be broadcast again, because they may have left or returned, and
    when."""

    def __init__(self, policy: Policy) -> None:
        self._grace_period: timedelta = policy.presence_grace_period
        self._due_at: dict[int, datetime] = {}

    def mark_left(self, user_id: int, now: datetime) -> None:
        """Record that the user's last connection to this process ended: due after the grace
        period."""
        self._due_at[user_id] = now + self._grace_period

    def mark_returned(self, user_id: int) -> None:
        """Cancel the broadcast of a user who reconnected."""
        self._due_at.pop(user_id, None)

    def mark_uncertain(self, user_ids: Iterable[int], now: datetime) -> None:
        """Make these users due now: their presence may be wrong after a process died or
        recovered."""
        for user_id in user_ids:
            self._due_at.setdefault(user_id, now)

    def due_users(self, now: datetime) -> Sequence[int]:
        """The users who are due, until `mark_broadcast` is called for them."""
        return [user_id for user_id, at in self._due_at.items() if at <= now]

    def mark_broadcast(self, user_id: int, now: datetime) -> None:
        """Record that the user's presence was broadcast; a user who left again since then stays
        queued."""
        if self._due_at.get(user_id, now) <= now:
            self._due_at.pop(user_id, None)
