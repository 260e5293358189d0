"""The processes of the service: servers and workers, and how clients reach a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from attrs import define, evolve, field, frozen

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_http.app import create_app
from staffbooking_worker.jobs import JOBS
from staffbooking_worker.main import run_jobs
from staffbooking_worker.webhook_dispatcher import run_dispatcher
from tests.http.deployment import BASE_URL, shared_routes
from tests.simulation.plan import Fault
from tests.simulation.world import CURRENT_PROCESS, World

HOST = BASE_URL.partition("//")[2]
ANSWER_TIMEOUT_SECONDS = 30.0

POLL_INTERVAL_FACTOR = 10
"""The factor by which idle jobs poll less often than in production: polls would be most of the
work of a quiet history."""

JOBS_WITH_LONG_POLLS = tuple(
    evolve(job, idle_seconds=POLL_INTERVAL_FACTOR * job.idle_seconds) for job in JOBS
)
Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

CALL_FAULTS = (Fault.CRASH, Fault.CRASH_AFTER, Fault.FAIL, Fault.LOSE_ANSWER, Fault.SLOW)


class ConnectionLost(Exception):
    """The server died, or the response was lost: the call may have had its effect."""


@frozen
class Answer:
    status: int
    body: Any
    """The parsed JSON, None without a body."""


class Process:
    """A process: its tasks, and its connections to the rest of the world.

    When it dies its tasks are cancelled, and nothing that they still do has an effect.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_alive = True
        self.skew = timedelta()
        """How far its clock is ahead."""
        self.cut_off_until = 0.0
        """The loop's time until which it cannot reach the store."""
        self.at_death: list[Callable[[], None]] = []
        """Callbacks that do what the operating system does when a process dies."""
        self.stopping = anyio.Event()
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def stop(self) -> None:
        """Ask it to end, as SIGTERM does."""
        self.stopping.set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process; what it starts belongs to the process too."""
        token = CURRENT_PROCESS.set(self)
        try:
            return asyncio.ensure_future(work)
        finally:
            CURRENT_PROCESS.reset(token)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        if not self.is_alive:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) and self.is_alive:
            self.world.log(f"{self.name} raised {error!r}")

    def kill(self) -> None:
        if not self.is_alive:
            return
        self.world.log(f"{self.name} dies")
        self.is_alive = False
        for end in self.at_death:
            end()
        for task in list(self._tasks):
            task.cancel()

    async def end(self) -> None:
        """Wait until all tasks of a dead process are gone."""
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.wait(list(self._tasks), timeout=5)

    async def call(
        self,
        point: str,
        effect: Callable[[], Awaitable[T]],
        fail: Callable[[], T],
        allowed: Sequence[Fault] = CALL_FAULTS,
    ) -> T:
        """Call a port: `effect` is its effect; `fail` raises the error, or returns the result, of a
        failure."""
        self.check_alive()
        fault, seconds = self.world.decide(f"{self.name} {point}", allowed)
        await asyncio.sleep(seconds)
        if fault is Fault.CRASH:
            self.kill()
        self.check_alive()
        if fault is Fault.FAIL:
            return fail()
        result = await effect()
        self.check_alive()
        if fault is None:
            return result
        self.die_if(fault is Fault.CRASH_AFTER)
        return fail() if fault is Fault.LOSE_ANSWER else result

    def die_if(self, does: bool) -> None:
        if does:
            self.kill()
        self.check_alive()

    def check_alive(self) -> None:
        """Raise CancelledError in a dead process."""
        if not self.is_alive:
            raise asyncio.CancelledError

    def check_connection(self) -> None:
        """Raise StoreUnavailable while the process is cut off from the store."""
        if self.world.loop.time() < self.cut_off_until:
            raise StoreUnavailable("simulated: cut off")


class Server(Process):
    """A server, whose application is called without a socket."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.is_ready = False

    async def run(self, ports: Ports) -> None:
        with shared_routes():
            self.app = create_app(ports)
        messages = iter([{"type": "lifespan.startup"}])

        async def receive() -> Mapping[str, Any]:
            if (message := next(messages, None)) is not None:
                return message
            await self.stopping.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Mapping[str, Any]) -> None:
            self.is_ready = message["type"] == "lifespan.startup.complete"

        try:
            await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
        finally:  # A shutdown that takes too long is cancelled.
            self.is_ready = False

    async def request(
        self,
        method: str,
        path: str,
        headers: Headers,
        body: Any = None,
        address: str = "203.0.113.9",
    ) -> Answer:
        """Send a request. Raises ConnectionLost."""
        content = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            headers = [*headers, (b"content-type", b"application/json")]
        scope = self._scope("http", path, [*headers, (b"content-length", b"%d" % len(content))])
        scope["client"] = (address, 50_000)
        answered: asyncio.Future[Answer] = self.world.loop.create_future()
        exchange = _Exchange(content, answered)
        task = self.spawn(self.app({**scope, "method": method}, exchange.receive, exchange.send))
        task.add_done_callback(exchange.end)
        try:
            answer = await asyncio.wait_for(answered, ANSWER_TIMEOUT_SECONDS)
        except TimeoutError:
            task.cancel()
            raise ConnectionLost("no answer in time") from None
        fault, seconds = self.world.decide(f"{self.name} answers", (Fault.LOSE_ANSWER,))
        await asyncio.sleep(seconds)
        if fault is not None:
            raise ConnectionLost("the answer is lost")
        return answer

    def connect(self, headers: Headers, query: str) -> Socket:
        """Open a WebSocket of the channel."""
        socket = Socket()
        scope = self._scope("websocket", "/ws", [*headers, (b"origin", BASE_URL.encode())], query)
        task = self.spawn(self.app(scope, socket.to_server.get, socket.take))
        task.add_done_callback(lambda _: socket.end())
        return socket

    def _scope(self, kind: str, path: str, headers: Headers, query: str = "") -> dict[str, Any]:
        path, _, asked = path.partition("?")
        return {
            "type": kind,
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": BASE_URL.partition(":")[0],
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": (query or asked).encode(),
            "headers": [(b"host", HOST.encode()), *headers],
            "client": ("203.0.113.9", 50_000),
            "server": (HOST, 443),
        }


@define(eq=False)
class _Exchange:
    """The messages of one HTTP request."""

    content: bytes
    answered: asyncio.Future[Answer]
    _status: int = 0
    _parts: list[bytes] = field(factory=list)
    _is_read: bool = False

    async def receive(self) -> Mapping[str, Any]:
        if self._is_read:
            await asyncio.get_running_loop().create_future()  # The client stays connected.
        self._is_read = True
        return {"type": "http.request", "body": self.content, "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        self._parts.append(message.get("body", b""))
        if not message.get("more_body") and not self.answered.done():
            body = b"".join(self._parts)
            self.answered.set_result(Answer(self._status, json.loads(body) if body else None))

    def end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            reason = "the server died"
        else:
            reason = f"the application raised {task.exception()!r}"
        if not self.answered.done():
            self.answered.set_exception(ConnectionLost(reason))


@define(eq=False)
class Socket:
    """A client's WebSocket."""

    to_server: asyncio.Queue[Mapping[str, Any]] = field(factory=asyncio.Queue)
    frames: asyncio.Queue[Mapping[str, Any] | None] = field(factory=asyncio.Queue)
    """The frames that have arrived; None at the end of the connection."""

    def __attrs_post_init__(self) -> None:
        self.to_server.put_nowait({"type": "websocket.connect"})

    async def take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "websocket.send":
            self.frames.put_nowait(json.loads(message["text"]))
        elif message["type"] == "websocket.close":
            self.end()

    def send(self, event: str, data: Mapping[str, Any], ref: str) -> None:
        text = json.dumps({"event": event, "data": data, "ref": ref})
        self.to_server.put_nowait({"type": "websocket.receive", "text": text})

    def close(self) -> None:
        self.to_server.put_nowait({"type": "websocket.disconnect", "code": 1001})

    def end(self) -> None:
        self.frames.put_nowait(None)


class Worker(Process):
    async def run(self, ports: Ports) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run_dispatcher, ports, self.stopping)
            group.start_soon(run_jobs, ports, self.stopping, JOBS_WITH_LONG_POLLS)
