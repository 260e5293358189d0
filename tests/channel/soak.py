"""Many users talk over several server processes, while servers, notification connections and
clients are killed; then the delivery is checked.

Real processes, sockets and a real database. Each client records what it received and what was
acknowledged; `assert_delivered` compares the records with the rows in the store.
"""

from __future__ import annotations

import json
import os
import random
import signal
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
from staffbooking_adapters.testing.builders import add_companion, add_user
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.users import Actor, Session, hash_session_token
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.messaging import messages
from tests.channel.chat_links import ChatTransport
from tests.support.channel_deployment import plain_http_client
from tests.support.memory_deployment import actor_of
from tests.support.reserved_ports import port_number, reserve_port
from tests.support.service_processes import ServiceProcess, start_copy

ACK_TIMEOUT_SECONDS = 10.0
"""Seconds without an ack after which a client reconnects."""
RECONNECT_DELAY_SECONDS = 0.05
"""Seconds between two attempts to connect."""

READY_TIMEOUT_SECONDS = 30.0
"""Seconds within which a started server must respond."""

RATE_LIMITS = "general=1000000000/1h,bookings=1000000/1h,channel=1000000000/60s"


@frozen
class ChatSoakPlan:
    """The size of a soak run, and its timeouts in seconds."""

    servers: int
    groups: int
    """Groups of one customer and four staff members, each of whom is a client."""
    messages: int
    kills: int
    """Number of kills, spread evenly over the messages."""
    timeout_seconds: float
    """Timeout of each phase: connecting, waiting for the next kill, sending, receiving."""
    seed: int = 1


@define
class SoakClient:
    """A user who sends messages, and what they received."""

    actor: Actor
    token: str = field(repr=False)
    conversations: Sequence[int]
    unsent: list[str]
    """Contents that are not acknowledged, the next one first."""
    received: list[tuple[int, str]] = Factory(list)
    """Ids and contents, in the order of arrival."""
    acknowledged: dict[str, int] = Factory(dict)
    connection: ClientConnection | None = None

    @property
    def last_id(self) -> int:
        return self.received[-1][0] if self.received else 0


# The service --------------------------------------------------------------------------------


class ServerProcesses:
    """Server processes that are killed and restarted at the same port."""

    def __init__(self, environ: Mapping[str, str], ports: Sequence[int], folder: Path) -> None:
        self.ports = ports
        self._environ, self._folder = environ, folder
        self._running = [self._start(port) for port in ports]

    def kill_one(self, chance: random.Random) -> None:
        place = chance.randrange(len(self.ports))
        self._running[place].kill()
        self._running[place].wait(20)
        self._running[place] = self._start(self.ports[place])

    async def stop(self) -> list[int]:
        """Terminate all servers once they are ready; returns their exit codes."""
        for port in self.ports:
            await _wait_until_ready(port)
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        return [await anyio.to_thread.run_sync(process.wait, 20) for process in self._running]

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(20)

    def _start(self, port: int) -> ServiceProcess:
        log = self._folder / f"server-{port}.log"
        environ = {**os.environ, **self._environ}
        return start_copy(["serve", "--port", str(port)], environ, self._folder, log)


async def _wait_until_ready(port: int) -> None:
    with anyio.fail_after(READY_TIMEOUT_SECONDS):
        async with plain_http_client() as client:
            while True:
                with suppress(httpx.TransportError):
                    await client.get(f"http://127.0.0.1:{port}/healthz")
                    return
                await anyio.sleep(0.1)


@asynccontextmanager
async def soak_deployment(
    database_url: str, count: int, extra_environ: Mapping[str, str]
) -> AsyncIterator[tuple[Settings, dict[str, str], list[int]]]:
    """Settings, the environment variables of the same settings, and ports reserved for the
    servers."""
    with ExitStack() as stack:
        kept = [stack.enter_context(reserve_port()) for _ in range(count)]
        ports = [port_number(each) for each in kept]
        environ = {
            "STAFFBOOKING_DATABASE_URL": database_url,
            "STAFFBOOKING_BASE_URL": f"http://127.0.0.1:{ports[0]}",
            "STAFFBOOKING_LIMITS": RATE_LIMITS,
            **extra_environ,
        }
        settings = load_settings(environ)
        await upgrade_schema(settings)
        yield settings, environ, ports


# The clients --------------------------------------------------------------------------------


async def make_clients(ports: Ports, plan: ChatSoakPlan) -> list[SoakClient]:
    """Five clients per group: each staff member has a direct conversation with the customer, and
    all share one."""
    clients: list[SoakClient] = []
    for number in range(plan.groups):
        customer = actor_of(await add_user(ports.store, first_name=f"Customer {number}"))
        staff = [actor_of(await add_companion(ports.store)) for _ in range(4)]
        day = (datetime.now(UTC) + timedelta(days=30)).date()
        for companion in staff:
            wanted = make_booking_request(
                companion.user_id, event_date=day, event_ref=f"event {number}"
            )
            booking = await requests.request_booking(ports, customer, wanted)
            await actions.accept(ports, companion, booking.id)
        clients += [await _make_client(ports, actor) for actor in (customer, *staff)]
    for place in range(plan.messages):
        clients[place % len(clients)].unsent.append(_message_text(place))
    return clients


def _message_text(number: int) -> str:
    """A number in syllables, since the content filter could take digits for a phone number."""
    more, last = divmod(number, 4)
    return (_message_text(more) if more else "") + ("la", "li", "lo", "lu")[last]


async def _make_client(ports: Ports, actor: Actor) -> SoakClient:
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(hash_session_token(token), actor.user_id, created_at=now, seen_at=now)
    await ports.store.run_transaction(lambda tx: tx.accounts.add_session(session))
    found = await messages.list_conversations(ports, actor, 1, 100)
    return SoakClient(actor, token, [each.conversation.id for each in found], [])


async def run_client(client: SoakClient, ports: Sequence[int], chance: random.Random) -> None:
    """Send all messages, then receive until cancelled; reconnects after each failure."""
    while True:
        port = chance.choice(ports)
        with suppress(OSError, WebSocketException, EOFError, TimeoutError):
            async with connect(
                f"ws://127.0.0.1:{port}/ws?after={client.last_id}",
                origin=f"http://127.0.0.1:{ports[0]}",  # type: ignore[arg-type]
                additional_headers={"Cookie": f"connect.sid={client.token}"},
                open_timeout=ACK_TIMEOUT_SECONDS,
                close_timeout=1,
                compression=None,
            ) as connection:
                client.connection = connection
                await _exchange_messages(client, connection, chance)
        client.connection = None
        await anyio.sleep(RECONNECT_DELAY_SECONDS)


async def _exchange_messages(
    client: SoakClient, connection: ClientConnection, chance: random.Random
) -> None:
    """Send and receive on one connection until it breaks."""
    assert (await _receive(connection))["event"] == "ready"
    while True:
        is_waiting = bool(client.unsent)
        if is_waiting:
            message_data = {
                "conversation_id": client.conversations[
                    len(client.unsent) % len(client.conversations)
                ],
                "content": client.unsent[0],
                "client_message_id": client.unsent[0],
            }
            await _send(connection, "send_message", message_data)
        while bool(client.unsent) == is_waiting:
            with anyio.fail_after(ACK_TIMEOUT_SECONDS if is_waiting else None):
                if _record_frame(client, await _receive(connection)):
                    break


def _record_frame(client: SoakClient, frame: Any) -> bool:
    """Record a received frame; returns whether it answers the last message."""
    data = frame["data"]
    if frame["event"] == "new_message":
        client.received.append((data["id"], data["content"]))
    elif frame["event"] == "ack":
        message = data["message"]
        assert message["content"] == client.unsent.pop(0)
        client.acknowledged[message["content"]] = message["id"]
        return True
    elif frame["event"] == "error":
        # The store can be unreachable for a moment; the message is sent again.
        assert data["code"] == "unavailable", data
        return True
    return False


async def _receive(connection: ClientConnection) -> Any:
    return json.loads(await connection.recv())


async def _send(connection: ClientConnection, event: str, data: dict[str, Any]) -> None:
    await connection.send(json.dumps({"event": event, "data": data}))


# The run ------------------------------------------------------------------------------------


async def run_soak(
    database_url: str,
    plan: ChatSoakPlan,
    folder: Path,
    transport: ChatTransport | None = None,
    extra_environ: Mapping[str, str] | None = None,
) -> tuple[list[SoakClient], list[Message]]:
    """Run the plan; returns the clients and the stored messages, after all were received.

    `transport` carries the notifications between the servers, if any.
    """
    chance = random.Random(plan.seed)
    async with (
        soak_deployment(database_url, plan.servers, extra_environ or {}) as (
            settings,
            environ,
            addresses,
        ),
        open_ports(settings) as ports,
    ):
        clients = await make_clients(ports, plan)
        servers = ServerProcesses(environ, addresses, folder)
        try:
            async with anyio.create_task_group() as talking:
                for client in clients:
                    talking.start_soon(run_client, client, addresses, chance)
                await _wait_until(lambda: all(c.connection for c in clients), plan.timeout_seconds)
                await _inject_failures(plan, servers, clients, transport, chance)
                await _wait_until(lambda: not any(c.unsent for c in clients), plan.timeout_seconds)
                stored = await _all_messages(ports)
                await _wait_until(lambda: _has_received_all(clients, stored), plan.timeout_seconds)
                talking.cancel_scope.cancel()
            codes = await servers.stop()
        finally:
            servers.close()
        assert codes == [0] * plan.servers, codes
        return clients, await _all_messages(ports)


async def _inject_failures(
    plan: ChatSoakPlan,
    servers: ServerProcesses,
    clients: Sequence[SoakClient],
    transport: ChatTransport | None,
    chance: random.Random,
) -> None:
    """Kill servers, connections of clients and, with a transport, listening connections."""
    kinds = ["server", "client", "notification"] if transport else ["server", "client"]
    for number in range(plan.kills):
        left = plan.messages * (1 - (number + chance.random()) / plan.kills)
        await _wait_until(partial(_has_at_most_unsent, left, clients), plan.timeout_seconds)
        kind = kinds[number % len(kinds)]
        if kind == "server":
            await anyio.to_thread.run_sync(servers.kill_one, chance)
        elif kind == "notification" and transport:
            await transport.kill_connections(listening=True)
        elif connection := chance.choice(clients).connection:
            connection.transport.abort()


def _has_at_most_unsent(left: float, clients: Sequence[SoakClient]) -> bool:
    return sum(len(client.unsent) for client in clients) <= left


async def _wait_until(condition: Callable[[], bool], timeout_seconds: float) -> None:
    with anyio.fail_after(timeout_seconds):
        while True:
            if condition():
                return
            await anyio.sleep(0.02)


def _has_received_all(clients: Sequence[SoakClient], stored: Sequence[Message]) -> bool:
    last = Counter[int]()
    for message in stored:
        for user_id in message.recipients:
            last[user_id] = message.id
    return all(client.last_id == last[client.actor.user_id] for client in clients)


async def _all_messages(ports: Ports) -> list[Message]:
    found: list[Message] = []
    async with ports.store.read_view() as view:
        while some := await view.messages.all_messages_after(found[-1].id if found else 0, 500):
            found += some
    return found


# Checks -------------------------------------------------------------------------------------


def assert_delivered(
    clients: Sequence[SoakClient], stored: Sequence[Message], plan: ChatSoakPlan
) -> None:
    """Assert that each message was stored once, acknowledged as stored, and received once and in
    order."""
    by_content = {message.content: message for message in stored}
    assert len(by_content) == len(stored) == plan.messages, "each once in the store"
    for client in clients:
        for content, message_id in client.acknowledged.items():
            assert by_content[content].id == message_id, "acknowledged is stored"
        due = [(m.id, m.content) for m in stored if client.actor.user_id in m.recipients]
        assert client.received == due, _describe_difference(client, due)


def _describe_difference(client: SoakClient, due: Sequence[tuple[int, str]]) -> str:
    """The ids that a client received twice, never, or out of order."""
    ids = [message_id for message_id, _ in client.received]
    twice = [message_id for message_id, times in Counter(ids).items() if times > 1]
    never = sorted({message_id for message_id, _ in due} - set(ids))
    back = [later for earlier, later in pairwise(ids) if later < earlier]
    return f"{client.actor.user_id}: twice {twice}, never {never}, out of order {back}"
