"""The channel with the published Socket.IO client of npm, run in Node."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from attrs import define, field

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from tests.channel.socketio_clients import SOCKETIO_PATH, TRANSPORTS
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)
from tests.support.npm_packages import install_npm_packages
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.anyio

SOURCES = Path(__file__).parent / "node"
CLIENT = "client.mjs"

transports = pytest.mark.parametrize("transports", TRANSPORTS.values(), ids=TRANSPORTS)


@pytest.fixture(scope="session")
def node_folder(request: pytest.FixtureRequest) -> Path:
    """The folder in which the client is installed."""
    if shutil.which("node") is None:
        skip_or_fail("node", "Node", "there is no node")
    return install_npm_packages(request.config, SOURCES, "Node", CLIENT)


@define
class NodeClient:
    """A Socket.IO client in a Node process."""

    process: Process
    _lines: AsyncIterator[str]
    seen: list[dict[str, Any]] = field(factory=list)

    async def do(self, command: str, event: str = "", *data: Any) -> None:
        assert self.process.stdin is not None
        line = json.dumps({"do": command, "event": event, "data": data})
        await self.process.stdin.send(f"{line}\n".encode())

    async def ask(self, event: str, data: dict[str, Any]) -> Any:
        """Send an event and return the argument of its callback, or None without one."""
        await self.do("ask", event, data)
        answer = (await self.next_report("answer"))["answer"]
        return answer[0] if answer else None

    async def next(self, event: str) -> dict[str, Any]:
        """The data of the next event of a name; other lines before it are skipped."""
        while (report := await self._line()).get("event") != event:
            pass
        [data] = report["data"]
        assert isinstance(data, dict)
        return data

    async def next_report(self, kind: str) -> dict[str, Any]:
        """The next report of the client about its own state; other lines before it are skipped."""
        while (report := await self._line()).get("is") != kind:
            pass
        return report

    async def _line(self) -> dict[str, Any]:
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            report: dict[str, Any] = json.loads(await anext(self._lines))
        self.seen.append(report)
        return report


async def _split(stream: TextReceiveStream) -> AsyncIterator[str]:
    rest = ""
    async for part in stream:
        *lines, rest = (rest + part).split("\n")
        for line in lines:
            yield line


@asynccontextmanager
async def start_client(
    folder: Path, site: ChannelServer, token: str, transports: list[str]
) -> AsyncIterator[NodeClient]:
    """Start a client with the cookie of a session."""
    url = f"http://127.0.0.1:{site.port}"
    command = ["node", str(folder / CLIENT), url, f"connect.sid={token}", *transports]
    async with await anyio.open_process(command, cwd=folder, stderr=None) as process:
        assert process.stdout is not None
        try:
            yield NodeClient(process, _split(TextReceiveStream(process.stdout)))
        finally:
            process.kill()


@asynccontextmanager
async def connect_node_client(
    folder: Path, site: ChannelServer, user: User | Companion, transports: list[str]
) -> AsyncIterator[NodeClient]:
    """Start a client of a newly signed-in user and wait for `ready`."""
    async with start_client(folder, site, await site.sign_in(user), transports) as client:
        await client.next_report("connected")
        assert (await client.next("ready"))["user_id"] == user.id
        yield client


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made


@transports
async def test_events_in_both_directions(
    world: HttpDeployment, site: ChannelServer, node_folder: Path, transports: list[str]
) -> None:
    """All events work in both directions over each transport, with answers by callback and by
    event."""
    conversation = await add_shared_conversation(world)
    mine, user_data = {"conversation_id": conversation.id}, {"user_id": world.customer.id}
    async with (
        site.connect_client(world.companion) as mia,
        connect_node_client(node_folder, site, world.customer, transports) as ada,
    ):
        assert (await mia.next_data("presence")) == {**user_data, "online": True, "last_seen": None}
        message = (await ada.ask("send_message", {**mine, "content": "Grüße \U0001f600"}))[
            "message"
        ]
        assert await mia.next_data("new_message") == message
        assert message["content"] == "Grüße \U0001f600"
        answer = await mia.send_message(conversation, "Hello")
        assert await ada.next("new_message") in (message, answer)
        assert await ada.ask("typing", {**mine, "is_typing": True}) is None
        assert (await mia.next_data("typing"))["sender_name"] == world.customer.name
        assert await ada.ask("read", {**mine, "message_id": answer["id"]}) is None
        assert await mia.next_data("read") == {**mine, **user_data, "message_id": answer["id"]}
        await ada.do("ask", "presence", {"user_ids": [world.companion.id]})
        assert (await ada.next("presence"))["online"]
        await ada.do("ask", "resume", {"after": 0})
        assert [await ada.next("new_message") for _ in range(2)] == [message, answer]
        for event, data, code in (
            ("send_message", {**mine, "content": ""}, "invalid_field"),
            ("send_message", {"conversation_id": 999, "content": "Hello"}, "not_found"),
            ("nothing", {}, "unknown_event"),
        ):
            assert (await ada.ask(event, data))["code"] == code
        errors = [each["data"][0]["code"] for each in ada.seen if each.get("event") == "error"]
        assert errors == ["invalid_field", "not_found", "unknown_event"]
        await ada.do("attach", "send_message")
        assert (await ada.next("error"))["code"] == "bad_frame"
        await ada.do("transport")
        assert (await ada.next_report("transport"))["name"] == transports[-1]


@transports
async def test_the_client_reconnects(
    world: HttpDeployment, site: ChannelServer, node_folder: Path, transports: list[str]
) -> None:
    """The client reconnects after its connection breaks, and gets all missed messages by
    `resume`."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.companion) as mia,
        connect_node_client(node_folder, site, world.customer, transports) as ada,
    ):
        first = await mia.send_message(conversation, "Hello")
        assert await ada.next("new_message") == first
        await ada.do("drop")
        missed = [await mia.send_message(conversation, f"Word {number}") for number in range(3)]
        await ada.next_report("connected")
        await ada.do("send", "resume", {"after": first["id"]})
        last = await mia.send_message(conversation, "Bye")
        received = [await ada.next("new_message")]
        while received[-1] != last:
            received.append(await ada.next("new_message"))
        assert [each for each in received if each["id"] > first["id"]][-4:] == [*missed, last]


@transports
async def test_signing_out_disconnects(
    world: HttpDeployment, site: ChannelServer, node_folder: Path, transports: list[str]
) -> None:
    """Signing out disconnects the client, which does not reconnect."""
    browser = await world.signed_in_client(world.customer.id)
    token = browser.headers["cookie"].removeprefix("connect.sid=")
    async with start_client(node_folder, site, token, transports) as ada:
        await ada.next("ready")
        await browser.post("/auth/logout")
        end = await ada.next_report("disconnected")
        assert (end["reason"], end["again"]) == ("io server disconnect", False)


@transports
async def test_the_client_reconnects_after_a_restart(
    world: HttpDeployment, site: ChannelServer, node_folder: Path, transports: list[str]
) -> None:
    """A restart closes the transport, and the client tries to reconnect."""
    async with connect_node_client(node_folder, site, world.customer, transports) as ada:
        site.stop.set()
        end = await ada.next_report("disconnected")
        assert end["again"]
        assert end["reason"] in ("transport close", "transport error")
        await ada.next_report("refused")


async def test_a_client_without_a_session_is_refused(
    world: HttpDeployment, site: ChannelServer, node_folder: Path
) -> None:
    """A client without a session is refused, with status 401 except over a WebSocket."""
    for carriers in TRANSPORTS.values():
        async with start_client(node_folder, site, "guess", carriers) as eve:
            refusal = await eve.next_report("refused")
            assert refusal["status"] == 401 or carriers == ["websocket"]


def test_the_lock_is_exact() -> None:
    """The lock file has SHA-512 hashes and no registry addresses, and agrees with the manifest."""
    lock = json.loads((SOURCES / "package-lock.json").read_bytes())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages.keys() >= {"node_modules/socket.io-client"}
    for each in packages.values():
        assert each["integrity"].startswith("sha512-")
        assert "resolved" not in each
    manifest = json.loads((SOURCES / "package.json").read_bytes())
    assert manifest["dependencies"] == lock["packages"][""]["dependencies"]
    assert SOCKETIO_PATH == "/socket.io/"
