"""The hub without a transport: failures of one connection, and delivery to the others."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from attrs import define, evolve, frozen

from staffbooking_adapters.testing.builders import HOUR, POLICY, add_session
from staffbooking_adapters.testing.builders_messages import add_direct, add_messages_by
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.messaging.conversations import Conversation, Message
from staffbooking_core.errors import (
    ClockWrong,
    Conflict,
    ConstraintViolated,
    StoreUnavailable,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Broadcast, ClientEvent, CloseCode, ServerEvent
from staffbooking_core.representations.messaging import message_record
from staffbooking_core.usecases.messaging import channel as channel_usecases
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.frames import EncodedFrame, parse_frame
from staffbooking_http.channel.hub import ChannelHub
from tests.channel.flaky_store import FlakyStore, PauseHook
from tests.channel.scenario_drivers import DirectOutbound
from tests.channel.scenarios import (
    FRAME_TIMEOUT_SECONDS,
    ConnectionEnded,
    Frame,
    make_frame,
    new_message_frame,
)
from tests.support.memory_deployment import memory_ports
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

REF = "r1"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@define
class FailingOutbound(DirectOutbound):
    """A connection that sends `ready` and raises for every later frame."""

    def send(self, frame: EncodedFrame) -> bool:
        if frame.frame.event is not ServerEvent.READY:
            raise OSError("torn")
        return super().send(frame)


@frozen
class HubScene:
    """A hub, and a conversation of two users."""

    ports: Ports
    store: FlakyStore
    hub: ChannelHub
    conversation: Conversation
    ada: User
    mia: User

    async def open(
        self, user: User, outbound: DirectOutbound, after: int | None = None
    ) -> ChannelConnection:
        session = await add_session(self.ports.store, user.id, seen_at=self.ports.clock.wall())
        await self.hub.reserve(user)
        return await self.hub.open(session, user, outbound, after)

    async def open_live(self, user: User, outbound: DirectOutbound) -> ChannelConnection:
        """Open a connection that gets new messages at once; its received frames are discarded."""
        connection = await self.open(user, outbound, 0)
        await anyio.wait_all_tasks_blocked()
        while not outbound.received.empty():
            outbound.received.get_nowait()
        return connection

    async def send_event(
        self, connection: ChannelConnection, event: ClientEvent, **data: Any
    ) -> None:
        asked = make_frame(event, {"conversation_id": self.conversation.id, **data}, REF)
        await self.hub.receive(connection, *parse_frame(json.dumps(asked)))

    async def store_messages(self, *contents: str) -> list[Message]:
        """Store messages of Ada without a notification, as another process does."""
        return await add_messages_by(self.ports.store, self.conversation, *contents, by=self.ada.id)


@pytest.fixture
async def scene() -> AsyncIterator[HubScene]:
    policy = evolve(POLICY, resume_grace=HOUR)
    store = FlakyStore(policy)
    ports = memory_ports(policy, store=store)
    conversation = await add_direct(ports.store)
    async with ports.store.read_view() as view:
        users = [await view.accounts.user(each.user_id) for each in conversation.members]
    [ada, mia] = [each for each in users if each is not None]
    hub = ChannelHub(ports)
    async with hub.running():
        await anyio.wait_all_tasks_blocked()
        yield HubScene(ports, store, hub, conversation, ada, mia)


async def next_received(outbound: DirectOutbound) -> Frame | ConnectionEnded:
    with anyio.fail_after(FRAME_TIMEOUT_SECONDS):
        return await outbound.received.get()


def frame_of(message: Message) -> Frame:
    return new_message_frame(message_record(message))


# Failures -------------------------------------------------------------------------------------


async def test_a_hub_starts_though_nothing_can_be_changed() -> None:
    """Where the first heartbeat fails, as with a wrong clock, the hub runs, and the users of the
    connections that it opens later are online after the next one."""
    store = FlakyStore()
    ports = memory_ports(store=store)
    conversation = await add_direct(ports.store)
    async with ports.store.read_view() as view:
        user = await view.accounts.user(conversation.members[0].user_id)
    assert user is not None

    async def refuse() -> None:
        raise ClockWrong("this machine's clock is 3600 s behind the database's")

    store.before = refuse
    hub = ChannelHub(ports)
    async with hub.running():
        await hub.reserve(user)
        await anyio.sleep(1.1 * POLICY.presence_heartbeat_interval.total_seconds())
        async with ports.store.read_view() as view:
            [presence] = await view.presence.presence([user.id], ports.clock.wall())

    assert presence.online


async def test_a_failing_connection_does_not_block_others(scene: HubScene) -> None:
    """A message reaches a connection that follows a failing one."""
    failing, working = FailingOutbound(), DirectOutbound()
    await scene.open_live(scene.mia, failing)
    await scene.open_live(scene.mia, working)
    [message] = await scene.store_messages("Hello")

    assert await next_received(working) == frame_of(message)


async def test_a_failing_connection_is_closed(scene: HubScene) -> None:
    """A connection whose `send` raises for a message is closed with SLOW."""
    failing = FailingOutbound()
    await scene.open_live(scene.mia, failing)
    await scene.store_messages("Hello")
    end = await next_received(failing)

    assert isinstance(end, ConnectionEnded)
    assert end.code == CloseCode.SLOW


async def test_a_failing_broadcast_closes_the_connection(scene: HubScene) -> None:
    """A connection whose `send` raises for a broadcast is closed, and the connection that caused it
    stays open."""
    failing, working = FailingOutbound(), DirectOutbound()
    await scene.open_live(scene.mia, failing)
    await scene.open_live(scene.ada, working)

    assert isinstance(await next_received(failing), ConnectionEnded)
    assert working.is_open


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable(), "unavailable"),
        (Conflict(), "unavailable"),
        (ConstraintViolated("messages_pk"), "internal"),
        (ArithmeticError("odd"), "internal"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_a_failed_event_is_answered(scene: HubScene, fault: Exception, code: str) -> None:
    """A failed event is answered with its `ref`: `unavailable` for transient errors, otherwise
    `internal`."""
    outbound = DirectOutbound()
    connection = await scene.open_live(scene.mia, outbound)
    scene.store.fault = fault
    await scene.send_event(connection, ClientEvent.TYPING, is_typing=True)
    scene.store.fault = None
    frame = await next_received(outbound)

    assert isinstance(frame, dict)
    assert (frame["event"], frame["data"]["code"], frame["ref"]) == (
        ServerEvent.ERROR,
        code,
        REF,
    )


async def test_an_event_that_cannot_be_counted_is_answered(
    scene: HubScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the user's limit cannot be looked up in time, an event is answered with `unavailable`,
    and the connection stays open."""

    async def count_hit(*_: object) -> None:
        raise StoreUnavailable

    outbound = DirectOutbound()
    connection = await scene.open_live(scene.mia, outbound)
    monkeypatch.setattr(type(scene.ports.admission), "count_hit", count_hit)
    await scene.send_event(connection, ClientEvent.TYPING, is_typing=True)
    frame = await next_received(outbound)

    assert isinstance(frame, dict)
    assert (frame["data"]["code"], frame["ref"]) == ("unavailable", REF)


@pytest.mark.parametrize(
    "fault", [ConstraintViolated("messages_pk"), ArithmeticError("odd")], ids=lambda f: f.args[0]
)
async def test_an_unexpected_error_is_logged(
    scene: HubScene, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error of an event is logged with its exception."""
    connection = await scene.open_live(scene.mia, DirectOutbound())
    scene.store.fault = fault
    await scene.send_event(connection, ClientEvent.TYPING, is_typing=True)
    scene.store.fault = None
    logged = [each.exc_info for each in caplog.records if each.levelno == logging.ERROR]

    assert [each and each[1] for each in logged] == [fault]


# Delivery -------------------------------------------------------------------------------------


async def test_no_broadcast_precedes_ready(scene: HubScene) -> None:
    """A broadcast during the opening is not sent, and `ready` is the only frame."""
    outbound, pause = DirectOutbound(), PauseHook()
    scene.store.before_reading = pause
    data = channel.presence_data(scene.ada.id, online=True, last_seen=None)
    opening = asyncio.create_task(scene.open(scene.mia, outbound))
    await pause.reached.wait()
    scene.ports.pubsub.publish(Broadcast((scene.mia.id,), ServerEvent.PRESENCE, data))
    pause.released.set()
    await opening
    frames = [outbound.received.get_nowait() for _ in range(outbound.received.qsize())]

    ready = make_frame(ServerEvent.READY, {"user_id": scene.mia.id, "last_message_id": 0})
    assert frames == [ready]


async def test_messages_without_notification_are_polled(scene: HubScene) -> None:
    """A message stored without a notification is found by polling."""
    outbound = DirectOutbound()
    await scene.open_live(scene.mia, outbound)
    [message] = await scene.store_messages("Hello")

    assert await next_received(outbound) == frame_of(message)


async def test_polling_continues_after_an_outage(scene: HubScene) -> None:
    """A message stored before an outage is found by polling after it."""
    outbound = DirectOutbound()
    await scene.open_live(scene.mia, outbound)
    [message] = await scene.store_messages("Hello")
    scene.store.fault = StoreUnavailable()
    await anyio.sleep(FRAME_TIMEOUT_SECONDS)
    scene.store.fault = None

    assert await next_received(outbound) == frame_of(message)


async def test_a_silent_connection_gets_messages_after_the_grace(scene: HubScene) -> None:
    """A connection that sends nothing gets messages, in order, only after `resume_grace`."""
    outbound = DirectOutbound()
    await scene.open(scene.mia, outbound)
    await next_received(outbound)
    messages = await scene.store_messages("Hello", "Are you there?")
    await anyio.sleep(HOUR.total_seconds() / 2)
    assert outbound.received.empty()
    await anyio.sleep(HOUR.total_seconds() / 2 + FRAME_TIMEOUT_SECONDS)
    frames = [outbound.received.get_nowait() for _ in range(outbound.received.qsize())]

    assert frames == [frame_of(message) for message in messages]


async def test_opening_after_a_message_sends_later_ones(
    scene: HubScene,
) -> None:
    """A connection opened after a message id gets the later messages without waiting for the
    grace."""
    [first, *later] = await scene.store_messages("One", "Two", "Three")
    outbound = DirectOutbound()
    await scene.open(scene.mia, outbound, first.id)
    await next_received(outbound)

    assert [await next_received(outbound) for _ in later] == [
        frame_of(message) for message in later
    ]


async def test_opening_after_the_last_message_is_live(scene: HubScene) -> None:
    """A connection opened after the last message id gets new messages without waiting for the
    grace."""
    [first] = await scene.store_messages("One")
    outbound = DirectOutbound()
    await scene.open(scene.mia, outbound, first.id)
    await next_received(outbound)
    [second] = await scene.store_messages("Two")

    assert await next_received(outbound) == frame_of(second)


def received_contents(outbound: DirectOutbound) -> list[str]:
    """The contents of the messages that were received, in their order."""
    frames = [outbound.received.get_nowait() for _ in range(outbound.received.qsize())]
    return [
        frame["data"]["content"]
        for frame in frames
        if isinstance(frame, dict) and frame["event"] == ServerEvent.NEW_MESSAGE
    ]


async def test_a_message_that_is_stored_while_a_connection_opens_arrives(
    scene: HubScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection gets a message that is stored after it was told of the last one, and before
    it is open."""

    async def store_meanwhile(ports: Ports, user_id: int) -> None:
        await scene.store_messages("meanwhile")
        await anyio.sleep(2)

    monkeypatch.setattr(channel_usecases, "broadcast_presence", store_meanwhile)
    outbound = DirectOutbound()
    await scene.open(scene.mia, outbound, 0)
    await anyio.sleep(2)

    assert received_contents(outbound) == ["meanwhile"]


async def test_a_message_that_is_stored_while_the_last_page_is_read_arrives(
    scene: HubScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that catches up gets a message that is stored after its last page was read."""
    real, pages = channel_usecases.missed_messages, []

    async def read(*asked: Any) -> Any:
        pages.append(await real(*asked))
        if len(pages) == 1:
            await scene.store_messages("new")
            await anyio.sleep(2)
        return pages[-1]

    await scene.store_messages("old")
    monkeypatch.setattr(channel_usecases, "missed_messages", read)
    outbound = DirectOutbound()
    await scene.open(scene.mia, outbound, 0)
    await anyio.sleep(4)

    assert received_contents(outbound) == ["old", "new"]
