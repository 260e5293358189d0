"""A client of Socket.IO goes over from polling to a WebSocket, or tries to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection

from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio_client
from tests.channel.socketio_clients import (
    POLLING_THEN_WEBSOCKET,
    SOCKETIO_PATH,
    WEBSOCKET_ONLY,
    PollingClient,
    RawSocketIoClient,
    connect_client,
    connect_polling_client,
)
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

NOTHING = '42["nothing",{}]'


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made


def upgrading(
    site: ChannelServer, client: PollingClient
) -> AbstractAsyncContextManager[ClientConnection]:
    """A WebSocket for a client that polls."""
    path = f"{SOCKETIO_PATH}?EIO=4&transport=websocket&sid={client.sid}"
    return site.open_websocket(client.http.headers["cookie"], path=path)


async def goes_over(socket: ClientConnection) -> RawSocketIoClient:
    """The client, now over the WebSocket."""
    await socket.send("2probe")
    assert await socket.recv() == "3probe"
    await socket.send("5")
    return RawSocketIoClient(socket)


async def is_heard(client: PollingClient | RawSocketIoClient) -> None:
    """The connection is as good as before."""
    await (client.post(NOTHING) if isinstance(client, PollingClient) else client.send(NOTHING))
    assert (await client.next("error"))["code"] == "unknown_event"


async def test_an_upgrade_loses_nothing(world: HttpDeployment, site: ChannelServer) -> None:
    """What is said while a client goes over to a WebSocket is told once, in its order."""
    conversation = await add_shared_conversation(world)
    async with (
        connect_client(site, world.customer, WEBSOCKET_ONLY) as ada,
        connect_client(site, world.companion, POLLING_THEN_WEBSOCKET) as mia,
    ):
        assert mia.client.transport() == "websocket"
        said = [await ada.send_message(conversation, f"Word {number}") for number in range(20)]
        assert [await mia.next_data("new_message") for _ in said] == said


async def test_a_silent_upgrade_is_given_up(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A WebSocket that is opened, and not gone over to, is closed; polling goes on. One that is
    gone over to stays."""
    monkeypatch.setattr(socketio_client, "UPGRADE_TIMEOUT_SECONDS", 0.05)
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        for said in (None, "2probe"):
            async with upgrading(site, ada) as socket:
                if said:
                    await socket.send(said)
                    assert await socket.recv() == "3probe"
                await socket.wait_closed()
            await is_heard(ada)
        async with upgrading(site, ada) as socket:
            ada_now = await goes_over(socket)
            await is_heard(ada_now)
            with anyio.move_on_after(0.1):
                await socket.wait_closed()
            await is_heard(ada_now)


async def test_a_failed_upgrade_does_no_harm(world: HttpDeployment, site: ChannelServer) -> None:
    """Whatever is said over the WebSocket before it breaks: polls wait for news as before, and
    another one may be tried."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        for said in ((), ("2probe",), ("hello",), ("2probe", "hello"), ("5",)):
            async with upgrading(site, ada) as socket:
                for packet in said:
                    await socket.send(packet)
            await is_heard(ada)
        async with upgrading(site, ada) as socket:
            await is_heard(await goes_over(socket))


async def test_events_take_turns(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes over the WebSocket waits for what was posted before."""
    begun, go_on = anyio.Event(), anyio.Event()
    typed: list[bool] = []

    async def slow(_: Any, __: Any, given: Any) -> None:
        begun.set()
        if given.is_typing:
            await go_on.wait()
        typed.append(given.is_typing)

    monkeypatch.setattr(channel, "broadcast_typing", slow)
    mine = f'"conversation_id":{(await add_shared_conversation(world)).id}'
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        async with upgrading(site, ada) as socket, anyio.create_task_group() as tasks:
            tasks.start_soon(ada.post, f'42["typing",{{{mine},"is_typing":true}}]')
            await begun.wait()
            ada_now = await goes_over(socket)
            await ada_now.send(f'42["typing",{{{mine},"is_typing":false}}]')
            await ada_now.send(NOTHING)
            with anyio.move_on_after(0.05):
                await ada_now.next("error")
            go_on.set()
            await ada_now.next("error")
    assert typed == [True, False]
