"""The playbook: scripts of what clients send over the channel, and what everybody is told then.

They know of no transport: a play is put on a `Stage`, whose connections a driver opens. It ends
with a curtain: whoever is still there is told the last words of their conversations, and nothing
before them that the script doesn't have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol, TypeAlias

import anyio
import pytest
from attrs import define, evolve, field, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Asked, Close, Told
from staffbooking_core.representations.records import message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import Letter
from tests.channel.asyncapi_validation import Documented
from tests.support.builders import HOUR, MINUTE, POLICY, SECOND, add_companion, add_user
from tests.support.memory_deployment import Scene, actor_of, memory_ports
from tests.support.message_doubles import Sieve

Frame: TypeAlias = dict[str, Any]
Data: TypeAlias = dict[str, Any]

NOBODY = 10**9
"""The id of nothing."""
PATIENCE = 20
"""Seconds after which a frame that doesn't come never will."""

FIGURES: Mapping[str, Any] = {
    "presence_lease": HOUR,
    "resume_grace": HOUR,
    "sessions_judged_every": SECOND / 20,
    "limits": evolve(POLICY.limits, channel=Rule("channel", 10_000, MINUTE)),
}
"""The clock stands until a play moves it: only what a play is about happens by itself."""


def frame(event: str, data: Data, ref: Any = None) -> Frame:
    return {"event": str(event), "data": data} | ({} if ref is None else {"ref": ref})


def new_message(message: Data) -> Frame:
    return frame(Told.NEW_MESSAGE, message)


def typing(conversation: int, by: Player, is_typing: bool = True) -> Frame:
    data = channel.typing(conversation, by.id, by.user.name, is_typing)
    return frame(Told.TYPING, data)


def presence(who: Player | User, online: bool, last_seen: datetime | None = None) -> Frame:
    return frame(Told.PRESENCE, channel.presence(who.id, online, last_seen))


def read(message: Data, by: Player | User) -> Frame:
    data = channel.read(message["conversation_id"], message["id"], by.id)
    return frame(Told.READ, data)


# Drivers ----------------------------------------------------------------------------------


class HungUp(Exception):
    """The service has ended a connection; not every transport tells by which code."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class Wire(Protocol):
    """One connection of a client, whatever carries it."""

    async def send(self, frame: Frame) -> None: ...

    async def receive(self) -> Frame:
        """The next frame. Raises HungUp after the last one."""
        ...

    async def close(self) -> None: ...


Connect: TypeAlias = Callable[[User, int | None], Awaitable[Wire]]
"""Opens a connection of somebody, who may name the last message that they have."""
Driver: TypeAlias = Callable[[Ports], AbstractAsyncContextManager[Connect]]
"""Opens the way to a service on some ports."""


# Plays ------------------------------------------------------------------------------------


@frozen
class Play:
    act: Callable[[Stage], Awaitable[None]]
    policy: Policy

    @property
    def name(self) -> str:
        return self.act.__name__


def play(**figures: Any) -> Callable[[Callable[[Stage], Awaitable[None]]], Play]:
    """Declare a script as a play; the figures are those of its deployment's policy."""

    def declare(act: Callable[[Stage], Awaitable[None]]) -> Play:
        return Play(act, evolve(POLICY, **{**FIGURES, **figures}))

    return declare


def make_ports(play: Play) -> Ports:
    """A deployment in memory that a play can be put on in."""
    return memory_ports(play.policy, content_filter=Sieve())


async def perform(play: Play, ports: Ports, connect: Connect, critic: Documented) -> None:
    """Put a play on, to its end. Ada books, Mia, Noa and Kim may be booked, Sam knows nobody;
    others may be there too, who know none of them."""
    people = {name: await add_user(ports.store, first_name=name.title()) for name in ("ada", "sam")}
    for name in ("mia", "noa", "kim"):
        companion = await add_companion(ports.store, first_name=name.title())
        async with ports.store.reading() as view:
            user = await view.accounts.user(companion.id)
        assert user is not None
        people[name] = user
    stage = Stage(ports, people, connect, critic)
    try:
        await play.act(stage)
        await stage.curtain()
    finally:
        with anyio.CancelScope(shield=True):
            for player in stage.players:
                await player.wire.close()


# The stage --------------------------------------------------------------------------------


@define
class Stage:
    """Where a play goes on: the service, the people and their connections."""

    ports: Ports
    people: dict[str, User]
    _connect: Connect
    _critic: Documented
    players: list[Player] = field(factory=list)
    _conversations: list[int] = field(factory=list)

    # Behind the scenes ----------------------------------------------------------------------

    def scene(self, staff: str = "mia") -> Scene:
        """What Ada and one of the staff have to do with each other."""
        ada, booked = actor_of(self.people["ada"]), actor_of(self.people[staff])
        return Scene(self.ports, ada, booked, admin=booked)

    async def book(self, staff: str = "mia", **given: Any) -> Booking:
        return await self.scene(staff).accepted(**given)

    async def talk(self, staff: str = "mia", *, paid: bool = False) -> int:
        """A conversation of Ada and one of the staff, who share a booking."""
        await (self.scene(staff).paid() if paid else self.book(staff))
        ada = actor_of(self.people["ada"])
        number = await messages.with_user(self.ports, ada, self.people[staff].id)
        assert number is not None
        self._conversations.append(number)
        return number

    async def gala(self) -> tuple[int, Booking]:
        """The group of Ada, Mia and Noa, and Mia's booking."""
        booking = await self.book("mia", event_ref="Gala")
        await self.book("noa", event_ref="Gala")
        [number] = await self.groups()
        return number, booking

    async def groups(self) -> list[int]:
        """Those of Ada."""
        found = await messages.listing(self.ports, actor_of(self.people["ada"]), 1, 100)
        numbers = [each.conversation.id for each in found if each.conversation.event_ref]
        self._conversations += numbers
        return numbers

    async def said(self, by: str, conversation: int, *contents: str) -> list[Data]:
        """What somebody says without the channel."""
        letters = [Letter(self.people[by].id, conversation, content) for content in contents]
        return [message_record(await messages.send(self.ports, letter)) for letter in letters]

    @property
    def now(self) -> datetime:
        return self.ports.clock.wall()

    def pass_time(self, by: timedelta) -> None:
        self.ports.clock.advance(by)  # type: ignore[attr-defined]

    # Entrances and exits --------------------------------------------------------------------

    async def connect(self, name: str, after: int | None = None) -> Player:
        """A connection of somebody, which was told `ready` and has not spoken; what came
        `after` a message is told next."""
        user = self.people[name]
        player = Player(user, await self._connect(user, after), self._critic)
        self.players.append(player)
        ready = await player.next()
        player.last_id = ready["data"].pop("last_message_id")
        assert ready == frame(Told.READY, {"user_id": user.id})
        return player

    async def enter(self, *names: str) -> list[Player]:
        """Connections of people, who have resumed from the last message, and know who is
        there."""
        entered = [await self._enter(name) for name in names]
        for player in self.players:
            await player.pauses()
        return entered

    async def _enter(self, name: str) -> Player:
        player = await self.connect(name)
        await player.resumes(player.last_id)
        await player.pauses()
        return player

    async def exit(self, player: Player) -> None:
        """A client ends its connection."""
        self.players.remove(player)
        await player.wire.close()

    async def is_thrown_out(self, player: Player, code: Close) -> None:
        """The service ends a connection, without another word."""
        with pytest.raises(HungUp) as end:
            await player.next()
        assert end.value.code in (code, None)
        await self.exit(player)

    async def curtain(self) -> None:
        """Whoever is there is told the last words of each of their conversations, and nothing
        else. What is said comes in order, so nothing was on its way before."""
        for player in self.players:
            assert await player.pauses() == []
        last: dict[int, list[Frame]] = {player.user.id: [] for player in self.players}
        for number in self._conversations:
            async with self.ports.store.reading() as view:
                found = await view.messages.conversation(number)
            assert found is not None
            words = await messages.send(self.ports, Letter(found.customer_id, number, "Curtain"))
            for user_id in last.keys() & {*found.recipients}:
                last[user_id].append(new_message(message_record(words)))
        for player in self.players:
            await player.hears(*last[player.user.id])
            assert await player.pauses() == []


@define(eq=False)
class Player:
    """One connection of somebody."""

    user: User
    wire: Wire
    _critic: Documented
    last_id: int = 0
    """The last message at the time of the connection."""
    _pauses: count[int] = field(factory=count)

    @property
    def id(self) -> int:
        return self.user.id

    # Speaking -------------------------------------------------------------------------------

    async def sends(self, event: str, data: Data, ref: Any = None) -> None:
        self._critic.asked(frame(event, data, ref))
        await self.wire.send(frame(event, data, ref))

    async def errs(self, wrong: Frame, code: str, *fields: str) -> None:
        """Send what can't be understood: it is told why, and which fields are at fault."""
        await self.wire.send(wrong)
        await self.is_refused(code, *fields, ref=wrong.get("ref"))

    async def says(self, number: int, content: str, *, ref: Any = None, **data: Any) -> Data:
        """Say something in a conversation, and hear it acknowledged, and told: the message."""
        await self.sends_message(number, content, ref, **data)
        heard = sorted([await self.next(), await self.next()], key=lambda each: each["event"])
        message: Data = heard[1]["data"]
        assert message["content"] == content
        assert heard == [frame(Told.ACK, {"message": message}, ref), new_message(message)]
        return message

    async def sends_message(self, number: int, content: str, ref: Any = None, **data: Any) -> None:
        data = {"conversation_id": number, "content": content, **data}
        await self.sends(Asked.SEND_MESSAGE, data, ref)

    async def types(self, number: int, is_typing: bool = True, ref: Any = None) -> None:
        data = {"conversation_id": number, "is_typing": is_typing}
        await self.sends(Asked.TYPING, data, ref)

    async def reads(self, message: Data, ref: Any = None) -> None:
        data = {"conversation_id": message["conversation_id"], "message_id": message["id"]}
        await self.sends(Asked.READ, data, ref)

    async def asks_for(self, *people: Player | User | int, ref: Any = None) -> None:
        numbers = [each if isinstance(each, int) else each.id for each in people]
        await self.sends(Asked.PRESENCE, {"user_ids": numbers}, ref)

    async def resumes(self, after: int, ref: Any = None) -> None:
        await self.sends(Asked.RESUME, {"after": after}, ref)

    async def misses(self, other: Player, since: datetime) -> None:
        """Ask until the service knows that somebody's last connection has ended."""
        while True:
            await self.asks_for(other)
            told = await self.next()
            if not told["data"]["online"]:
                assert told == presence(other, False, since)
                return

    # Listening ------------------------------------------------------------------------------

    async def next(self) -> Frame:
        with anyio.fail_after(PATIENCE):
            told = await self.wire.receive()
        self._critic.told(told)
        return told

    async def hears(self, *frames: Frame) -> None:
        """These come next, in this order."""
        assert [await self.next() for _ in frames] == [*frames]

    async def hears_message(self, *said: Data) -> None:
        await self.hears(*map(new_message, said))

    async def is_refused(self, code: str, *fields: str, ref: Any = None) -> Data:
        """The next frame is an error: its data."""
        told = await self.next()
        data: Data = told["data"]
        assert told == frame(Told.ERROR, data, ref)
        assert (data["code"], [each["field"] for each in data.get("errors", ())]) == (
            code,
            [*fields],
        )
        return data

    async def pauses(self) -> list[Frame]:
        """All that it was told until what it has sent so far was dealt with."""
        ref, told = f"pause {next(self._pauses)}", []
        await self.wire.send(frame("pause", {}, ref))
        while (heard := await self.next()).get("ref") != ref:
            told.append(heard)
        return told
