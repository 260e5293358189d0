"""Clients of the servers, which repeat calls without a response and check every response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from attrs import define, field

from staffbooking_adapters.testing.builders import add_session
from staffbooking_core.domain.accounts.users import csrf_token
from tests.simulation.cluster import Cluster
from tests.simulation.plan import Fault
from tests.simulation.processes import Answer, ConnectionLost, Headers, Server, Socket

MAX_TRIES = 12
RETRY_SECONDS = 1.0
RETRIED_STATUSES = (429, 500, 503)
EXPECTED_CODES = ("unavailable", "processor_unavailable")
"""The codes of server errors that clients may get."""


@define(eq=False)
class Client:
    """A caller of the service, by session or by API key."""

    cluster: Cluster
    name: str
    user_id: int
    email: str = ""
    token: str = ""
    """The token of the session; empty without one."""
    api_key: str = ""
    is_leaving: bool = False
    credentials_end: float | None = None
    """The loop's time at which the revocation of the credentials was acknowledged."""
    ended_header: tuple[bytes, bytes] | None = None
    """The header with the revoked credentials. A call may have those of an earlier session."""
    _numbers: count[int] = field(factory=lambda: count(1))

    async def sign_in(self) -> None:
        """Begin a new session, unless the client is signing out. The earlier one expires later."""
        if self.is_leaving:
            return
        world = self.cluster.world
        token = f"{self.name} {next(self._numbers)}".replace(" ", "-")
        store = self.cluster.shared.store
        await add_session(store, self.user_id, token=token, seen_at=world.now())
        if not self.is_leaving:
            self.token = token

    async def sign_out(self) -> None:
        self.is_leaving = True
        header = self.headers()[0]
        answer = await self.call("POST", "/auth/logout")
        if answer is not None and answer.status < 300:
            self.note_end(header)

    def note_end(self, header: tuple[bytes, bytes]) -> None:
        """Note that the revocation of the credentials in a header was acknowledged."""
        self.credentials_end, self.ended_header = self.cluster.world.loop.time(), header

    def next_key(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        version: int | None = None,
    ) -> Answer | None:
        """Repeat a call with the same Idempotency-Key until there is a final response; None without
        one. `version` is sent as If-Match."""
        headers = [*self.headers()]
        if version is not None:
            headers.append((b"if-match", b'"%d"' % version))
        if method == "POST":
            headers.append((b"idempotency-key", (key or self.next_key()).encode()))
        for _ in range(MAX_TRIES):
            for answer in await self._send(method, path, headers, body):
                if answer.status not in RETRIED_STATUSES and not _is_in_progress(answer):
                    return answer
            await asyncio.sleep(RETRY_SECONDS)
        return None

    async def _send(
        self, method: str, path: str, headers: Headers, body: Mapping[str, Any] | None
    ) -> Sequence[Answer]:
        """The responses to a request, which may reach the same server or two servers twice."""
        world, began = self.cluster.world, self.cluster.world.loop.time()
        sent_at = world.now()
        fault, _ = world.decide(f"{self.name} {method} {path}", (Fault.REPEAT,))
        servers = [self._pick_server() for _ in range(1 if fault is None else 2)]
        sent = [server.request(method, path, headers, body) for server in servers if server]
        answers = []
        for found in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(found, ConnectionLost):
                world.record(f"{self.name} {method} {path}: {found}")
            elif isinstance(found, BaseException):
                raise found
            else:
                world.log(f"{self.name} {method} {path}: {found.status}")
                self._check_answer(method, path, headers, found, began)
                answers.append(found)
        bodies = [answer.body for answer in answers if answer.status < 300]
        lifetime = self.cluster.shared.policy.idempotency_lifetime
        is_key_kept = world.now() - sent_at < lifetime  # Else the later one is a new request.
        if method == "POST" and is_key_kept and any(each != bodies[0] for each in bodies):
            world.report_violation(f"{self.name} {method} {path}: one key has two answers")
        return answers

    def headers(self) -> Headers:
        if self.api_key:
            return [(b"authorization", f"Bearer {self.api_key}".encode())]
        return [
            (b"cookie", f"connect.sid={self.token}".encode()),
            (b"x-csrf-token", csrf_token(self.token).encode()),
        ]

    def _pick_server(self) -> Server | None:
        servers = self.cluster.servers()
        return self.cluster.world.pick(self.name, servers) if servers else None

    def _check_answer(
        self, method: str, path: str, headers: Headers, answer: Answer, began: float
    ) -> None:
        """Report unexpected server errors, and successes of revoked credentials (I8)."""
        world = self.cluster.world
        if answer.status >= 500 and answer.body["code"] not in EXPECTED_CODES:
            world.report_violation(
                f"{method} {path} was answered with {answer.status}: {answer.body}"
            )
        ended = self.credentials_end
        has_ended = ended is not None and began > ended and self.ended_header in headers
        if has_ended and answer.status < 400:
            world.report_violation(f"{self.name} acts by credentials that were revoked")


def _is_in_progress(answer: Answer) -> bool:
    body = answer.body if isinstance(answer.body, dict) else {}
    return answer.status == 409 and body.get("code") == "idempotency_in_progress"


@define(eq=False)
class ChatClient:
    """A member of a conversation with a connection to the channel, which reconnects when the
    connection ends, and requests the messages that it missed."""

    client: Client
    conversation_id: int
    opened_at: float | None = None
    """The loop's time at which the present connection was opened; None without one."""
    received: list[int] = field(factory=list)
    """The ids of the messages in the order of their arrival, over all connections."""
    contents: list[str] = field(factory=list)
    _socket: Socket | None = None
    _acks: dict[str, asyncio.Future[int | None]] = field(factory=dict)

    async def listen(self) -> None:
        """Keep a connection open, until cancelled."""
        world = self.client.cluster.world
        while True:
            if (server := self.client._pick_server()) is not None:
                after = max(self.received, default=0)
                self._socket = server.connect(self.client.headers(), f"after={after}")
                self.opened_at = world.loop.time()
                await self._read(self._socket)
                self._socket = self.opened_at = None
            await asyncio.sleep(world.pick("reconnects", (0.1, 0.5, 2.0)))

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def _read(self, socket: Socket) -> None:
        last = 0
        while (frame := await socket.frames.get()) is not None:
            data, ref = frame["data"], frame.get("ref")
            match frame["event"]:
                case "new_message":
                    self._take(data, last)
                    last = data["id"]
                case "ack" if ref in self._acks:
                    self._settle(ref, data["message"]["id"])
                case "error" if ref in self._acks:
                    self._settle(ref, None)
        for ref in list(self._acks):
            self._settle(ref, None)

    def _take(self, message: Mapping[str, Any], last: int) -> None:
        if message["id"] <= last:
            self.client.cluster.world.report_violation(
                f"{self.client.name} got message {message['id']} after {last}"
            )
        if message["id"] not in self.received:
            self.received.append(message["id"])
            self.contents.append(message["content"])

    def _settle(self, ref: str, message_id: int | None) -> None:
        if not (ack := self._acks.pop(ref)).done():
            ack.set_result(message_id)

    async def send(self, content: str) -> int | None:
        """Send a message until it is acknowledged; returns its id, or None if it never was."""
        client_id = self.client.next_key()
        for _ in range(MAX_TRIES):
            if self._socket is not None:
                ack: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
                self._acks[client_id] = ack
                data = {
                    "conversation_id": self.conversation_id,
                    "content": content,
                    "client_message_id": client_id,
                }
                self._socket.send("send_message", data, client_id)
                done, _ = await asyncio.wait([ack], timeout=5)
                if done and (number := ack.result()) is not None:
                    return number
                self._acks.pop(client_id, None)
            await asyncio.sleep(RETRY_SECONDS)
        return None
