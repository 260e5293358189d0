"""The channel on plain uvicorn, without the extensions of the own server."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
import uvicorn

from staffbooking_adapters.testing.builders_messages import add_messages_by
from staffbooking_core.representations.channel import ClientEvent, CloseCode, Frame, ServerEvent
from staffbooking_http.app import StaffbookingApp, create_app
from staffbooking_http.channel import outbound
from staffbooking_http.channel.frames import EncodedFrame
from staffbooking_http.channel.outbound import MAX_UNREAD_BYTES, QueuedOutbound
from tests.channel.raw_clients import connect_idle_client, wait_until_offline
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import ChannelServer, add_shared_conversation, relax_limits

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 20,000 bytes."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_on_uvicorn(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    """Serve the application with plain uvicorn."""
    application = create_app(world.ports)
    config = uvicorn.Config(application, lifespan="off", log_config=None, log_level="warning")
    server, stop = _Server(config), anyio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            tasks.start_soon(_run_lifespan, application, stop, server)
            yield ChannelServer(world.ports, listening.getsockname()[1], stop)
            stop.set()


async def _run_lifespan(
    application: StaffbookingApp, stop: anyio.Event, server: uvicorn.Server
) -> None:
    """Run the lifespan until `stop` is set, then stop the server."""
    async with application.lifespan():
        await stop.wait()
    server.should_exit = True


async def test_events_go_both_ways(world: HttpDeployment) -> None:
    """Messages, `resume` and `bad_frame` errors work."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with (
        serve_on_uvicorn(world) as site,
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        sent = [await ada.send_message(conversation, f"Word {number}") for number in range(3)]
        assert [await mia.next_data("new_message") for _ in range(3)] == sent
        await mia.send(ClientEvent.RESUME, {"after": 0})
        assert [await mia.next_data("new_message") for _ in range(3)] == sent
        for nonsense in (b"\x00", "garbage"):
            await ada.socket.send(nonsense)
            assert (await ada.next_data("error"))["code"] == "bad_frame"


async def test_handshakes_are_refused_with_json(world: HttpDeployment) -> None:
    """Refused handshakes are 401, 403, 404 and 429 with their codes in JSON."""
    relax_limits(world, max_connections=1)
    async with serve_on_uvicorn(world) as site:
        token = await site.sign_in(world.customer)
        cookie = f"connect.sid={token}"
        refusals = [
            await site.rejected_handshake(None),
            await site.rejected_handshake(cookie, origin=None),
        ]
        refusals += [await site.rejected_handshake(cookie, path="/nope")]
        async with site.connect_client(world.customer, token):
            refusals += [await site.rejected_handshake(cookie)]
        assert [answer.status_code for answer, _ in refusals] == [401, 403, 404, 429]
        assert [body["code"] for _, body in refusals] == [
            "unauthenticated",
            "foreign_origin",
            "not_found",
            "rate_limited",
        ]


async def test_larger_frames_close_with_1009(world: HttpDeployment) -> None:
    """Frames over 65,536 bytes close with 1009, counted in UTF-8 bytes."""
    relax_limits(world)
    async with serve_on_uvicorn(world) as site:
        for sent in ("x" * 65_537, b"x" * 65_537, "\u20ac" * 21_846):
            async with site.connect_client(world.customer) as ada:
                await ada.socket.send(sent)
                assert await ada.wait_closed() == 1009
        async with site.connect_client(world.customer) as ada:
            await ada.socket.send("\u20ac" * 21_845)
            assert (await ada.next_data("error"))["code"] == "bad_frame"


async def test_the_end_of_a_session_closes_with_1008(world: HttpDeployment) -> None:
    """Signing out closes the connection with 1008."""
    relax_limits(world)
    async with serve_on_uvicorn(world) as site:
        browser = await world.signed_in_client(world.customer.id)
        token = browser.headers["cookie"].removeprefix("connect.sid=")
        async with site.connect_client(world.customer, token) as ada:
            await browser.post("/auth/logout")
            assert await ada.wait_closed() == 1008


async def test_a_restart_closes_with_1012(world: HttpDeployment) -> None:
    """A stopping application closes the connection with 1012."""
    async with serve_on_uvicorn(world) as site, site.connect_client(world.customer) as ada:
        site.stop.set()
        assert await ada.wait_closed() == 1012


async def test_a_client_that_stops_reading_is_removed(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops reading goes offline, and its user can connect again."""
    monkeypatch.setattr(outbound, "CLOSE_TIMEOUT_SECONDS", 0.05)
    relax_limits(world, max_connections=1)
    conversation = await add_shared_conversation(world)
    async with serve_on_uvicorn(world) as site, site.connect_client(world.customer) as ada:
        async with connect_idle_client(site, world.companion):
            gone = anyio.Event()
            async with anyio.create_task_group() as tasks:

                async def watch() -> None:
                    await wait_until_offline(world, world.companion)
                    gone.set()

                tasks.start_soon(watch)
                while not gone.is_set():
                    await ada.send_message(conversation, LONG)
        async with site.connect_client(world.companion) as back:
            await back.send_message(conversation, "Again")


async def test_a_long_resume(world: HttpDeployment) -> None:
    """`resume` delivers 150 long messages in order."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 150)
    async with serve_on_uvicorn(world) as site, site.connect_client(world.companion) as mia:
        await mia.send(ClientEvent.RESUME, {"after": 0})
        received = [await mia.next_data("new_message") for _ in range(150)]
        assert [each["id"] for each in received] == list(range(1, 151))


async def test_a_refusal_without_the_response_extension(world: HttpDeployment) -> None:
    """Without the extension for HTTP responses a refused handshake is closed."""
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        messages.append(message)

    for path in ("/ws", "/nope"):
        scope: dict[str, Any] = {"type": "websocket", "path": path, "headers": []}
        await create_app(world.ports)(scope, receive, send)
    assert messages == [{"type": "websocket.close"}] * 2


# The queue ------------------------------------------------------------------------------


def frame(size: int) -> EncodedFrame:
    """A frame of slightly more than `size` bytes."""
    return EncodedFrame(Frame(ServerEvent.ERROR, {"error": "x" * size}))


class Wire:
    """A server's `send` that waits for `may_go_on`."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.may_go_on = anyio.Event()

    async def __call__(self, message: Any) -> None:
        await self.may_go_on.wait()
        self.sent.append(message)


async def test_a_queue_is_bounded_in_bytes() -> None:
    """Frames within `MAX_UNREAD_BYTES` are sent in order before the close, and others are
    refused."""
    wire = Wire()
    queue = QueuedOutbound(wire)
    fitting = 0
    while queue.send(frame(100_000)):
        fitting += 1
    assert fitting == MAX_UNREAD_BYTES // 100_000
    assert queue.send(frame(1))
    queue.close(CloseCode.SLOW, "enough")
    assert queue.send(frame(100_000))
    wire.may_go_on.set()
    await queue.run()
    assert [message["type"] for message in wire.sent] == [
        *["websocket.send"] * (fitting + 1),
        "websocket.close",
    ]
    assert wire.sent[-1]["code"] == 1013


async def test_a_stuck_queue_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed queue ends after the closing timeout when its frames are not read."""
    monkeypatch.setattr(outbound, "CLOSE_TIMEOUT_SECONDS", 0.01)
    queue = QueuedOutbound(Wire())
    queue.send(frame(1))
    queue.close(CloseCode.SLOW, "enough")
    with anyio.fail_after(5):
        await queue.run()


async def test_a_queue_has_drained_once_little_is_left() -> None:
    """Waiting for a drained queue ends when its frames are sent or the queue is closed."""
    for is_read in (True, False):
        wire = Wire()
        queue = QueuedOutbound(wire)
        for _ in range(3):
            queue.send(frame(50_000))
        drained = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def wait(queue: QueuedOutbound = queue, drained: anyio.Event = drained) -> None:
                await queue.wait_until_drained()
                drained.set()

            tasks.start_soon(queue.run)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not drained.is_set()
            if is_read:
                wire.may_go_on.set()
            else:
                queue.close(CloseCode.SLOW, "enough")
            await drained.wait()
            tasks.cancel_scope.cancel()


async def test_a_queue_ends_with_its_client() -> None:
    """An OSError while sending closes the queue."""

    async def send(_: Any) -> None:
        raise OSError("gone")

    queue = QueuedOutbound(send)
    queue.send(frame(1))
    await queue.run()
    assert not queue.is_open
