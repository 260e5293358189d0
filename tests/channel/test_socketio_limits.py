"""Limits of Socket.IO clients: events, connections, sizes; and what is logged and imported."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import AsyncExitStack

import anyio
import pytest

from staffbooking_adapters.testing.builders import SECOND
from staffbooking_core.representations.channel import ClientEvent, CloseCode
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio_client, socketio_engine
from tests.channel.raw_clients import wait_until_offline
from tests.channel.socketio_clients import (
    POLLING_ONLY,
    SOCKETIO_PATH,
    TRANSPORTS,
    UNKNOWN_EVENT,
    PollingClient,
    connect_client,
    connect_polling_client,
    connect_raw_client,
)
from tests.http.deployment import HttpDeployment, error_body
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 5,000 characters of four bytes each."""


# Events ---------------------------------------------------------------------------------


async def test_events_over_the_limit_are_refused(world: HttpDeployment) -> None:
    """A message over the limit is refused with `retry_after` and not stored; malformed events
    count."""
    relax_limits(world, max_events_per_minute=4)
    conversation = await add_shared_conversation(world)
    async with (
        serve_channel(world.ports) as site,
        connect_client(site, world.customer, POLLING_ONLY) as ada,
    ):
        await ada.send_message(conversation, "Hello")
        for event, data in (("nothing", {}), ("typing", None), ("resume", {"after": -1})):
            assert "retry_after" not in await ada.call(event, data)
        world.clock.advance(18 * SECOND)
        asked = {"conversation_id": conversation.id, "content": "One more"}
        error = await ada.call(ClientEvent.SEND_MESSAGE, asked)
        assert (error["code"], error["retry_after"]) == ("rate_limited", 42)
        assert await channel.last_message_id(world.ports) == 1


async def test_invalid_events_count_for_the_user(world: HttpDeployment) -> None:
    """Malformed, unknown and invalid events count against the user's limit, beyond which they are
    refused as messages are."""
    relax_limits(world, max_user_events_per_minute=3)
    invalid: list[tuple[str, dict[str, int] | None]] = [
        ("nothing", {}),
        ("typing", None),
        ("resume", {"after": -1}),
    ]
    async with (
        serve_channel(world.ports) as site,
        connect_client(site, world.customer, POLLING_ONLY) as ada,
    ):
        for event, data in invalid:
            assert "retry_after" not in await ada.call(event, data)
        for event, data in invalid:
            assert (await ada.call(event, data))["code"] == "rate_limited"


async def test_a_flood_disconnects(world: HttpDeployment) -> None:
    """The event after three times the limit disconnects the client, and the events after it are
    dropped."""
    relax_limits(world, max_events_per_minute=1)
    conversation = await add_shared_conversation(world)
    asked = {"conversation_id": conversation.id, "content": "Too late"}
    async with serve_channel(world.ports) as site:
        for transports in TRANSPORTS.values():
            async with connect_client(site, world.customer, transports) as ada:
                for _ in range(3):
                    await ada.send("nothing", {})
                for _ in range(20):
                    await ada.send("send_message", asked)
                assert await ada.wait_closed() == ada.client.reason.SERVER_DISCONNECT
                codes = [error["code"] for error in ada.received_data("error")]
                assert codes == ["unknown_event", "rate_limited", "rate_limited"]
                assert await channel.last_message_id(world.ports) == 0


async def test_packets_before_connecting_are_counted(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """31 packets before `40` are accepted and do not count afterwards; 33 disconnect the client."""
    for early in ("3", UNKNOWN_EVENT, "40/nowhere,", "x"):
        async with connect_polling_client(site, world.customer) as ada:
            await ada.open()
            await ada.post(*[early] * 31)
            assert (await ada.post("40")).text == "ok"
            await ada.next("ready")
            await ada.post(*["3"] * 100, UNKNOWN_EVENT)
            assert (await ada.next("error"))["code"] == "unknown_event"
        async with connect_polling_client(site, world.customer) as ada:
            await ada.open()
            await ada.post(*[early] * 33)
            while (packet := await ada.packet()).startswith("44"):
                pass
            assert packet == "41"
            error_body(await ada.post("40"), 404, "not_found")


# Connections ----------------------------------------------------------------------------


async def test_the_eleventh_connection_is_429(world: HttpDeployment, site: ChannelServer) -> None:
    """The eleventh connection of a user, over any transport, is 429 until another one has ended."""
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(connect_raw_client(site, world.customer))
            await stack.enter_async_context(site.connect_client(world.customer))
        ada = await stack.enter_async_context(connect_polling_client(site, world.customer))
        last = await stack.enter_async_context(connect_polling_client(site, world.customer))
        more = await stack.enter_async_context(connect_polling_client(site, world.customer))
        await ada.connect()
        await last.open()
        answer = await more.get()
        body = error_body(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) == body["retry_after"] > 0
        path, cookie = f"{SOCKETIO_PATH}?EIO=4&transport=websocket", more.http.headers["cookie"]
        refusal, body = await site.rejected_handshake(cookie, path=path)
        assert (refusal.status_code, body["code"]) == (429, "rate_limited")
        error_body(await more.get(EIO="3"), 400, "bad_handshake")
        await ada.post("41")
        with anyio.fail_after(5):
            while (await more.get()).status_code == 429:
                pass
        error_body(await more.get(), 429, "rate_limited")


async def test_a_client_that_does_not_connect_is_closed(
    world: HttpDeployment, site: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without a Socket.IO handshake is closed after the timeout, and a connected one
    stays."""
    monkeypatch.setattr(socketio_client, "CONNECT_TIMEOUT_SECONDS", 0.5)
    async with (
        connect_polling_client(site, world.customer) as ada,
        connect_polling_client(site, world.companion) as mia,
    ):
        await mia.connect()
        await ada.open()
        await wait_until_offline(world, world.customer)
        error_body(await ada.get(sid=ada.sid), 404, "not_found")
        await mia.post(UNKNOWN_EVENT)
        assert (await mia.next("error"))["code"] == "unknown_event"


async def test_there_is_one_poll_at_a_time(world: HttpDeployment, site: ChannelServer) -> None:
    """A second concurrent poll ends the connection."""
    async with (
        connect_polling_client(site, world.customer) as ada,
        anyio.create_task_group() as tasks,
    ):
        await ada.connect()
        tasks.start_soon(_poll, ada)
        while (answer := await ada.get(sid=ada.sid)).status_code == 200:
            await ada.post(UNKNOWN_EVENT)
        assert answer.json()["code"] in ("bad_handshake", "not_found")
        await wait_until_offline(world, world.customer)


async def _poll(ada: PollingClient) -> None:
    while (await ada.get(sid=ada.sid)).status_code == 200:
        pass


# Sizes ----------------------------------------------------------------------------------


async def test_a_posted_body_has_64_kib_at_most(world: HttpDeployment, site: ChannelServer) -> None:
    """A body of 64 KiB is accepted; one more byte is 413, and the connection stays open."""
    frame = f'42["nothing",{{"pad":"{"x" * (64 * 1024 - len(UNKNOWN_EVENT) - 8)}"}}]'
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        assert (await ada.post(frame)).text == "ok"
        assert (await ada.next("error"))["code"] == "unknown_event"
        error_body(await ada.post(frame + " "), 413, "body_too_large")
        await ada.post(UNKNOWN_EVENT)
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_a_request_holds_512_packets_at_most(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A request with 512 pongs is accepted, and one with 513 disconnects the client."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        for _ in range(3):
            assert (await ada.post(*["3"] * 512)).text == "ok"
        await ada.post(*["3"] * 513)
        assert await ada.packet() == "41"
        error_body(await ada.post("3"), 404, "not_found")


async def test_a_larger_packet_closes_a_websocket(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A packet over 64 KiB closes the WebSocket with TOO_BIG."""
    async with connect_raw_client(site, world.customer) as ada:
        await ada.send("4" + "x" * (64 * 1024))
        await ada.socket.wait_closed()
        assert ada.socket.close_code == CloseCode.TOO_BIG


async def test_the_longest_message_fits(world: HttpDeployment, site: ChannelServer) -> None:
    """A message of 5,000 four-byte characters is stored unchanged, over each transport."""
    for transports in TRANSPORTS.values():
        async with connect_client(site, world.customer, transports) as ada:
            assert (await ada.send_message(await add_shared_conversation(world), LONG))[
                "content"
            ] == LONG


# Logs and imports -----------------------------------------------------------------------


async def test_no_content_or_token_is_logged(
    world: HttpDeployment, site: ChannelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG the service logs no message, malformed packet or token, and nothing above INFO."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger(socketio_engine.log.name).setLevel(logging.ERROR)
    conversation = await add_shared_conversation(world)
    async with (
        connect_client(site, world.customer, POLLING_ONLY) as ada,
        connect_raw_client(site, world.companion) as mia,
    ):
        await ada.send_message(conversation, "Between us")
        await mia.next("new_message")
        await mia.send("4nonsense")
        await mia.next("error")
    records = [each for each in caplog.records if each.name.startswith(("staffbooking", "uvicorn"))]
    assert not [each for each in records if each.levelno > logging.INFO]
    for record in records:
        for secret in ("Between us", "nonsense", ada.token):
            assert secret not in record.getMessage()


def test_only_the_server_imports_socketio() -> None:
    """Wiring, documents, routes and the worker import neither `socketio` nor `engineio`."""
    code = (
        "import sys, staffbooking_adapters.wiring, staffbooking_http.docs.openapi\n"
        "import staffbooking_http.docs.asyncapi, staffbooking_http.routes\n"
        "import staffbooking_worker.main\n"
        "sys.exit(bool({'socketio', 'engineio'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
