"""How much a client of Socket.IO may send, leave unread and keep open."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from staffbooking_core.domain.messaging.conversations import Conversation
from staffbooking_core.representations.channel import Asked, Close
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio, socketio_client, socketio_engine
from staffbooking_http.channel.socketio_client import MOST_WAITING
from staffbooking_http.channel.socketio_engine import Outbox
from tests.channel.raw_clients import Idler, all_gone
from tests.channel.socketio_clients import (
    PATH,
    POLLING,
    TRANSPORTS,
    Poller,
    bare,
    connected,
    poller,
)
from tests.http.deployment import BASE, World, refused
from tests.support.builders import SECOND
from tests.support.channel_deployment import Served, converse, relax, served
from tests.support.messages import say

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 20,000 bytes, and of as many characters of four bytes each."""
NOTHING = '42["nothing",{}]'
LIVELY = '42["presence",{"user_ids":[999]}]'
"""Whoever has spoken is told what is said at once."""


@pytest.fixture
async def site(world: World) -> AsyncIterator[Served]:
    relax(world)
    async with served(world.ports) as made:
        yield made


# Events ---------------------------------------------------------------------------------


async def test_what_is_over_the_limit_is_refused(world: World) -> None:
    """Malformed packets count as well; the callback is told when to try again, and the message
    is not stored."""
    relax(world, events=4)
    conversation = await converse(world)
    async with served(world.ports) as site, connected(site, world.customer, POLLING) as ada:
        await ada.say(conversation, "Hello")
        for event, data in (("nothing", {}), ("typing", None), ("resume", {"after": -1})):
            assert "retry_after" not in await ada.ask(event, data)
        world.clock.advance(18 * SECOND)
        asked = {"conversation_id": conversation.id, "content": "One more"}
        error = await ada.ask(Asked.SEND_MESSAGE, asked)
        assert (error["code"], error["retry_after"]) == ("rate_limited", 42)
        assert await channel.last_id(world.ports) == 1


async def test_a_flood_disconnects(world: World) -> None:
    """After three times the limit; what comes with the last straw is dropped, and the client is
    told not to come again by itself."""
    relax(world, events=1)
    conversation = await converse(world)
    asked = {"conversation_id": conversation.id, "content": "Too late"}
    async with served(world.ports) as site:
        for transports in TRANSPORTS.values():
            async with connected(site, world.customer, transports) as ada:
                for _ in range(3):
                    await ada.send("nothing", {})
                for _ in range(20):
                    await ada.send("send_message", asked)
                assert await ada.closed() == ada.sio.reason.SERVER_DISCONNECT
                codes = [error["code"] for error in ada.told("error")]
                assert codes == ["unknown_event", "rate_limited", "rate_limited"]
                assert await channel.last_id(world.ports) == 0


async def test_what_comes_too_early_is_counted(world: World, site: Served) -> None:
    """Whatever it is: nobody else counts it before a client has connected."""
    for early in ("3", NOTHING, "40/nowhere,", "x"):
        async with poller(site, world.customer) as ada:
            await ada.open()
            await ada.post(*[early] * 31)
            assert (await ada.post("40")).text == "ok"
            await ada.next("ready")
            await ada.post(*["3"] * 100, NOTHING)
            assert (await ada.next("error"))["code"] == "unknown_event"
        async with poller(site, world.customer) as ada:
            await ada.open()
            await ada.post(*[early] * 33)
            while (packet := await ada.packet()).startswith("44"):
                pass
            assert packet == "41"
            refused(await ada.post("40"), 404, "not_found")


# Connections ----------------------------------------------------------------------------


async def test_the_eleventh_connection_is_429(world: World, site: Served) -> None:
    """Of whatever kind: those over WebSockets, those that are polled, those that have not yet
    said that they are of Socket.IO. One that has ended makes room for another."""
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(bare(site, world.customer))
            await stack.enter_async_context(site.client(world.customer))
        ada = await stack.enter_async_context(poller(site, world.customer))
        last = await stack.enter_async_context(poller(site, world.customer))
        more = await stack.enter_async_context(poller(site, world.customer))
        await ada.connect()
        await last.open()
        answer = await more.get()
        body = refused(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) == body["retry_after"] > 0
        path, cookie = f"{PATH}?EIO=4&transport=websocket", more.http.headers["cookie"]
        refusal, body = await site.refusal(cookie, path=path)
        assert (refusal.status_code, body["code"]) == (429, "rate_limited")
        refused(await more.get(EIO="3"), 400, "bad_handshake")
        await ada.post("41")
        with anyio.fail_after(5):
            while (await more.get()).status_code == 429:
                pass
        refused(await more.get(), 429, "rate_limited")


async def test_who_does_not_go_on_is_cut_off(
    world: World, site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engine.IO's handshake alone keeps no connection open; Socket.IO's does."""
    monkeypatch.setattr(socketio_client, "CONNECT_WITHIN", 0.5)
    async with poller(site, world.customer) as ada, poller(site, world.companion) as mia:
        await mia.connect()
        await ada.open()
        await all_gone(world, world.customer)
        refused(await ada.get(sid=ada.sid), 404, "not_found")
        await mia.post(NOTHING)
        assert (await mia.next("error"))["code"] == "unknown_event"


async def test_there_is_one_poll_at_a_time(world: World, site: Served) -> None:
    """A second one ends the connection: what is told would go this way and that."""
    async with poller(site, world.customer) as ada, anyio.create_task_group() as tasks:
        await ada.connect()
        tasks.start_soon(_poll, ada)
        while (answer := await ada.get(sid=ada.sid)).status_code == 200:
            await ada.post(NOTHING)
        assert answer.json()["code"] in ("bad_handshake", "not_found")
        await all_gone(world, world.customer)


async def _poll(ada: Poller) -> None:
    while (await ada.get(sid=ada.sid)).status_code == 200:
        pass


# Sizes ----------------------------------------------------------------------------------


async def test_what_is_posted_has_64_kib_at_most(world: World, site: Served) -> None:
    """To the byte; more is 413, and the connection goes on."""
    frame = f'42["nothing",{{"pad":"{"x" * (64 * 1024 - len(NOTHING) - 8)}"}}]'
    async with poller(site, world.customer) as ada:
        await ada.connect()
        assert (await ada.post(frame)).text == "ok"
        assert (await ada.next("error"))["code"] == "unknown_event"
        refused(await ada.post(frame + " "), 413, "body_too_large")
        await ada.post(NOTHING)
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_a_request_holds_512_packets_at_most(world: World, site: Served) -> None:
    """Also of those that are no events, and cost a client nothing."""
    async with poller(site, world.customer) as ada:
        await ada.connect()
        for _ in range(3):
            assert (await ada.post(*["3"] * 512)).text == "ok"
        await ada.post(*["3"] * 513)
        assert await ada.packet() == "41"
        refused(await ada.post("3"), 404, "not_found")


async def test_a_larger_packet_closes_a_websocket(world: World, site: Served) -> None:
    """As it does at `/ws`."""
    async with bare(site, world.customer) as ada:
        await ada.send("4" + "x" * (64 * 1024))
        await ada.socket.wait_closed()
        assert ada.socket.close_code == Close.TOO_BIG


async def test_the_longest_message_fits(world: World, site: Served) -> None:
    """5,000 characters, each of them sent as a pair of surrogates."""
    for transports in TRANSPORTS.values():
        async with connected(site, world.customer, transports) as ada:
            assert (await ada.say(await converse(world), LONG))["content"] == LONG


# Who does not read ----------------------------------------------------------------------


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that lay unread after each packet; and nobody lingers long."""
    seen: list[int] = []

    class Watched(Outbox):
        def _put(self, item: Any) -> None:
            super()._put(item)
            seen.append(self.unread)

    monkeypatch.setattr(socketio_engine, "Outbox", Watched)
    monkeypatch.setattr(socketio, "LINGER", 0.05)
    return seen


@asynccontextmanager
async def idling(site: Served, world: World) -> AsyncIterator[Idler]:
    """A client over a WebSocket who connects and reads no more."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.setblocking(False)
    with wire:
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", site.port))
        idler = Idler(wire)
        token = await site.sign_in(world.companion)
        await idler.write(
            f"GET {PATH}?EIO=4&transport=websocket HTTP/1.1\r\nhost: x\r\norigin: {BASE}\r\n"
            f"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            f"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\ncookie: connect.sid={token}\r\n\r\n"
            "".encode()
        )
        await idler.read_until(b'"sid"')
        for packet in (b"40", LIVELY.encode()):
            await idler.write(bytes((0x81, 0x80 | len(packet), 0, 0, 0, 0)) + packet)
        await idler.read_until(b'"not_found"')
        yield idler


async def _talk(site: Served, world: World, conversation: Conversation, gone: Any) -> int:
    """Let the customer talk until the other one is gone: how often it was said."""
    async with site.client(world.customer) as ada:
        for said in range(1000):
            if await gone():
                return said
            await ada.say(conversation, LONG)
    raise AssertionError("the client lives")


async def _is_gone(world: World) -> bool:
    async with world.store.reading() as view:
        [found] = await view.presence.presence([world.companion.id], world.clock.wall())
    return not found.online


async def test_who_stops_reading_is_cut_off(world: World, unread: list[int]) -> None:
    """Over a WebSocket; with no more unread than there may be, and one frame."""
    relax(world)
    conversation = await converse(world)
    async with served(world.ports) as site, idling(site, world) as mia:
        await _talk(site, world, conversation, lambda: _is_gone(world))
        await mia.gone()
    assert MOST_WAITING < max(unread) < MOST_WAITING + 2 * 4 * len(LONG)


async def test_who_is_closed_may_hang_up(
    world: World, unread: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for them then, though they have not read everything."""
    monkeypatch.setattr(socketio, "LINGER", 60.0)
    relax(world)
    conversation = await converse(world)

    async def is_closed() -> bool:
        return unread[-2:] == [max(unread)] * 2  # The last one is the end.

    async with served(world.ports) as site:
        async with idling(site, world):
            await _talk(site, world, conversation, is_closed)
            assert not await _is_gone(world)
        await all_gone(world, world.companion)


async def test_who_stops_polling_is_cut_off(world: World, unread: list[int]) -> None:
    """The same; and whoever comes again is told what was missed."""
    relax(world)
    conversation = await converse(world)
    async with served(world.ports) as site, poller(site, world.companion) as mia:
        await mia.connect()
        await mia.post(LIVELY)
        assert (await mia.next("error"))["code"] == "not_found"
        said = await _talk(site, world, conversation, lambda: _is_gone(world))
        while (answer := await mia.get(sid=mia.sid)).status_code == 200:
            pass
        refused(answer, 404, "not_found")
        assert MOST_WAITING < max(unread) < MOST_WAITING + 2 * 4 * len(LONG)
        async with connected(site, world.companion, POLLING) as back:
            await back.send("resume", {"after": 0})
            told = [await back.next("new_message") for _ in range(said)]
            assert [each["id"] for each in told] == list(range(1, said + 1))


async def test_what_was_polled_is_unread_no_more(world: World, unread: list[int]) -> None:
    """As soon as the answer is out, though there is no other poll yet."""
    relax(world)
    async with served(world.ports) as site, poller(site, world.customer) as ada:
        await ada.connect()
        seen = []
        for _ in range(3):
            await ada.post(NOTHING)
            seen.append(unread[-1])
            await ada.next("error")
    assert seen == [seen[0]] * 3


async def test_who_reads_no_answers_is_cut_off(world: World, unread: list[int]) -> None:
    """What the library itself answers is counted, too: a client that only asks is ended."""
    relax(world)
    async with served(world.ports) as site, poller(site, world.customer) as ada:
        await ada.connect()
        asked = '421["presence",{"user_ids":[]}]'
        while (answer := await ada.post(*[asked] * 100)).status_code == 200:
            pass
        refused(answer, 404, "not_found")
        assert MOST_WAITING < max(unread) < MOST_WAITING + 1000


async def test_much_is_told_as_fast_as_it_is_read(world: World, unread: list[int]) -> None:
    """Far more than may lie unread was missed, and the client lives to see the end of it."""
    relax(world)
    conversation = await converse(world)
    await say(world.store, conversation, *[LONG] * 100)
    async with served(world.ports) as site:
        for transports in TRANSPORTS.values():
            async with connected(site, world.companion, transports) as mia:
                await mia.send("resume", {"after": 0})
                told = [await mia.next("new_message") for _ in range(100)]
                assert [each["id"] for each in told] == list(range(1, 101))
    assert max(unread) < MOST_WAITING


async def test_an_answer_that_is_not_read_is_the_only_one(world: World, unread: list[int]) -> None:
    """It goes out in pieces, and as long as it does there is no second one to be kept for the
    same client: another poll ends the connection, and the first one with it."""
    relax(world)
    await say(world.store, await converse(world), *[LONG] * 10)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)
        if "body" in message:
            await anyio.sleep_forever()

    async with world.app.running(), await world.browser(world.companion.id) as http:
        mia = Poller(http)
        await mia.connect()
        await mia.post('42["resume",{"after":0}]')
        async with anyio.create_task_group() as tasks:
            query = f"EIO=4&transport=polling&sid={mia.sid}".encode()
            scope = {"type": "http", "method": "GET", "path": PATH, "query_string": query}
            tasks.start_soon(world.app, {**scope, "headers": []}, receive, send)
            while len(sent) < 2:
                await anyio.lowlevel.checkpoint()
            refused(await mia.get(sid=mia.sid), 400, "bad_handshake")
    start, piece = sent
    assert len(piece["body"]) < int(dict(start["headers"])[b"content-length"]) < MOST_WAITING
    assert piece["more_body"]


# What others see of it ------------------------------------------------------------------


async def test_nothing_said_is_logged(
    world: World, site: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither messages nor cookies nor nonsense, however much the log is to tell."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger(socketio_engine.log.name).setLevel(logging.ERROR)
    conversation = await converse(world)
    async with connected(site, world.customer, POLLING) as ada, bare(site, world.companion) as mia:
        await ada.say(conversation, "Between us")
        await mia.next("new_message")
        await mia.send("4nonsense")
        await mia.next("error")
    ours = [each for each in caplog.records if each.name.startswith(("staffbooking", "uvicorn"))]
    assert not [each for each in ours if each.levelno > logging.INFO]
    for record in ours:
        for secret in ("Between us", "nonsense", ada.token):
            assert secret not in record.getMessage()


def test_only_the_server_imports_it() -> None:
    """It takes its time: no other command pays for it."""
    code = (
        "import sys, staffbooking_adapters.wiring, staffbooking_http.docs.openapi\n"
        "import staffbooking_http.docs.asyncapi, staffbooking_http.routes\n"
        "import staffbooking_worker.main\n"
        "sys.exit(bool({'socketio', 'engineio'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
