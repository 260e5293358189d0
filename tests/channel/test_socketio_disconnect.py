"""Disconnections of Socket.IO clients, by the service or by the client."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from staffbooking_core.representations.channel import CloseCode
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio, socketio_client, socketio_engine
from tests.channel.raw_clients import wait_until_offline
from tests.channel.socketio_clients import (
    POLLING_ONLY,
    POLLING_THEN_WEBSOCKET,
    SOCKETIO_PATH,
    UNKNOWN_EVENT,
    WEBSOCKET_ONLY,
    PollingClient,
    RawSocketIoClient,
    connect_client,
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


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Socket.IO servers created in this test, oldest first."""
    made: list[Any] = []

    def make(*given: Any) -> Any:
        made.append(socketio_engine.create_server(*given))
        return made[-1]

    monkeypatch.setattr(socketio, "create_server", make)
    return made


@pytest.fixture
async def site(world: HttpDeployment, servers: list[Any]) -> AsyncIterator[ChannelServer]:
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made


async def test_signing_out_disconnects(world: HttpDeployment, site: ChannelServer) -> None:
    """Signing out disconnects all clients of the session, and none of another session."""
    browser = await world.signed_in_client(world.customer.id)
    token = browser.headers["cookie"].removeprefix("connect.sid=")
    async with (
        connect_client(site, world.customer, POLLING_ONLY, token=token) as polling,
        connect_client(site, world.customer, WEBSOCKET_ONLY, token=token) as websocket,
        connect_client(site, world.customer, POLLING_THEN_WEBSOCKET, token=token) as upgraded,
        connect_client(site, world.customer) as elsewhere,
    ):
        await browser.post("/auth/logout")
        for client in (polling, websocket, upgraded):
            assert await client.wait_closed() == client.client.reason.SERVER_DISCONNECT
        assert (await elsewhere.call("nothing"))["code"] == "unknown_event"


async def test_disabling_a_user_disconnects_all_clients(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Disabling a user through the use-case disconnects all their clients."""
    async with (
        connect_client(site, world.customer, POLLING_ONLY) as polling,
        connect_client(site, world.customer, WEBSOCKET_ONLY) as websocket,
    ):
        await disabling.disable_user(world.ports, world.customer.email)
        for client in (polling, websocket):
            assert await client.wait_closed() == client.client.reason.SERVER_DISCONNECT


async def test_a_session_that_ends_between_the_handshakes_opens_nothing(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A session ended before the Socket.IO handshake gets `41` and close code FORBIDDEN in place of
    `ready`."""
    browser = await world.signed_in_client(world.customer.id)
    path = f"{SOCKETIO_PATH}?EIO=4&transport=websocket"
    async with site.open_websocket(browser.headers["cookie"], path=path) as socket:
        ada = RawSocketIoClient(socket)
        assert (await ada.packet()).startswith("0")
        await browser.post("/auth/logout")
        await ada.send("40")
        assert (await ada.packet()).startswith("40")
        assert await ada.packet() == "41"
        with pytest.raises(ConnectionClosed) as closed:
            await ada.packet()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == CloseCode.FORBIDDEN


async def test_a_restart_closes_the_transport(world: HttpDeployment, site: ChannelServer) -> None:
    """A stopping server closes the transport without disconnecting, so that clients reconnect."""
    async with (
        connect_client(site, world.customer, POLLING_ONLY) as polling,
        connect_client(site, world.customer, WEBSOCKET_ONLY) as websocket,
        connect_client(site, world.customer, POLLING_THEN_WEBSOCKET) as upgraded,
    ):
        site.stop.set()
        for client in (polling, websocket, upgraded):
            assert await client.wait_closed() == client.client.reason.TRANSPORT_ERROR


async def test_a_restart_ends_the_poll_of_an_unconnected_client(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping server ends the pending poll of a client that has not connected."""
    monkeypatch.setattr(socketio_client, "CONNECT_TIMEOUT_SECONDS", 60.0)
    async with (
        connect_polling_client(site, world.customer) as ada,
        anyio.create_task_group() as tasks,
    ):
        await ada.open()

        async def poll() -> None:
            error_body(await ada.get(sid=ada.sid), 400, "bad_handshake")

        tasks.start_soon(poll)
        with anyio.move_on_after(0.05):
            await anyio.sleep_forever()
        site.stop.set()


async def test_a_restart_removes_an_opening_client(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client counted before the restart and opened after it is removed."""
    begun, go_on = anyio.Event(), anyio.Event()
    count = channel.connect

    async def slow(*given: Any) -> None:
        begun.set()
        await go_on.wait()
        await count(*given)

    monkeypatch.setattr(channel, "connect", slow)
    async with world.app.lifespan(), await world.signed_in_client(world.customer.id) as http:
        ada = PollingClient(http)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ada.open)
            await begun.wait()
            await world.app.retire()
            go_on.set()
        error_body(await ada.post("40"), 404, "not_found")


async def test_a_client_that_leaves_is_offline(world: HttpDeployment, site: ChannelServer) -> None:
    """A client that leaves by Socket.IO, by Engine.IO or by closing its socket is offline."""
    for packet in ("41", "1"):
        async with connect_polling_client(site, world.customer) as ada:
            await ada.connect()
            await ada.post(packet)
            await wait_until_offline(world, world.customer)
        async with connect_raw_client(site, world.customer) as ada_too:
            await ada_too.send(packet)
            await wait_until_offline(world, world.customer)
    async with connect_raw_client(site, world.customer):
        pass
    await wait_until_offline(world, world.customer)


@pytest.mark.parametrize("packets", [("1",), ("40", "1"), ("40", "41")])
async def test_packets_after_the_last_one_are_ignored(
    world: HttpDeployment,
    site: ChannelServer,
    servers: list[Any],
    caplog: pytest.LogCaptureFixture,
    packets: tuple[str, ...],
) -> None:
    """Packets after a client's last one connect nothing, leave no room, and log nothing above
    INFO."""
    cookie = f"connect.sid={await site.sign_in(world.customer)}"
    for _ in range(5):
        async with site.open_websocket(
            cookie, path=f"{SOCKETIO_PATH}?EIO=4&transport=websocket"
        ) as socket:
            assert str(await socket.recv()).startswith("0")
            for packet in (*packets, "40", UNKNOWN_EVENT):
                await socket.send(packet)
            await socket.wait_closed()
        await wait_until_offline(world, world.customer)
    assert servers[-1].manager.rooms == {}
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


async def test_a_client_that_aborts_a_poll_is_offline(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A client that aborts its poll is offline."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        with anyio.move_on_after(0.1):
            await ada.get(sid=ada.sid)
        await wait_until_offline(world, world.customer)


@pytest.mark.parametrize("kind", [connect_polling_client, connect_raw_client])
async def test_a_client_without_pongs_is_offline(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """A client that answers no ping goes offline, on either transport."""
    monkeypatch.setattr(socketio_engine, "PING_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr(socketio_engine, "PONG_TIMEOUT_SECONDS", 0.1)
    async with serve_channel(world.ports) as site, kind(site, world.customer) as ada:
        if isinstance(ada, PollingClient):
            await ada.connect()
        await wait_until_offline(world, world.customer)


async def test_a_client_that_answers_pings_stays_connected(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that only answer pings get five pings, on either transport."""
    monkeypatch.setattr(socketio_engine, "PING_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(socketio_engine, "PONG_TIMEOUT_SECONDS", 2.0)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
        connect_raw_client(site, world.companion) as mia,
    ):
        await ada.connect()
        for _ in range(5):
            assert (await ada.packet(), await mia.packet()) == ("2", "2")
            await ada.post("3")
            await mia.send("3")


def test_ping_interval_and_pong_timeout() -> None:
    """The ping interval and the pong timeout are 20 seconds each."""
    assert (socketio_engine.PING_INTERVAL_SECONDS, socketio_engine.PONG_TIMEOUT_SECONDS) == (20, 20)


async def test_an_error_while_disconnecting_leaves_no_socket(
    world: HttpDeployment,
    site: ChannelServer,
    servers: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failing `channel.disconnect` is logged, and the engine keeps no socket."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("planted")

    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        monkeypatch.setattr(channel, "disconnect", broken)
        await ada.post("1")
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while "planted" not in caplog.text:
                await anyio.lowlevel.checkpoint()
        assert servers[-1].eio.sockets == {}
