"""Upgrades of Socket.IO clients from polling to a WebSocket, completed or not."""

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
    UNKNOWN_EVENT,
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


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made


def open_upgrade(
    site: ChannelServer, client: PollingClient
) -> AbstractAsyncContextManager[ClientConnection]:
    """A WebSocket with the connection id of a polling client."""
    path = f"{SOCKETIO_PATH}?EIO=4&transport=websocket&sid={client.sid}"
    return site.open_websocket(client.http.headers["cookie"], path=path)


async def complete_upgrade(socket: ClientConnection) -> RawSocketIoClient:
    """Complete the upgrade and return the client over the WebSocket."""
    await socket.send("2probe")
    assert await socket.recv() == "3probe"
    await socket.send("5")
    return RawSocketIoClient(socket)


async def expect_answer(client: PollingClient | RawSocketIoClient) -> None:
    """Check that an event is answered."""
    await (
        client.post(UNKNOWN_EVENT)
        if isinstance(client, PollingClient)
        else client.send(UNKNOWN_EVENT)
    )
    assert (await client.next("error"))["code"] == "unknown_event"


async def test_messages_after_an_upgrade_arrive_in_order(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Messages after an upgrade arrive once, in order."""
    conversation = await add_shared_conversation(world)
    async with (
        connect_client(site, world.customer, WEBSOCKET_ONLY) as ada,
        connect_client(site, world.companion, POLLING_THEN_WEBSOCKET) as mia,
    ):
        assert mia.client.transport() == "websocket"
        sent = [await ada.send_message(conversation, f"Word {number}") for number in range(20)]
        assert [await mia.next_data("new_message") for _ in sent] == sent


async def test_an_upgrade_times_out(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A WebSocket without a completed upgrade is closed while polling goes on, and an upgraded one
    stays open."""
    monkeypatch.setattr(socketio_client, "UPGRADE_TIMEOUT_SECONDS", 0.05)
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        for sent in (None, "2probe"):
            async with open_upgrade(site, ada) as socket:
                if sent:
                    await socket.send(sent)
                    assert await socket.recv() == "3probe"
                await socket.wait_closed()
            await expect_answer(ada)
        async with open_upgrade(site, ada) as socket:
            ada_now = await complete_upgrade(socket)
            await expect_answer(ada_now)
            with anyio.move_on_after(0.1):
                await socket.wait_closed()
            await expect_answer(ada_now)


async def test_a_failed_upgrade_keeps_polling(world: HttpDeployment, site: ChannelServer) -> None:
    """After failed upgrades polling works and another upgrade succeeds."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        for sent in ((), ("2probe",), ("hello",), ("2probe", "hello"), ("5",)):
            async with open_upgrade(site, ada) as socket:
                for packet in sent:
                    await socket.send(packet)
            await expect_answer(ada)
        async with open_upgrade(site, ada) as socket:
            await expect_answer(await complete_upgrade(socket))


async def test_events_keep_their_order_across_an_upgrade(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event over the WebSocket is handled after the event posted before it."""
    started, go_on = anyio.Event(), anyio.Event()
    typed: list[bool] = []

    async def slow(_: Any, __: Any, inputs: Any) -> None:
        started.set()
        if inputs.is_typing:
            await go_on.wait()
        typed.append(inputs.is_typing)

    monkeypatch.setattr(channel, "broadcast_typing", slow)
    mine = f'"conversation_id":{(await add_shared_conversation(world)).id}'
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        async with open_upgrade(site, ada) as socket, anyio.create_task_group() as tasks:
            tasks.start_soon(ada.post, f'42["typing",{{{mine},"is_typing":true}}]')
            await started.wait()
            ada_now = await complete_upgrade(socket)
            await ada_now.send(f'42["typing",{{{mine},"is_typing":false}}]')
            await ada_now.send(UNKNOWN_EVENT)
            with anyio.move_on_after(0.05):
                await ada_now.next("error")
            go_on.set()
            await ada_now.next("error")
    assert typed == [True, False]
