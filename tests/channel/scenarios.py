"""Channel scenarios: scripts of the frames that clients send and the frames that each receives.

Scenarios are independent of the transport: each runs on a `ScenarioStage`, whose connections a
driver opens. At the end, every open connection is checked for frames that the script did not
expect.
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

from staffbooking_adapters.testing.builders import (
    HOUR,
    MINUTE,
    POLICY,
    SECOND,
    add_companion,
    add_user,
)
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import ClientEvent, CloseCode, ServerEvent
from staffbooking_core.representations.messaging import message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from tests.channel.asyncapi_validation import FrameValidator
from tests.support.memory_deployment import BookingScenario, actor_of, memory_ports
from tests.support.message_doubles import SimpleContentFilter

Frame: TypeAlias = dict[str, Any]
Data: TypeAlias = Mapping[str, Any]

UNKNOWN_ID = 10**9
"""An id that does not exist."""
FRAME_TIMEOUT_SECONDS = 20
"""Seconds after which a missing frame counts as not sent."""

SCENARIO_POLICY: Mapping[str, Any] = {
    "presence_lease": HOUR,
    "resume_grace": HOUR,
    "sessions_judged_every": SECOND / 20,
    "limits": evolve(POLICY.limits, channel=RateLimit("channel", 10_000, MINUTE)),
}
"""The policy of scenarios. The clock stands still until a scenario advances it."""


def make_frame(event: str, data: Data, ref: Any = None) -> Frame:
    return {"event": str(event), "data": data} | ({} if ref is None else {"ref": ref})


def new_message_frame(message: Data) -> Frame:
    return make_frame(ServerEvent.NEW_MESSAGE, message)


def typing_frame(conversation: int, by: ScenarioClient, is_typing: bool = True) -> Frame:
    data = channel.typing_data(conversation, by.id, by.user.name, is_typing)
    return make_frame(ServerEvent.TYPING, data)


def presence_frame(
    who: ScenarioClient | User, online: bool, last_seen: datetime | None = None
) -> Frame:
    return make_frame(ServerEvent.PRESENCE, channel.presence_data(who.id, online, last_seen))


def read_frame(message: Data, by: ScenarioClient | User) -> Frame:
    data = channel.read_data(message["conversation_id"], message["id"], by.id)
    return make_frame(ServerEvent.READ, data)


# Drivers ----------------------------------------------------------------------------------


class ConnectionEnded(Exception):
    """The service closed a connection; not every transport reports the code."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class ScenarioConnection(Protocol):
    """One connection of a client over any transport."""

    async def send(self, frame: Frame) -> None: ...

    async def receive(self) -> Frame:
        """The next frame. Raises `ConnectionEnded` after the last one."""
        ...

    async def close(self) -> None: ...


OpenConnection: TypeAlias = Callable[[User, int | None], Awaitable[ScenarioConnection]]
"""Opens a connection of a user, optionally resuming after a message id."""
TransportDriver: TypeAlias = Callable[[Ports], AbstractAsyncContextManager[OpenConnection]]
"""Starts a service on the given ports and yields its connection opener."""


# Scenarios --------------------------------------------------------------------------------


@frozen
class Scenario:
    act: Callable[[ScenarioStage], Awaitable[None]]
    policy: Policy

    @property
    def name(self) -> str:
        return self.act.__name__


def scenario(
    **policy_changes: Any,
) -> Callable[[Callable[[ScenarioStage], Awaitable[None]]], Scenario]:
    """Register a script as a scenario; the arguments override its deployment's policy."""

    def declare(act: Callable[[ScenarioStage], Awaitable[None]]) -> Scenario:
        return Scenario(act, evolve(POLICY, **{**SCENARIO_POLICY, **policy_changes}))

    return declare


def make_scenario_ports(script: Scenario) -> Ports:
    """An in-memory deployment for a scenario."""
    return memory_ports(script.policy, content_filter=SimpleContentFilter())


async def run_scenario(
    script: Scenario, ports: Ports, connect: OpenConnection, validator: FrameValidator
) -> None:
    """Run a scenario to its end. Ada is a customer; Mia, Noa and Kim are staff; Sam shares no
    conversation with them. The store may hold other, unrelated users."""
    people = {name: await add_user(ports.store, first_name=name.title()) for name in ("ada", "sam")}
    for name in ("mia", "noa", "kim"):
        companion = await add_companion(ports.store, first_name=name.title())
        async with ports.store.read_view() as view:
            user = await view.accounts.user(companion.id)
        assert user is not None
        people[name] = user
    stage = ScenarioStage(ports, people, connect, validator)
    try:
        await script.act(stage)
        await stage.assert_no_pending_frames()
    finally:
        with anyio.CancelScope(shield=True):
            for player in stage.clients:
                await player.connection.close()


# The stage --------------------------------------------------------------------------------


@define
class ScenarioStage:
    """State of a running scenario: the service, the users and their connections."""

    ports: Ports
    users: dict[str, User]
    _open_connection: OpenConnection
    _validator: FrameValidator
    clients: list[ScenarioClient] = field(factory=list)
    _conversation_ids: list[int] = field(factory=list)

    # Outside the channel --------------------------------------------------------------------

    def booking_scenario(self, staff: str = "mia") -> BookingScenario:
        """The booking scenario of Ada and one staff member."""
        ada, booked = actor_of(self.users["ada"]), actor_of(self.users[staff])
        return BookingScenario(self.ports, ada, booked, admin=booked)

    async def add_accepted_booking(self, staff: str = "mia", **given: Any) -> Booking:
        return await self.booking_scenario(staff).accepted(**given)

    async def open_conversation(self, staff: str = "mia", *, paid: bool = False) -> int:
        """Open a conversation of Ada and one staff member, who share a booking."""
        await (self.booking_scenario(staff).paid() if paid else self.add_accepted_booking(staff))
        ada = actor_of(self.users["ada"])
        number = await messages.direct_conversation_with(self.ports, ada, self.users[staff].id)
        assert number is not None
        self._conversation_ids.append(number)
        return number

    async def open_event_group(self) -> tuple[int, Booking]:
        """Open the group of Ada, Mia and Noa; returns its id and Mia's booking."""
        booking = await self.add_accepted_booking("mia", event_ref="Gala")
        await self.add_accepted_booking("noa", event_ref="Gala")
        [number] = await self.list_groups()
        return number, booking

    async def list_groups(self) -> list[int]:
        """Ids of Ada's groups."""
        found = await messages.list_conversations(self.ports, actor_of(self.users["ada"]), 1, 100)
        numbers = [each.conversation.id for each in found if each.conversation.event_ref]
        self._conversation_ids += numbers
        return numbers

    async def send_outside_channel(self, by: str, conversation: int, *contents: str) -> list[Data]:
        """Send messages of a user outside the channel."""
        letters = [MessageDraft(self.users[by].id, conversation, content) for content in contents]
        return [
            message_record(await messages.send_message(self.ports, letter)) for letter in letters
        ]

    @property
    def now(self) -> datetime:
        return self.ports.clock.wall()

    def pass_time(self, by: timedelta) -> None:
        self.ports.clock.advance(by)  # type: ignore[attr-defined]

    # Connections ----------------------------------------------------------------------------

    async def connect(self, name: str, after: int | None = None) -> ScenarioClient:
        """Connect a user and receive `ready`; no frame is sent. Messages `after` the given id
        follow."""
        user = self.users[name]
        player = ScenarioClient(user, await self._open_connection(user, after), self._validator)
        self.clients.append(player)
        ready = await player.receive()
        player.last_id = ready["data"].pop("last_message_id")
        assert ready == make_frame(ServerEvent.READY, {"user_id": user.id})
        return player

    async def connect_ready(self, *names: str) -> list[ScenarioClient]:
        """Connect users who resume after the last message and have received the current
        presence."""
        entered = [await self._connect_ready(name) for name in names]
        for player in self.clients:
            await player.receive_until_pause()
        return entered

    async def _connect_ready(self, name: str) -> ScenarioClient:
        player = await self.connect(name)
        await player.resume(player.last_id)
        await player.receive_until_pause()
        return player

    async def disconnect(self, player: ScenarioClient) -> None:
        """Close a connection from the client's side."""
        self.clients.remove(player)
        await player.connection.close()

    async def expect_disconnect(self, player: ScenarioClient, code: CloseCode) -> None:
        """Expect the service to close a connection without a further frame."""
        with pytest.raises(ConnectionEnded) as end:
            await player.receive()
        assert end.value.code in (code, None)
        await self.disconnect(player)

    async def assert_no_pending_frames(self) -> None:
        """Send a final message to each conversation and expect every open connection to receive
        only these. Frames arrive in order, so no other frame was pending."""
        for player in self.clients:
            assert await player.receive_until_pause() == []
        last: dict[int, list[Frame]] = {player.user.id: [] for player in self.clients}
        for number in self._conversation_ids:
            async with self.ports.store.read_view() as view:
                found = await view.messages.conversation(number)
            assert found is not None
            words = await messages.send_message(
                self.ports, MessageDraft(found.customer_id, number, "Curtain")
            )
            for user_id in last.keys() & {*found.recipient_ids}:
                last[user_id].append(new_message_frame(message_record(words)))
        for player in self.clients:
            await player.expect_frames(*last[player.user.id])
            assert await player.receive_until_pause() == []


@define(eq=False)
class ScenarioClient:
    """One connection of a user."""

    user: User
    connection: ScenarioConnection
    _validator: FrameValidator
    last_id: int = 0
    """Id of the last message when the connection was opened."""
    _pause_numbers: count[int] = field(factory=count)

    @property
    def id(self) -> int:
        return self.user.id

    # Sending --------------------------------------------------------------------------------

    async def send(self, event: str, data: Data, ref: Any = None) -> None:
        self._validator.validate_client_frame(make_frame(event, data, ref))
        await self.connection.send(make_frame(event, data, ref))

    async def send_invalid(self, wrong: Frame, code: str, *fields: str) -> None:
        """Send an invalid frame and expect its error code and invalid fields."""
        await self.connection.send(wrong)
        await self.expect_error(code, *fields, ref=wrong.get("ref"))

    async def send_message_and_receive(
        self, number: int, content: str, *, ref: Any = None, **data: Any
    ) -> Data:
        """Send a message, expect its `ack` and `new_message`, and return the message."""
        await self.send_message(number, content, ref, **data)
        frames = sorted(
            [await self.receive(), await self.receive()], key=lambda each: each["event"]
        )
        message: Data = frames[1]["data"]
        assert message["content"] == content
        assert frames == [
            make_frame(ServerEvent.ACK, {"message": message}, ref),
            new_message_frame(message),
        ]
        return message

    async def send_message(self, number: int, content: str, ref: Any = None, **data: Any) -> None:
        data = {"conversation_id": number, "content": content, **data}
        await self.send(ClientEvent.SEND_MESSAGE, data, ref)

    async def send_typing(self, number: int, is_typing: bool = True, ref: Any = None) -> None:
        data = {"conversation_id": number, "is_typing": is_typing}
        await self.send(ClientEvent.TYPING, data, ref)

    async def send_read(self, message: Data, ref: Any = None) -> None:
        data = {"conversation_id": message["conversation_id"], "message_id": message["id"]}
        await self.send(ClientEvent.READ, data, ref)

    async def request_presence(self, *people: ScenarioClient | User | int, ref: Any = None) -> None:
        numbers = [each if isinstance(each, int) else each.id for each in people]
        await self.send(ClientEvent.PRESENCE, {"user_ids": numbers}, ref)

    async def resume(self, after: int, ref: Any = None) -> None:
        await self.send(ClientEvent.RESUME, {"after": after}, ref)

    async def wait_until_offline(self, other: ScenarioClient, since: datetime) -> None:
        """Request the presence of a user until it is offline, last seen at `since`."""
        while True:
            await self.request_presence(other)
            frame = await self.receive()
            if not frame["data"]["online"]:
                assert frame == presence_frame(other, False, since)
                return

    # Receiving ------------------------------------------------------------------------------

    async def receive(self) -> Frame:
        with anyio.fail_after(FRAME_TIMEOUT_SECONDS):
            frame = await self.connection.receive()
        self._validator.validate_server_frame(frame)
        return frame

    async def expect_frames(self, *frames: Frame) -> None:
        """Expect these frames next, in this order."""
        assert [await self.receive() for _ in frames] == [*frames]

    async def expect_new_messages(self, *expected: Data) -> None:
        await self.expect_frames(*map(new_message_frame, expected))

    async def expect_error(self, code: str, *fields: str, ref: Any = None) -> Data:
        """Expect an error next and return its data."""
        frame = await self.receive()
        data: Data = frame["data"]
        assert frame == make_frame(ServerEvent.ERROR, data, ref)
        assert (data["code"], [each["field"] for each in data.get("errors", ())]) == (
            code,
            [*fields],
        )
        return data

    async def receive_until_pause(self) -> list[Frame]:
        """The frames received until everything sent so far was handled."""
        ref, frames = f"pause {next(self._pause_numbers)}", []
        await self.connection.send(make_frame("pause", {}, ref))
        while (frame := await self.receive()).get("ref") != ref:
            frames.append(frame)
        return frames
