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
from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Rule, Window, hit
from staffbooking_core.errors import InvalidInput, StaffbookingError
from staffbooking_core.policy import Policy
from staffbooking_core.representations.records import instant, message_record

R = TypeVar("R")


class Asked(StrEnum):
    """Events that a client sends."""

    SEND_MESSAGE = "send_message"
    TYPING = "typing"
    READ = "read"
    PRESENCE = "presence"
    RESUME = "resume"


class Told(StrEnum):
    """Events that the service sends."""

    READY = "ready"
    NEW_MESSAGE = "new_message"
    TYPING = "typing"
    PRESENCE = "presence"
    READ = "read"
    ACK = "ack"
    ERROR = "error"


class Close(IntEnum):
    """Why the service ends a connection (RFC 6455, 7.4)."""

    FORBIDDEN = 1008
    """Too many events, or the session has ended."""
    TOO_BIG = 1009
    RESTART = 1012
    SLOW = 1013
    """The client doesn't read what it is sent: it is to come again, and resume."""


# Frames -----------------------------------------------------------------------------------


class BadFrame(StaffbookingError):
    """What came is no frame of the channel."""

    code = "bad_frame"


class UnknownEvent(StaffbookingError):
    code = "unknown_event"

    def __init__(self) -> None:
        super().__init__(f"There is no such event; there are {', '.join(Asked)}")


@frozen
class Frame:
    """One event as it goes out; `ref` is that of the frame it answers."""

    event: Told
    data: Mapping[str, Any]
    ref: Any = None


@frozen
class Tell:
    """Something that passes, for all connections of some people: typing, presence, a mark."""

    to: tuple[int, ...]
    event: Told
    data: dict[str, Any]


def ready(user_id: int, last_id: int) -> Frame:
    return Frame(Told.READY, {"user_id": user_id, "last_message_id": last_id})


def new_message(message: Message) -> Frame:
    return Frame(Told.NEW_MESSAGE, message_record(message))


def ack(message: Message, ref: Any = None) -> Frame:
    """The message is stored, for good."""
    return Frame(Told.ACK, {"message": message_record(message)}, ref)


def error(problem: StaffbookingError, ref: Any = None) -> Frame:
    data: dict[str, Any] = {"error": problem.message, "code": problem.code}
    if isinstance(problem, InvalidInput):
        data["errors"] = [{"field": f.field, "message": f.message} for f in problem.faults]
    if isinstance(problem, LimitExceeded):
        data["retry_after"] = problem.verdict.retry_after
    return Frame(Told.ERROR, data, ref)


def presence(user_id: int, online: bool, last_seen: datetime | None) -> dict[str, Any]:
    return {"user_id": user_id, "online": online, "last_seen": instant(last_seen)}


def typing(conversation_id: int, user_id: int, name: str, is_typing: bool) -> dict[str, Any]:
    return {
        "conversation_id": conversation_id,
        "user_id": user_id,
        "sender_name": name,
        "is_typing": is_typing,
    }


def read(conversation_id: int, message_id: int, user_id: int) -> dict[str, Any]:
    return {"conversation_id": conversation_id, "message_id": message_id, "user_id": user_id}


# One connection -----------------------------------------------------------------------------


class Phase(StrEnum):
    QUIET = "quiet"
    """Just opened: whether it wants to resume is not known yet."""
    CATCHING_UP = "catching_up"
    """It is told of messages from the store; new ones wait there."""
    LIVE = "live"
    """It is told of each message as it comes."""


@frozen
class Step(Generic[R]):
    """What follows from a frame."""

    request: R | None = None
    """To be carried out; None where the frame was refused."""
    replies: tuple[Frame, ...] = ()
    close: Close | None = None


@define(eq=False)
class Line:
    """One connection of a user: what it may send, and which messages it was told.

    It is told each message once and in the order of ids: `cursor` is the last one that it was
    told, or that it is to ask for by itself.
    """

    user_id: int
    name: str
    cursor: int = 0
    phase: Phase = Phase.QUIET
    is_greeted: bool = False
    _behind: int = 0
    _window: Window | None = None

    def receive(
        self, request: R | StaffbookingError, ref: Any, now: datetime, rule: Rule, overrun: int
    ) -> Step[R]:
        """Take a frame, or what was wrong with it; malformed ones count too. After `overrun`
        times the limit of a window the connection ends."""
        self._window, verdict = hit(self._window, now, rule)
        if self._window.count > overrun * rule.limit:
            return Step(close=Close.FORBIDDEN)
        if not verdict.allowed:
            return Step(replies=(error(LimitExceeded(verdict), ref),))
        if isinstance(request, StaffbookingError):
            return Step(replies=(error(request, ref),))
        return Step(request)

    def greet(self, last_id: int) -> None:
        """It is told that this is the last message: what is newer comes by itself."""
        self.cursor, self.is_greeted = last_id, True

    def takes(self, message_id: int) -> bool:
        """Whether it is to be told of a message now; one that waits is told of later."""
        if self.phase is not Phase.LIVE:
            self._behind = max(self._behind, message_id)
            return False
        if message_id <= self.cursor:
            return False
        self.cursor = message_id
        return True

    def rewind(self, after: int) -> None:
        """It asks for all messages after one; beyond the newest that it could know of there
        is nothing to ask for."""
        self._behind = max(self._behind, self.cursor)
        self.cursor = min(after, self._behind)
        self.phase = Phase.CATCHING_UP

    @property
    def waiting(self) -> int:
        """The newest message that waits for it; what it was told, where none does."""
        return max(self._behind, self.cursor)

    def caught_up(self, upto: int) -> bool:
        """It was told of every message up to one. It is live from now on, unless more wait."""
        self.cursor = max(self.cursor, upto)
        is_live = self._behind <= self.cursor
        self.phase = Phase.LIVE if is_live else Phase.CATCHING_UP
        return is_live


# All connections of a process ---------------------------------------------------------------


@frozen
class _Typist:
    lapses_at: datetime
    tell: Tell


L = TypeVar("L", bound=Line)


class Hub(Generic[L]):
    """The lines of a process, and who types to them."""

    def __init__(self, policy: Policy) -> None:
        self._lapse: timedelta = policy.typing_lapse
        self._lines: dict[int, list[L]] = {}
        self._typists: dict[tuple[int, int], _Typist] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[L]:
        return (line for lines in self._lines.values() for line in lines)

    def open(self, line: L) -> None:
        self._lines.setdefault(line.user_id, []).append(line)

    def close(self, line: L) -> None:
        lines = self._lines[line.user_id]
        lines.remove(line)
        if not lines:
            del self._lines[line.user_id]

    def lines_of(self, user_ids: Iterable[int]) -> Iterator[L]:
        for user_id in user_ids:
            yield from self._lines.get(user_id, ())

    def told(self, tell: Tell, now: datetime) -> None:
        """Note what was told to people, for what lapses by itself."""
        if tell.event is not Told.TYPING:
            return
        typist = (tell.data["conversation_id"], tell.data["user_id"])
        if tell.data["is_typing"]:
            self._typists[typist] = _Typist(now + self._lapse, tell)
        else:
            self._typists.pop(typist, None)

    def lapsed(self, now: datetime) -> Sequence[Tell]:
        """Whose typing has lapsed; each is told once."""
        ended = [key for key, typist in self._typists.items() if typist.lapses_at <= now]
        tells = [self._typists.pop(key).tell for key in ended]
        return [Tell(t.to, t.event, {**t.data, "is_typing": False}) for t in tells]


class Departures:
    """Whose presence is to be told again, since they may have left, or come; and when."""

    def __init__(self, policy: Policy) -> None:
        self._grace: timedelta = policy.presence_grace
        self._due: dict[int, datetime] = {}

    def left(self, user_id: int, now: datetime) -> None:
        """Their last connection here has ended: they have the grace to come back in."""
        self._due[user_id] = now + self._grace

    def back(self, user_id: int) -> None:
        self._due.pop(user_id, None)

    def doubted(self, user_ids: Iterable[int], now: datetime) -> None:
        """What was told of these may be wrong, after a process died or came to life again."""
        for user_id in user_ids:
            self._due.setdefault(user_id, now)

    def due(self, now: datetime) -> Sequence[int]:
        """Who is to be told of now, until it is done."""
        return [user_id for user_id, at in self._due.items() if at <= now]

    def done(self, user_id: int, now: datetime) -> None:
        """It was told whether they are there; whoever has left again since then is due later."""
        if self._due.get(user_id, now) <= now:
            self._due.pop(user_id, None)
