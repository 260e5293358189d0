"""Many people talk over several server processes, while servers, notification connections and
clients are killed; then a judge.

Real processes, real sockets, a real database. Each client keeps a book of what it was told
and what was acknowledged; the judge compares the books with the rows in the store.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import httpx
from attrs import Factory, define, field, frozen
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.users import Actor, Session, session_digest
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.messaging import messages
from tests.channel.chat_links import Place
from tests.support.builders import add_companion, add_user
from tests.support.memory_deployment import actor_of, make_request
from tests.support.reserved_ports import number_of, reserved_port

TO_ACKNOWLEDGE = 10.0
"""Seconds after which a client believes that its connection is dead."""
TO_COME_BACK = 0.05
"""Seconds until it tries again."""

LIMITS = "general=1000000000/1h,bookings=1000000/1h,channel=1000000000/60s"


@frozen
class Plan:
    """How much, and how long one waits for it. Times in seconds."""

    servers: int
    groups: int
    """Of one customer and four staff members each, who are so many clients."""
    messages: int
    kills: int
    """Spread over the messages: each falls while its share of them is being said."""
    patience: float
    """At most until all clients are connected, until the next kill is due, and so on."""
    seed: int = 1


@define
class Client:
    """Somebody who talks, and what they know."""

    actor: Actor
    token: str = field(repr=False)
    conversations: Sequence[int]
    to_say: list[str]
    """What is not acknowledged yet, the next one first."""
    told: list[tuple[int, str]] = Factory(list)
    """Ids and contents, in the order in which they came."""
    acknowledged: dict[str, int] = Factory(dict)
    connection: ClientConnection | None = None

    @property
    def last_id(self) -> int:
        return self.told[-1][0] if self.told else 0


# The service --------------------------------------------------------------------------------


class Servers:
    """Processes that are killed, and started anew at the same port."""

    def __init__(self, environ: Mapping[str, str], ports: Sequence[int], folder: Path) -> None:
        self.ports = ports
        self._environ, self._folder = environ, folder
        self._running = [self._start(port) for port in ports]

    def kill_one(self, chance: random.Random) -> None:
        place = chance.randrange(len(self.ports))
        self._running[place].kill()
        self._running[place].wait()
        self._running[place] = self._start(self.ports[place])

    async def stop(self) -> list[int]:
        """Ask all politely, once they answer: their exit codes."""
        for process, port in zip(self._running, self.ports, strict=True):
            await _answers(process, port)
        for process in self._running:
            process.terminate()
        return [await anyio.to_thread.run_sync(process.wait, 20) for process in self._running]

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        with (self._folder / f"server-{port}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "staffbooking_cli.main", "serve", "--port", str(port)],
                env={**os.environ, **self._environ},
                stdout=log,
                stderr=log,
            )


async def _answers(process: subprocess.Popen[bytes], port: int) -> None:
    async with httpx.AsyncClient() as client:
        while process.poll() is None:
            with suppress(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}/healthz")
                return
            await anyio.sleep(0.1)
    raise AssertionError(f"the server at port {port} ended by itself: {process.returncode}")


@asynccontextmanager
async def deployment(
    database_url: str, count: int, more: Mapping[str, str]
) -> AsyncIterator[tuple[Settings, dict[str, str], list[int]]]:
    """Settings, the environment that makes them in another process, and ports to listen on,
    which nobody else gets while a server is killed."""
    with ExitStack() as stack:
        kept = [stack.enter_context(reserved_port()) for _ in range(count)]
        ports = [number_of(each) for each in kept]
        environ = {
            "STAFFBOOKING_DATABASE_URL": database_url,
            "STAFFBOOKING_BASE_URL": f"http://127.0.0.1:{ports[0]}",
            "STAFFBOOKING_LIMITS": LIMITS,
            **more,
        }
        settings = load_settings(environ)
        await upgrade_schema(settings)
        yield settings, environ, ports


# The people ---------------------------------------------------------------------------------


async def gather(ports: Ports, plan: Plan) -> list[Client]:
    """Five people a group: each staff member has a direct conversation with the customer, and
    all of them share one."""
    clients: list[Client] = []
    for number in range(plan.groups):
        customer = actor_of(await add_user(ports.store, first_name=f"Customer {number}"))
        staff = [actor_of(await add_companion(ports.store)) for _ in range(4)]
        day = (datetime.now(UTC) + timedelta(days=30)).date()
        for companion in staff:
            wanted = make_request(companion.user_id, event_date=day, event_ref=f"event {number}")
            booking = await requests.request(ports, customer, wanted)
            await actions.accept(ports, companion, booking.id)
        clients += [await _client(ports, actor) for actor in (customer, *staff)]
    for place in range(plan.messages):
        clients[place % len(clients)].to_say.append(_word(place))
    return clients


def _word(number: int) -> str:
    """A number in syllables: digits might be taken for somebody's phone number."""
    more, last = divmod(number, 4)
    return (_word(more) if more else "") + ("la", "li", "lo", "lu")[last]


async def _client(ports: Ports, actor: Actor) -> Client:
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(session_digest(token), actor.user_id, created_at=now, seen_at=now)
    await ports.store.write(lambda tx: tx.accounts.add_session(session))
    found = await messages.listing(ports, actor, 1, 100)
    return Client(actor, token, [each.conversation.id for each in found], [])


async def live(client: Client, ports: Sequence[int], chance: random.Random) -> None:
    """Talk until there is nothing more to say, and then listen until cancelled."""
    while True:
        port = chance.choice(ports)
        with suppress(OSError, WebSocketException, EOFError, TimeoutError):
            async with connect(
                f"ws://127.0.0.1:{port}/ws?after={client.last_id}",
                origin=f"http://127.0.0.1:{ports[0]}",  # type: ignore[arg-type]
                additional_headers={"Cookie": f"connect.sid={client.token}"},
                open_timeout=TO_ACKNOWLEDGE,
                close_timeout=1,
                compression=None,
            ) as connection:
                client.connection = connection
                await _talk(client, connection, chance)
        client.connection = None
        await anyio.sleep(TO_COME_BACK)


async def _talk(client: Client, connection: ClientConnection, chance: random.Random) -> None:
    """On one connection, until it breaks."""
    assert (await _next(connection))["event"] == "ready"
    while True:
        is_waiting = bool(client.to_say)
        if is_waiting:
            said = {
                "conversation_id": client.conversations[
                    len(client.to_say) % len(client.conversations)
                ],
                "content": client.to_say[0],
                "client_message_id": client.to_say[0],
            }
            await _send(connection, "send_message", said)
        while bool(client.to_say) == is_waiting:
            with anyio.fail_after(TO_ACKNOWLEDGE if is_waiting else None):
                if _note(client, await _next(connection)):
                    break


def _note(client: Client, frame: Any) -> bool:
    """Write a frame into the book; whether it is the awaited acknowledgement."""
    data = frame["data"]
    if frame["event"] == "new_message":
        client.told.append((data["id"], data["content"]))
    elif frame["event"] == "ack":
        message = data["message"]
        assert message["content"] == client.to_say.pop(0)
        client.acknowledged[message["content"]] = message["id"]
        return True
    elif frame["event"] == "error":
        # The store may be out of reach for a moment, and the same is sent again.
        assert data["code"] == "unavailable", data
        return True
    return False


async def _next(connection: ClientConnection) -> Any:
    return json.loads(await connection.recv())


async def _send(connection: ClientConnection, event: str, data: dict[str, Any]) -> None:
    await connection.send(json.dumps({"event": event, "data": data}))


# The trouble --------------------------------------------------------------------------------


async def soak(
    database_url: str,
    plan: Plan,
    folder: Path,
    place: Place | None = None,
    more: Mapping[str, str] | None = None,
) -> tuple[list[Client], list[Message]]:
    """Run the plan: the clients' books, and what is stored, when all has come.

    `place` is where the servers notify each other, if they do.
    """
    chance = random.Random(plan.seed)
    async with (
        deployment(database_url, plan.servers, more or {}) as (settings, environ, addresses),
        open_ports(settings) as ports,
    ):
        clients = await gather(ports, plan)
        servers = Servers(environ, addresses, folder)
        try:
            async with anyio.create_task_group() as talking:
                for client in clients:
                    talking.start_soon(live, client, addresses, chance)
                await _until(lambda: all(c.connection for c in clients), plan.patience)
                await _trouble(plan, servers, clients, place, chance)
                await _until(lambda: not any(c.to_say for c in clients), plan.patience)
                stored = await _all(ports)
                await _until(lambda: _have_all(clients, stored), plan.patience)
                talking.cancel_scope.cancel()
            codes = await servers.stop()
        finally:
            servers.close()
        assert codes == [0] * plan.servers, codes
        return clients, await _all(ports)


async def _trouble(
    plan: Plan,
    servers: Servers,
    clients: Sequence[Client],
    place: Place | None,
    chance: random.Random,
) -> None:
    """Kill servers, clients' connections and, where there are any, those that listen."""
    kinds = ["server", "client", "notification"] if place else ["server", "client"]
    for number in range(plan.kills):
        left = plan.messages * (1 - (number + chance.random()) / plan.kills)
        await _until(partial(_have_said_all_but, left, clients), plan.patience)
        kind = kinds[number % len(kinds)]
        if kind == "server":
            await anyio.to_thread.run_sync(servers.kill_one, chance)
        elif kind == "notification" and place:
            await place.kill(listening=True)
        elif connection := chance.choice(clients).connection:
            connection.transport.abort()


def _have_said_all_but(left: float, clients: Sequence[Client]) -> bool:
    return sum(len(client.to_say) for client in clients) <= left


async def _until(is_so: Callable[[], bool], patience: float) -> None:
    with anyio.fail_after(patience):
        while True:
            if is_so():
                return
            await anyio.sleep(0.02)


def _have_all(clients: Sequence[Client], stored: Sequence[Message]) -> bool:
    last = Counter[int]()
    for message in stored:
        for user_id in message.recipients:
            last[user_id] = message.id
    return all(client.last_id == last[client.actor.user_id] for client in clients)


async def _all(ports: Ports) -> list[Message]:
    found: list[Message] = []
    async with ports.store.reading() as view:
        while some := await view.messages.tail(found[-1].id if found else 0, 500):
            found += some
    return found


# The judge ----------------------------------------------------------------------------------


def judge(clients: Sequence[Client], stored: Sequence[Message], plan: Plan) -> None:
    """Assert everything that is promised."""
    by_content = {message.content: message for message in stored}
    assert len(by_content) == len(stored) == plan.messages, "each once in the store"
    for client in clients:
        for content, message_id in client.acknowledged.items():
            assert by_content[content].id == message_id, "acknowledged is stored"
        due = [(m.id, m.content) for m in stored if client.actor.user_id in m.recipients]
        assert client.told == due, _difference(client, due)


def _difference(client: Client, due: Sequence[tuple[int, str]]) -> str:
    """How what somebody was told differs from each once and in order."""
    told = [message_id for message_id, _ in client.told]
    twice = [message_id for message_id, times in Counter(told).items() if times > 1]
    never = sorted({message_id for message_id, _ in due} - set(told))
    back = [later for earlier, later in pairwise(told) if later < earlier]
    return f"{client.actor.user_id}: twice {twice}, never {never}, out of order {back}"
