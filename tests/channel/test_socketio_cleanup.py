"""Resources of ended Socket.IO clients: kept while the client reads its end, then released."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import anyio
import pytest

from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio, socketio_engine
from staffbooking_http.channel.socketio_engine import PacketQueue
from tests.channel.raw_clients import wait_until_offline
from tests.channel.socketio_clients import (
    SOCKETIO_PATH,
    UNKNOWN_EVENT,
    PollingClient,
    connect_polling_client,
    connect_raw_client,
)
from tests.http.deployment import HttpDeployment, error_body
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

# Ended clients --------------------------------------------------------------------------


@pytest.fixture
def outboxes(monkeypatch: pytest.MonkeyPatch) -> list[PacketQueue]:
    """Packet queues of all clients; a closing client has 60 seconds to read."""
    made: list[PacketQueue] = []

    class Watched(PacketQueue):
        def _init(self, maxsize: int) -> None:
            super()._init(maxsize)
            made.append(self)

    monkeypatch.setattr(socketio_engine, "PacketQueue", Watched)
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 60.0)
    return made


@pytest.mark.parametrize("last", ["1", "41"])
async def test_a_last_packet_drops_unread_packets(
    world: HttpDeployment, outboxes: list[PacketQueue], last: str
) -> None:
    """The last packet of a client drops its unread packets and takes its user offline."""
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        await ada.post(*[UNKNOWN_EVENT] * 20)
        [outbox] = outboxes
        assert outbox.unread_bytes > 0
        await ada.post(last)
        await wait_until_offline(world, world.customer)
        assert outbox.unread_bytes == 0
        async with connect_raw_client(site, world.customer) as ada_too:
            await ada_too.send(last)
            await wait_until_offline(world, world.customer)


async def test_a_closed_client_is_online_until_it_has_read_its_packets(
    world: HttpDeployment, outboxes: list[PacketQueue]
) -> None:
    """A closed client is online until it has read its packets, and then none is left unread."""
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        await ada.post(*[UNKNOWN_EVENT] * 20)
        await ada.post(*["3"] * 513)
        async with world.store.read_view() as view:
            [found] = await view.presence.presence([world.customer.id], world.clock.wall())
        assert found.online
        while await ada.packet() != "41":
            pass
        await wait_until_offline(world, world.customer)
        assert [outbox.unread_bytes for outbox in outboxes] == [0]


async def test_a_refused_poll_reads_nothing(
    world: HttpDeployment, outboxes: list[PacketQueue]
) -> None:
    """A refused poll of a client on a WebSocket leaves its unread bytes unchanged."""
    sent, go_on = anyio.Event(), anyio.Event()
    texts: list[str] = []

    async def receive() -> Any:
        if outboxes:
            await go_on.wait()
        return {"type": "websocket.disconnect" if outboxes else "websocket.connect"}

    async def send(message: Any) -> None:
        if "text" in message:
            texts.append(message["text"])
            sent.set()
            await go_on.wait()

    async with (
        world.app.lifespan(),
        await world.signed_in_client(world.customer.id) as http,
        anyio.create_task_group() as tasks,
    ):
        headers = [(b"cookie", http.headers["cookie"].encode())]
        query = b"EIO=4&transport=websocket"
        scope = {
            "type": "websocket",
            "path": SOCKETIO_PATH,
            "query_string": query,
            "headers": headers,
        }
        tasks.start_soon(world.app, scope, receive, send)
        await sent.wait()
        [outbox] = outboxes
        before = outbox.unread_bytes
        ada = PollingClient(http, sid=json.loads(texts[0][1:])["sid"])
        error_body(await ada.get(sid=ada.sid), 400, "bad_handshake")
        assert outbox.unread_bytes == before > 0
        go_on.set()


async def test_an_unfinished_request_is_answered(
    world: HttpDeployment,
    site: ChannelServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unfinished POST gets 404 when its client is closed, and nothing above INFO is logged."""
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        cookie = ada.http.headers["cookie"]
        writer.write(
            f"POST {SOCKETIO_PATH}?EIO=4&transport=polling&sid={ada.sid} HTTP/1.1\r\nhost: x\r\n"
            f"cookie: {cookie}\r\ncontent-length: 100\r\n\r\n4".encode()
        )
        while (await ada.post(UNKNOWN_EVENT)).status_code == 200:
            pass
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            answer = await reader.readuntil(b"\r\n")
        writer.close()
    assert answer == b"HTTP/1.1 404 Not Found\r\n"
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


# Nothing remains ------------------------------------------------------------------------


async def test_no_task_outlives_the_server(world: HttpDeployment) -> None:
    """No task remains after the server stops with connected and half-connected clients."""
    relax_limits(world)
    before = asyncio.all_tasks()
    async with (
        serve_channel(world.ports) as site,
        connect_raw_client(site, world.customer),
        connect_polling_client(site, world.customer) as polled,
        connect_polling_client(site, world.companion) as half_open,
    ):
        await polled.connect()
        await half_open.open()
        site.stop.set()
    assert asyncio.all_tasks() == before


async def test_no_task_outlives_a_cancelled_scope(world: HttpDeployment) -> None:
    """No task remains after the scope around the application is cancelled."""
    before = asyncio.all_tasks()
    with anyio.CancelScope() as scope:
        async with world.app.lifespan(), await world.signed_in_client(world.customer.id) as http:
            await PollingClient(http).connect()
            scope.cancel()
            await anyio.sleep_forever()
    assert asyncio.all_tasks() == before


async def test_a_client_that_ends_while_opening_is_removed(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that ends while its connection is opened leaves no connection in the hub."""
    begun, go_on = anyio.Event(), anyio.Event()
    read_last_id = channel.last_message_id

    async def slow(*args: Any) -> int:
        begun.set()
        await go_on.wait()
        return await read_last_id(*args)

    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
    async with world.app.lifespan(), await world.signed_in_client(world.customer.id) as http:
        ada = PollingClient(http)
        await ada.open()
        monkeypatch.setattr(channel, "last_message_id", slow)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ada.post, "40")
            await begun.wait()
            error_body(await ada.post("40"), 400, "bad_handshake")
            await wait_until_offline(world, world.customer)
            go_on.set()
        assert world.app.hub.metrics.open_connections == 0


async def test_a_failed_handshake_is_not_counted(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven failing handshakes do not use up the ten connections of a user."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("planted")

    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(socketio_engine.TrackedEngine, "handle_request", broken)
            for _ in range(11):
                error_body(await ada.get(), 500, "internal")
        await ada.open()
