"""docs/channel.md: its names, figures, requests, frames and code are those of the service."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.lowlevel import checkpoint
from attrs import define, field

from staffbooking_adapters.testing.builders import POLICY, add_companion, add_user
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_core.domain.messaging.conversations import MAX_MESSAGE_LENGTH, Message
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import ClientEvent, CloseCode, ServerEvent
from staffbooking_core.representations.messaging import message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from staffbooking_http.api import metrics
from staffbooking_http.channel.delivery import TAIL_POLL_INTERVAL
from staffbooking_http.channel.frames import MAX_FRAME_BYTES, MAX_FRAME_DEPTH
from staffbooking_http.channel.message_batcher import MessageBatcher
from staffbooking_http.channel.outbound import MAX_UNREAD_BYTES
from staffbooking_http.channel.socketio_client import MAX_QUEUED_BYTES
from staffbooking_http.docs import asyncapi
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from staffbooking_http.server.server import WEBSOCKET_PING_INTERVAL_SECONDS
from tests.channel.scenario_drivers import connect_directly
from tests.channel.test_socketio_node import node_folder
from tests.http.conftest import world
from tests.http.deployment import TEST_PASSWORD, HttpDeployment
from tests.support.channel_deployment import RECEIVE_TIMEOUT_SECONDS, serve_channel
from tests.support.memory_deployment import memory_ports

__all__ = ["node_folder", "world"]

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/channel.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def rows(table: str) -> list[str]:
    """The first cells of the table with this head."""
    lines = PAGE.partition(table)[2].partition("\n\n")[0].splitlines()[2:]
    return [line.split("|")[1].strip() for line in lines]


def names(table: str) -> list[str]:
    return [name for row in rows(table) for name in re.findall(r"`([^`]+)`", row)]


# Names and figures ------------------------------------------------------------------------


def test_all_names_are_explained() -> None:
    """The tables list exactly the events of both directions, the error codes and the closing
    codes."""
    assert names("| A client sends | |") == [*ClientEvent]
    assert names("| The service sends | |") == [*ServerEvent]
    assert {*names("| `code` of an error | |")} == asyncapi.FRAME_ERROR_CODES.keys()
    assert [int(code) for code in rows("| Closing code | |")] == [*CloseCode]


def test_the_figures_are_those_of_the_code() -> None:
    """The page states the limits and times of the code."""
    rule, user_rule = POLICY.limits.channel, POLICY.limits.channel_user
    window, most = rule.window.seconds, POLICY.max_connections
    statements = [
        f"a text has 1 to {MAX_MESSAGE_LENGTH:,} characters",
        f"you have {most} connections already",
        f"| connections of a user | {most}, over all processes |",
        f"pings every {WEBSOCKET_PING_INTERVAL_SECONDS:.0f} seconds",
        f"at most {MAX_FRAME_BYTES // 1024} KiB",
        f"| a frame of a client | {MAX_FRAME_BYTES // 1024} KiB |",
        f"| unread data of one client | {MAX_UNREAD_BYTES // 1024**2} MiB |",
        f"| unread data of one Socket.IO client | {MAX_QUEUED_BYTES // 1024} KiB |",
        f"nested deeper than {MAX_FRAME_DEPTH} levels",
        f"false by itself {POLICY.typing_timeout.seconds} seconds after",
        f"has {POLICY.presence_grace_period.seconds} seconds to come back",
        f"for {['no', 'one'][POLICY.resume_grace.seconds]} second after `ready`",
        f"| frames of a client | {rule.limit} in {window} seconds from the first",
        f"after the {POLICY.channel_overrun * rule.limit}th of {window} seconds",
        f"look by themselves {['', 'each second'][TAIL_POLL_INTERVAL.seconds]}",
        f"| frames of a user | {user_rule.limit} in {user_rule.window.seconds} seconds, over all",
        f"`channel={rule.limit}/{window}s,channel_user={user_rule.limit}/{window}s`",
    ]
    assert [text for text in statements if text.lower() not in PROSE.lower()] == []
    bounds = asyncapi.build_document(POLICY)["components"]["messages"]
    data = bounds["client_send_message"]["payload"]["properties"]["data"]["properties"]
    assert f"up to {data['client_message_id']['maxLength']} characters" in PROSE
    people = bounds["client_presence"]["payload"]["properties"]["data"]["properties"]["user_ids"]
    assert f"up to {people['maxItems']} people" in PROSE


def test_the_figures_for_operators_are_those_of_metrics() -> None:
    """The table of metrics lists exactly the channel metrics of `/metrics`, in order."""
    page = metrics.render_metrics(
        [], metrics.ChannelMetrics(), metrics.LoadMetrics(), None
    ).decode()
    scraped = re.findall(r"^(staffbooking_channel\w+?)(?<!_created) ", page, re.MULTILINE)
    assert names("| At `/metrics`, of each process | |") == [*dict.fromkeys(scraped)]


async def test_the_requests_are_all_there_are(world: HttpDeployment) -> None:
    """The curl examples succeed and cover exactly the message routes and the login."""
    conversation = await add_direct(world.store, companion=world.companion, customer=world.customer)
    shown = {
        "$BASE": "",
        "ada@example.com": world.customer.email,
        "correct horse": TEST_PASSWORD,
        "/12": f"/{conversation.id}",
        "/31": f"/{world.companion.id}",
    }
    asked = set()
    async with world.client() as client:
        for line in re.findall(r"^curl (.*?[^\\])$", PAGE, re.MULTILINE | re.DOTALL):
            for name, meant in shown.items():
                line = line.replace(name, meant)
            answer = await curl(client, line)
            assert answer.status_code in (200, 201), (line, answer.text)
            path = re.sub(r"\d+", "{id}", answer.request.url.path)
            asked.add((answer.request.method, path))
            shown["$CSRF"] = answer.json().get("csrf_token", shown.get("$CSRF"))
    routes = {(row.method, row.path) for row in ENDPOINTS_BY_TAG["Messages"]}
    assert asked == routes | {("POST", "/auth/login")}


async def curl(client: httpx.AsyncClient, line: str) -> httpx.Response:
    """Do the request of a curl command line; the client keeps the cookies."""
    words = iter(shlex.split(line.replace("\\\n", "")))
    url, headers, body = "", {}, None
    for word in words:
        match word:
            case "-b" | "-c":
                assert next(words) == "jar"
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case _:
                url = word
    return await client.request(
        "GET" if body is None else "POST", url, headers=headers, content=body
    )


# Frames -----------------------------------------------------------------------------------


async def test_the_frames_are_real_ones() -> None:
    """The server frames of the page equal real ones, apart from ids."""
    ports = memory_ports()
    ada, mia = await add_user(ports.store), await add_companion(ports.store, first_name="Mia")
    talk = await add_direct(ports.store, companion=mia, customer=ada)
    for content in ("Hello", "When do we meet?"):
        await messages.send_message(ports, MessageDraft(mia.id, talk.id, content))
    real = {12: talk.id, 31: mia.id, 58: ada.id, 4709: 1, 4710: 2, 4711: 3}
    async with connect_directly(ports) as connect, ports.store.read_view() as view:
        user = await view.accounts.user(mia.id)
        assert user is not None
        other, own = await connect(user, None), await connect(ada, None)
        for is_sent, lines in exchanged(real):
            for line in lines:
                if is_sent:
                    await own.send(line)
                elif line["event"] == ServerEvent.TYPING:
                    data = {"conversation_id": talk.id, "is_typing": True}
                    await other.send({"event": "typing", "data": data})
            if not is_sent:
                received = [await own.receive() for _ in lines]
                assert sorted(received, key=str) == sorted(lines, key=str)
        await own.close()
        await other.close()


def exchanged(real: dict[int, int]) -> Iterator[tuple[bool, list[dict[str, Any]]]]:
    """The frames of the page with real ids, grouped by direction; True for frames that Ada
    sends."""
    (block,) = blocks("frames")
    text = re.sub(r"(?<=: )\d+|(?<=\[)\d+", lambda id_: str(real.get(int(id_[0]), id_[0])), block)
    for arrow, lines in groupby(text.splitlines(), key=lambda line: line[0]):
        yield arrow == "→", [json.loads(line[2:]) for line in lines]


# Code -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the code of the page defines."""
    made: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/channel.md", "exec"), made)
    return made


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The contents of messages that the service refuses as `unavailable`: the first one."""
    contents: list[str] = []
    send = MessageBatcher.send

    async def refuse_first(batcher: MessageBatcher, draft: MessageDraft) -> Message:
        if not contents:
            contents.append(draft.content)
            raise StoreUnavailable
        return await send(batcher, draft)

    monkeypatch.setattr(MessageBatcher, "send", refuse_first)
    return contents


@define
class Screen:
    """The messages that a client shows."""

    texts: list[str] = field(factory=list)
    _changed: anyio.Event = field(factory=anyio.Event)

    def show(self, message: dict[str, Any]) -> None:
        self.texts.append(message["content"])
        self._changed.set()

    async def read(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            self.show(json.loads(line))

    async def shows(self, *texts: str) -> None:
        """Wait until it shows exactly these messages."""
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while self.texts != [*texts]:
                await self._changed.wait()
                self._changed = anyio.Event()


async def test_the_client_misses_nothing(page: dict[str, Any]) -> None:
    """The client shows messages missed during a disconnection once, and its own repeated message is
    stored once."""
    ports, screen = memory_ports(), Screen()
    ada, mia = await add_user(ports.store), await add_companion(ports.store)
    talk = await add_direct(ports.store, companion=mia, customer=ada)
    await messages.send_message(ports, MessageDraft(mia.id, talk.id, "old"))
    async with serve_channel(ports) as site, anyio.create_task_group() as tasks:
        address = f"http://127.0.0.1:{site.port}"
        client = page["Client"](address, await site.sign_in(ada), screen.show)
        client.headers["Origin"] = POLICY.base_url
        tasks.start_soon(client.run)
        await screen.shows("old")
        await client.say(talk.id, "mine", "a1")
        again = client.unsent["a1"]
        await screen.shows("old", "mine")
        client.unsent["a1"] = again
        client.socket.transport.abort()
        await messages.send_message(ports, MessageDraft(mia.id, talk.id, "missed"))
        await screen.shows("old", "mine", "missed")
        await client.say(talk.id, "last", "a2")
        await screen.shows("old", "mine", "missed", "last")
        await client.say(talk.id, " ", "a3")
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while client.unsent:
                await checkpoint()
        tasks.cancel_scope.cancel()
    assert await stored(ports) == screen.texts


async def test_the_client_sends_a_refused_message_again(
    page: dict[str, Any], refused: list[str]
) -> None:
    """A message that was answered `unavailable` is sent again over the same connection."""
    ports, screen = memory_ports(), Screen()
    ada = await add_user(ports.store)
    talk = await add_direct(ports.store, customer=ada)
    async with serve_channel(ports) as site, anyio.create_task_group() as tasks:
        address = f"http://127.0.0.1:{site.port}"
        client = page["Client"](address, await site.sign_in(ada), screen.show)
        client.headers["Origin"] = POLICY.base_url
        tasks.start_soon(client.run)
        await client.say(talk.id, "mine", "a1")
        await screen.shows("mine")
        tasks.cancel_scope.cancel()
    assert await stored(ports) == refused == ["mine"]


@pytest.mark.parametrize(
    "code, is_kept",
    [("unavailable", True), ("internal", True), ("rate_limited", True), ("not_found", False)],
)
async def test_the_client_repeats_what_may_be_sent_again(
    page: dict[str, Any], code: str, is_kept: bool
) -> None:
    """After an error, the client sends a message again after `retry_after`, and drops it if the
    error is permanent."""
    client = page["Client"]("http://127.0.0.1", "token", print)
    client.socket, client.unsent["a1"] = AsyncMock(), {"content": "Hello"}
    client.take({"event": "error", "data": {"code": code, "retry_after": 0}, "ref": "a1"})
    await asyncio.gather(*client.repetitions)
    assert client.socket.send.await_count == len(client.unsent) == is_kept


def test_the_client_shows_nothing_twice(page: dict[str, Any]) -> None:
    """The client shows a message once though it is received twice."""
    screen = Screen()
    client = page["Client"]("http://127.0.0.1", "token", screen.show)
    for number in (1, 2, 1, 2, 3):
        client.take({"event": "new_message", "data": {"id": number, "content": f"{number}"}})
    assert screen.texts == ["1", "2", "3"]


SCRIPT = """
import { createInterface } from "node:readline";
import { Client } from "./page.js";

const [base, cookie] = process.argv.slice(2);
const show = (message) => console.log(JSON.stringify(message));
const client = new Client(base, { extraHeaders: { cookie }, transports: ["websocket"] }, show);
for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  if (said === "break") client.socket.io.engine.close();
  else client.say(...said);
}
while (client.unsent.size > 0) await new Promise((resolve) => setTimeout(resolve, 10));
client.socket.disconnect();
"""


@pytest.fixture
def script(node_folder: Path, tmp_path: Path) -> str:
    """The path of a program with the JavaScript client of the page."""
    (tmp_path / "node_modules").symlink_to(node_folder / "node_modules")
    files = {"package.json": '{"type": "module"}', "page.js": blocks("js")[-1], "main.js": SCRIPT}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / "main.js")


async def test_the_client_in_javascript_misses_nothing(script: str) -> None:
    """The JavaScript client shows missed messages once, stores a repeated one once, and exits with
    0 once all are acknowledged."""
    ports, screen = memory_ports(), Screen()
    ada, mia = await add_user(ports.store), await add_companion(ports.store)
    talk = await add_direct(ports.store, companion=mia, customer=ada)
    await messages.send_message(ports, MessageDraft(mia.id, talk.id, "old"))
    async with serve_channel(ports) as site, anyio.create_task_group() as tasks:
        cookie = f"connect.sid={await site.sign_in(ada)}"
        command = ["node", script, f"http://127.0.0.1:{site.port}", cookie]
        async with run_program(command) as (output, input_):
            tasks.start_soon(screen.read, output)
            await screen.shows("old")
            input_.write(line([talk.id, "mine", "a1"]))
            await screen.shows("old", "mine")
            input_.write(line("break") + line([talk.id, "mine", "a1"]))
            await messages.send_message(ports, MessageDraft(mia.id, talk.id, "missed"))
            await screen.shows("old", "mine", "missed")
            input_.write(line([talk.id, "last", "a2"]))
            await screen.shows("old", "mine", "missed", "last")
            input_.close()
    assert await stored(ports) == screen.texts


async def test_the_client_in_javascript_sends_a_refused_message_again(
    script: str, refused: list[str]
) -> None:
    """The JavaScript client sends a message again that was answered `unavailable`, and exits with 0
    once it is acknowledged."""
    ports = memory_ports()
    ada = await add_user(ports.store)
    talk = await add_direct(ports.store, customer=ada)
    async with serve_channel(ports) as site:
        cookie = f"connect.sid={await site.sign_in(ada)}"
        command = ["node", script, f"http://127.0.0.1:{site.port}", cookie]
        async with run_program(command) as (_, input_):
            input_.write(line([talk.id, "mine", "a1"]))
            input_.close()
    assert await stored(ports) == refused == ["mine"]


@asynccontextmanager
async def run_program(
    command: list[str],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Run a program, which must exit with 0, with its standard output and input."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout, process.stdin
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()


def line(value: Any) -> bytes:
    return f"{json.dumps(value)}\n".encode()


async def stored(ports: Ports) -> list[str]:
    """The contents of all stored messages."""
    async with ports.store.read_view() as view:
        return [each.content for each in await view.messages.all_messages_after(0, 100)]


async def test_the_reminder_is_sent_once(page: dict[str, Any]) -> None:
    """The example `remind`, called twice, sends one message."""
    ports = memory_ports()
    ada = await add_user(ports.store)
    talk = await add_direct(ports.store, customer=ada)
    sent = [await page["remind"](ports, ada.id, talk.id) for _ in range(2)]
    assert sent[0] == sent[1]
    assert message_record(sent[0])["content"] == "See you at six"


async def test_the_channel_can_be_embedded(page: dict[str, Any]) -> None:
    """The hub of the embedded application is open exactly during its lifespan."""
    application = page["embedded"](memory_ports())
    async with application.lifespan():
        assert application.hub.is_open
    assert not application.hub.is_open
