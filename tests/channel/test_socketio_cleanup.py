"""What is kept of a client of Socket.IO that ends, and that nothing is left of it."""

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

NOTHING = '42["nothing",{}]'


# What is kept of it ---------------------------------------------------------------------


@pytest.fixture
def outboxes(monkeypatch: pytest.MonkeyPatch) -> list[PacketQueue]:
    """Of all clients; and nobody who lingers is cut off."""
    made: list[PacketQueue] = []

    class Watched(PacketQueue):
        def _init(self, maxsize: int) -> None:
            super()._init(maxsize)
            made.append(self)

    monkeypatch.setattr(socketio_engine, "PacketQueue", Watched)
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 60.0)
    return made


@pytest.mark.parametrize("last", ["1", "41"])
async def test_nothing_waits_for_who_has_left(
    world: HttpDeployment, outboxes: list[PacketQueue], last: str
) -> None:
    """What a client did not read is dropped with its last packet: another one may come in its
    place."""
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        await ada.post(*[NOTHING] * 20)
        [outbox] = outboxes
        assert outbox.unread_bytes > 0
        await ada.post(last)
        await wait_until_offline(world, world.customer)
        assert outbox.unread_bytes == 0
        async with connect_raw_client(site, world.customer) as ada_too:
            await ada_too.send(last)
            await wait_until_offline(world, world.customer)


async def test_a_client_has_its_seat_until_it_has_read_why_it_is_closed(
    world: HttpDeployment, outboxes: list[PacketQueue]
) -> None:
    """Whoever has themselves closed, again and again, keeps no more than others."""
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        await ada.post(*[NOTHING] * 20)
        await ada.post(*["3"] * 513)
        async with world.store.read_view() as view:
            [found] = await view.presence.presence([world.customer.id], world.clock.wall())
        assert found.online
        while await ada.packet() != "41":
            pass
        await wait_until_offline(world, world.customer)
        assert [outbox.unread_bytes for outbox in outboxes] == [0]


async def test_polls_count_only_for_who_polls(
    world: HttpDeployment, outboxes: list[PacketQueue]
) -> None:
    """What is on its way over a WebSocket is not read by a poll that is refused."""
    sent, go_on = anyio.Event(), anyio.Event()
    said: list[str] = []

    async def receive() -> Any:
        if outboxes:
            await go_on.wait()
        return {"type": "websocket.disconnect" if outboxes else "websocket.connect"}

    async def send(message: Any) -> None:
        if "text" in message:
            said.append(message["text"])
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
        ada = PollingClient(http, sid=json.loads(said[0][1:])["sid"])
        error_body(await ada.get(sid=ada.sid), 400, "bad_handshake")
        assert outbox.unread_bytes == before > 0
        go_on.set()


async def test_a_request_that_is_cut_off_is_answered(
    world: HttpDeployment,
    site: ChannelServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who is closed while they still send something is told that there is no connection."""
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        cookie = ada.http.headers["cookie"]
        writer.write(
            f"POST {SOCKETIO_PATH}?EIO=4&transport=polling&sid={ada.sid} HTTP/1.1\r\nhost: x\r\n"
            f"cookie: {cookie}\r\ncontent-length: 100\r\n\r\n4".encode()
        )
        while (await ada.post(NOTHING)).status_code == 200:
            pass
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            answer = await reader.readuntil(b"\r\n")
        writer.close()
    assert answer == b"HTTP/1.1 404 Not Found\r\n"
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


# Nothing is left ------------------------------------------------------------------------


async def test_no_task_outlives_the_server(world: HttpDeployment) -> None:
    """Neither pings nor watches nor timers, whatever the clients were at."""
    relax_limits(world)
    before = asyncio.all_tasks()
    async with (
        serve_channel(world.ports) as site,
        connect_raw_client(site, world.customer),
        connect_polling_client(site, world.customer) as polled,
        connect_polling_client(site, world.companion) as unheard,
    ):
        await polled.connect()
        await unheard.open()
        site.stop.set()
    assert asyncio.all_tasks() == before


async def test_no_task_outlives_who_is_cancelled(world: HttpDeployment) -> None:
    """The same where the program around it is cancelled."""
    before = asyncio.all_tasks()
    with anyio.CancelScope() as scope:
        async with world.app.lifespan(), await world.signed_in_client(world.customer.id) as http:
            await PollingClient(http).connect()
            scope.cancel()
            await anyio.sleep_forever()
    assert asyncio.all_tasks() == before


async def test_who_goes_before_all_is_ready_is_forgotten(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that ends while its connection is being opened leaves none behind."""
    begun, go_on = anyio.Event(), anyio.Event()
    look = channel.last_message_id

    async def slow(*given: Any) -> int:
        begun.set()
        await go_on.wait()
        return await look(*given)

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
        assert len(world.app.hub) == 0


async def test_a_handshake_that_fails_takes_no_seat(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it was counted before."""

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
