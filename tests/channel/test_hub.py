"""The switchboard without a transport: what goes wrong with one harms no other, and what is
stored reaches everybody."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from attrs import define, evolve, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.messaging.conversations import Conversation, Message
from staffbooking_core.errors import Conflict, ConstraintViolated, StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Broadcast, ClientEvent, CloseCode, ServerEvent
from staffbooking_core.representations.messaging import message_record
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
from tests.support.builders import HOUR, POLICY, add_session
from tests.support.memory_deployment import memory_ports
from tests.support.messages import add_direct, add_messages_by
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

REF = "r1"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@define
class TornPipe(DirectOutbound):
    """It carries `ready`, and raises then."""

    def send(self, frame: EncodedFrame) -> bool:
        if frame.frame.event is not ServerEvent.READY:
            raise OSError("torn")
        return super().send(frame)


@frozen
class Exchange:
    """A switchboard, and a conversation of two people."""

    ports: Ports
    store: FlakyStore
    board: ChannelHub
    talk: Conversation
    ada: User
    mia: User

    async def open(
        self, user: User, pipe: DirectOutbound, after: int | None = None
    ) -> ChannelConnection:
        session = await add_session(self.ports.store, user.id, seen_at=self.ports.clock.wall())
        await self.board.reserve(user)
        return await self.board.open(session, user, pipe, after)

    async def enter(self, user: User, pipe: DirectOutbound) -> ChannelConnection:
        """A connection that lives, and was told nothing but `ready`."""
        connection = await self.open(user, pipe, 0)
        await anyio.wait_all_tasks_blocked()
        while not pipe.received.empty():
            pipe.received.get_nowait()
        return connection

    async def ask(self, connection: ChannelConnection, event: ClientEvent, **data: Any) -> None:
        asked = make_frame(event, {"conversation_id": self.talk.id, **data}, REF)
        await self.board.receive(connection, *parse_frame(json.dumps(asked)))

    async def say(self, *contents: str) -> list[Message]:
        """What Ada says in another process, of which no word comes."""
        return await add_messages_by(self.ports.store, self.talk, *contents, by=self.ada.id)


@pytest.fixture
async def exchange() -> AsyncIterator[Exchange]:
    policy = evolve(POLICY, resume_grace=HOUR)
    store = FlakyStore(policy)
    ports = memory_ports(policy, store=store)
    talk = await add_direct(ports.store)
    async with ports.store.read_view() as view:
        people = [await view.accounts.user(each.user_id) for each in talk.members]
    [ada, mia] = [each for each in people if each is not None]
    board = ChannelHub(ports)
    async with board.running():
        await anyio.wait_all_tasks_blocked()
        yield Exchange(ports, store, board, talk, ada, mia)


async def hear(pipe: DirectOutbound) -> Frame | ConnectionEnded:
    with anyio.fail_after(FRAME_TIMEOUT_SECONDS):
        return await pipe.received.get()


def told_of(message: Message) -> Frame:
    return new_message_frame(message_record(message))


# What goes wrong ------------------------------------------------------------------------------


async def test_the_others_are_told_where_one_cannot_be(exchange: Exchange) -> None:
    """Those whose turn comes after that of a pipe which raises get the message all the same."""
    torn, whole = TornPipe(), DirectOutbound()
    await exchange.enter(exchange.mia, torn)
    await exchange.enter(exchange.mia, whole)
    [message] = await exchange.say("Hello")

    assert await hear(whole) == told_of(message)


async def test_a_pipe_that_raises_is_closed(exchange: Exchange) -> None:
    """Its client is to come again, and resume."""
    torn = TornPipe()
    await exchange.enter(exchange.mia, torn)
    await exchange.say("Hello")
    end = await hear(torn)

    assert isinstance(end, ConnectionEnded)
    assert end.code == CloseCode.SLOW


async def test_a_pipe_that_raises_is_closed_by_what_passes_too(exchange: Exchange) -> None:
    """Who is told of is let in all the same."""
    torn, whole = TornPipe(), DirectOutbound()
    await exchange.enter(exchange.mia, torn)
    await exchange.enter(exchange.ada, whole)

    assert isinstance(await hear(torn), ConnectionEnded)
    assert whole.is_open


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
async def test_who_asked_is_told_that_it_failed(
    exchange: Exchange, fault: Exception, code: str
) -> None:
    """What may work another time is told apart from what is a fault of ours."""
    pipe = DirectOutbound()
    connection = await exchange.enter(exchange.mia, pipe)
    exchange.store.fault = fault
    await exchange.ask(connection, ClientEvent.TYPING, is_typing=True)
    exchange.store.fault = None
    told = await hear(pipe)

    assert isinstance(told, dict)
    assert (told["event"], told["data"]["code"], told["ref"]) == (ServerEvent.ERROR, code, REF)


@pytest.mark.parametrize(
    "fault", [ConstraintViolated("messages_pk"), ArithmeticError("odd")], ids=lambda f: f.args[0]
)
async def test_a_fault_of_ours_is_logged(
    exchange: Exchange, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """With what it was, which the client is not told."""
    connection = await exchange.enter(exchange.mia, DirectOutbound())
    exchange.store.fault = fault
    await exchange.ask(connection, ClientEvent.TYPING, is_typing=True)
    exchange.store.fault = None
    logged = [each.exc_info for each in caplog.records if each.levelno == logging.ERROR]

    assert [each and each[1] for each in logged] == [fault]


# Being told -----------------------------------------------------------------------------------


async def test_nothing_comes_before_ready(exchange: Exchange) -> None:
    """What passes while a connection is greeted is not for it: it asks who is there."""
    pipe, pause = DirectOutbound(), PauseHook()
    exchange.store.before_reading = pause
    data = channel.presence_data(exchange.ada.id, online=True, last_seen=None)
    opening = asyncio.create_task(exchange.open(exchange.mia, pipe))
    await pause.reached.wait()
    exchange.ports.pubsub.publish(Broadcast((exchange.mia.id,), ServerEvent.PRESENCE, data))
    pause.released.set()
    await opening
    told = [pipe.received.get_nowait() for _ in range(pipe.received.qsize())]

    ready = make_frame(ServerEvent.READY, {"user_id": exchange.mia.id, "last_message_id": 0})
    assert told == [ready]


async def test_what_nobody_told_of_is_found_by_looking(exchange: Exchange) -> None:
    """A message of another process, whose word was lost."""
    pipe = DirectOutbound()
    await exchange.enter(exchange.mia, pipe)
    [message] = await exchange.say("Hello")

    assert await hear(pipe) == told_of(message)


async def test_messages_are_found_again_after_an_outage(exchange: Exchange) -> None:
    """Looks that fail are repeated, from where the last one was."""
    pipe = DirectOutbound()
    await exchange.enter(exchange.mia, pipe)
    [message] = await exchange.say("Hello")
    exchange.store.fault = StoreUnavailable()
    await anyio.sleep(FRAME_TIMEOUT_SECONDS)
    exchange.store.fault = None

    assert await hear(pipe) == told_of(message)


async def test_who_has_not_spoken_is_told_after_the_grace(exchange: Exchange) -> None:
    """What was said meanwhile waits for it, once, and comes then by itself."""
    pipe = DirectOutbound()
    await exchange.open(exchange.mia, pipe)
    await hear(pipe)
    messages = await exchange.say("Hello", "Are you there?")
    await anyio.sleep(HOUR.total_seconds() / 2)
    assert pipe.received.empty()
    await anyio.sleep(HOUR.total_seconds() / 2 + FRAME_TIMEOUT_SECONDS)
    told = [pipe.received.get_nowait() for _ in range(pipe.received.qsize())]

    assert told == [told_of(message) for message in messages]


async def test_who_names_the_last_message_is_told_of_the_later_ones_at_once(
    exchange: Exchange,
) -> None:
    """Though it has not spoken, nothing waits for the end of its grace."""
    [first, *later] = await exchange.say("One", "Two", "Three")
    pipe = DirectOutbound()
    await exchange.open(exchange.mia, pipe, first.id)
    await hear(pipe)

    assert [await hear(pipe) for _ in later] == [told_of(message) for message in later]


async def test_who_has_named_the_last_message_lives(exchange: Exchange) -> None:
    """What is said from then on comes as it is said."""
    [first] = await exchange.say("One")
    pipe = DirectOutbound()
    await exchange.open(exchange.mia, pipe, first.id)
    await hear(pipe)
    [second] = await exchange.say("Two")

    assert await hear(pipe) == told_of(second)
