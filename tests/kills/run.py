"""A run: people, load and faults until a number of kills is reached. Then the faults stop, all due
work is done, and the checker compares the book with the database.

A folder has the book, the people and the database, by which a stopped run continues.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import httpx
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from staffbooking_adapters.testing.receivers import ReceiverServer
from tests.kills.book import Book, read_book
from tests.kills.checker import QUERIES, History
from tests.kills.clients import Client, open_http_client
from tests.kills.databases import (
    SERVER_SETTINGS,
    PostgresBehindProxy,
    SmallDisk,
    SqliteFile,
    unmount,
)
from tests.kills.ending import finish_work
from tests.kills.faults import Fault, FaultTargets, available_faults, missing_tools
from tests.kills.load import BookingActor, BusinessClock, HttpWriter, SocketWriter, send_inquiries
from tests.kills.people import People, load_people, make_people
from tests.kills.processes import CONTACT_LIMIT, ServiceProcesses
from tests.kills.proxy import Proxy
from tests.kills.receiver import record_receipts
from tests.support.channel_deployment import plain_http_client
from tests.support.fake_time import make_fake_time
from tests.support.memory_files import short_temporary_folder
from tests.support.postgres import PostgresCluster, find_binaries, open_raw_connection
from tests.support.reserved_ports import port_number, reserve_port
from tests.support.service_processes import Start, start_command

MIN_WAIT_SECONDS = 0.05
RESUME_TIMEOUT_SECONDS = 120.0
"""A run fails if a server does not respond within this time after a fault."""
READ_TIMEOUT_SECONDS = 60.0
"""A run fails if a reader has not received all messages within this time after the load."""
DATABASE = "kills"
DISK = "disk"


@frozen
class Plan:
    """The parameters of a run. `schedule` has the names of the faults in order, repeated; without
    one, faults are drawn by their weights."""

    store: str
    """sqlite or postgresql."""
    kills: int
    seed: int = 1
    servers: int = 1
    workers: int = 1
    pairs: int = 4
    max_wait_seconds: float = 2.0
    """Maximum seconds from the moment that all servers respond to the next fault."""
    disk_bytes: int = 512 << 20
    schedule: tuple[str, ...] = ()
    report: Callable[[str], object] = lambda _: None
    """Receives a line about the progress."""
    start: Start = start_command
    """How the service's processes start."""
    leave_out: Callable[[str, str], object] = lambda *_: None
    """Receives a tool that the machine lacks, and the faults that are left out for it."""


@define(eq=False)
class _Run:
    plan: Plan
    targets: FaultTargets
    people: People
    book: Book
    clock: BusinessClock
    number: int
    """The number of this run of the folder, from 1."""
    kills: int
    last_shown: Mapping[int, int]
    """The last message that each reader got in earlier runs."""
    stop: anyio.Event = field(factory=anyio.Event)
    clients: list[Client] = field(factory=list)
    readers: list[SocketWriter] = field(factory=list)

    async def make_load(self, group: TaskGroup, load: TaskGroup) -> None:
        """Start the actors. Those in `load` end by themselves after `stop`."""
        processes = self.targets.processes
        for place, pair in enumerate(self.people.pairs):
            client = self.clients[place % len(self.clients)]
            key = self.people.agency_key if place % 2 else None
            chance = random.Random(f"{self.plan.seed}-{self.number}-{place}")
            name = f"{self.number}-{place}"
            actor = BookingActor(f"{name}0", pair, client, self.clock, chance, key)
            load.start_soon(actor.run, self.stop)
            talk = HttpWriter(f"{name}1", pair.staff, pair.conversation_id, client)
            load.start_soon(talk.run, self.stop)
            for person, mark in ((pair.customer, 2), (pair.staff, 3)):
                reader = SocketWriter(
                    f"{name}{mark}",
                    person,
                    pair.conversation_id,
                    client,
                    str(client.http.base_url).rstrip("/"),
                    processes.server_urls[0],
                    self.last_shown.get(person.user_id, 0),
                )
                self.readers.append(reader)
                group.start_soon(reader.run)
        load.start_soon(send_inquiries, f"{self.number}-9", self.clients[-1], self.stop)
        load.start_soon(self.clock.run, self.clients[0], self.stop)

    async def inject_faults(self) -> None:
        """Inject faults until the plan's number of kills is reached."""
        faults = available_faults(self.targets)
        rounds = 0
        while self.kills < self.plan.kills:
            wait = self.targets.chance.uniform(MIN_WAIT_SECONDS, self.plan.max_wait_seconds)
            await anyio.sleep(wait)
            await self._inject(self._next_fault(faults, rounds))
            rounds += 1
            await self.wait_until_all_answer()

    def _next_fault(self, faults: list[Fault], rounds: int) -> Fault:
        if names := self.plan.schedule:
            by_name = {fault.name: fault for fault in faults}
            known = [name for name in names if name in by_name]
            return by_name[known[rounds % len(known)]]
        return self.targets.chance.choices(faults, [fault.weight for fault in faults])[0]

    async def _inject(self, fault: Fault) -> None:
        began = time.time()
        target = await fault.inject(self.targets)
        await self.book.write(
            "fault", name=fault.name, began=began, target=target, is_kill=fault.is_kill
        )
        self.kills += fault.is_kill
        self.plan.report(
            f"{self.plan.store}: {self.kills} of {self.plan.kills} kills,"
            f" {self.book.acknowledged_count} answers, {fault.name} ({target})"
        )

    async def wait_until_all_answer(self) -> None:
        with anyio.fail_after(RESUME_TIMEOUT_SECONDS):
            async with plain_http_client(timeout=5) as client:
                for url in self.targets.processes.server_urls:
                    await _wait_until_ready(client, url)

    async def end_load(self) -> None:
        """Wait until all readers have all messages. The load must have ended."""
        for reader in self.readers:
            reader.is_reading_only = True
        with anyio.fail_after(READ_TIMEOUT_SECONDS):
            while True:
                if await self._is_all_read():
                    return
                await anyio.sleep(0.1)

    async def _is_all_read(self) -> bool:
        # Checked before the query, which does not see messages that are stored while it runs.
        if any(reader.is_sending for reader in self.readers):
            return False
        query = "SELECT conversation_id, max(id) AS last FROM messages GROUP BY conversation_id"
        last = {
            row["conversation_id"]: row["last"] for row in await self.targets.database.fetch(query)
        }
        return all(reader.last_id >= last.get(reader.conversation_id, 0) for reader in self.readers)

    async def end_processes(self) -> list[str]:
        """Send SIGTERM to all processes; returns those with an unexpected exit code."""
        codes = await anyio.to_thread.run_sync(self.targets.processes.terminate_all)
        # A process that is starting has nothing in flight, and is ended by the signal.
        ends = (0, -signal.SIGTERM)
        return [f"{name} ended with {code}" for name, code in codes.items() if code not in ends]

    async def read_history(self, book: Path) -> History:
        rows = {name: await self.targets.database.fetch(query) for name, query in QUERIES.items()}
        return History(
            entries=read_book(book),
            endpoints=self.people.endpoints,
            conversations={
                person.user_id: pair.conversation_id
                for pair in self.people.pairs
                for person in (pair.customer, pair.staff)
            },
            contact_limit=CONTACT_LIMIT,
            **rows,
        )


async def run_kills(plan: Plan, folder: Path) -> tuple[History, list[str]]:
    """Run the plan in a folder, which may have an earlier run that was stopped; returns the history
    and its faults. `discard_folder` deletes the folder."""
    async with _open_run(plan, folder) as run:
        async with anyio.create_task_group() as group:
            started = time.monotonic()
            run.targets.processes.start_all()
            await run.wait_until_all_answer()
            await run.book.write("ready", took=time.monotonic() - started)
            run.clock.started = time.time()
            async with anyio.create_task_group() as load:
                await run.make_load(group, load)
                await run.inject_faults()
                run.stop.set()
            await run.end_load()
            group.cancel_scope.cancel()
        wrong = await run.end_processes()
        read = partial(run.read_history, folder / "book.jsonl")
        history, faults = await finish_work(run.targets.database.url, read)
        return history, [*wrong, *faults]


def discard_folder(folder: Path) -> None:
    """Delete a run's folder and unmount its disk."""
    unmount(folder / DISK)
    shutil.rmtree(folder)


@asynccontextmanager
async def _open_run(plan: Plan, folder: Path) -> AsyncIterator[_Run]:
    folder.mkdir(parents=True, exist_ok=True)
    earlier = read_book(folder / "book.jsonl")
    async with AsyncExitStack() as stack:
        disk = SmallDisk(folder / DISK, plan.disk_bytes)
        database = await _open_database(plan, disk, stack)
        book = Book(folder / "book.jsonl")
        stack.push_async_callback(book.close)
        await book.write("start", seed=plan.seed)
        people, receivers = await _open_people(plan, folder, database.url, book, stack)
        ports = [port_number(stack.enter_context(reserve_port())) for _ in range(plan.servers)]
        processes = ServiceProcesses(folder, database.service_url, ports, plan.workers, plan.start)
        stack.callback(processes.close)
        number = 1 + sum(entry["kind"] == "start" for entry in earlier)
        fake_time = make_fake_time(folder, "+0") if shutil.which("faketime") else None
        chance = random.Random(f"{plan.seed}-{number}")
        targets = FaultTargets(processes, database, disk, receivers, fake_time, chance)
        for tool, reason in missing_tools(targets):
            plan.leave_out(tool, reason)
        set_to = [e["now"] for e in earlier if e["kind"] == "ack" and "now" in e]
        start = datetime.fromisoformat(set_to[-1]) if set_to else datetime.now(UTC)
        kills = sum(entry["is_kill"] for entry in earlier if entry["kind"] == "fault")
        clock = BusinessClock(start + timedelta(hours=1))
        shown = {e["reader"]: e["id"] for e in earlier if e["kind"] == "shown"}
        run = _Run(plan, targets, people, book, clock, number, kills, shown)
        for name, url in zip(processes.servers, processes.server_urls, strict=True):
            http = await stack.enter_async_context(open_http_client(url))
            run.clients.append(Client(http, name, book))
        yield run


async def _open_database(
    plan: Plan, disk: SmallDisk, stack: AsyncExitStack
) -> SqliteFile | PostgresBehindProxy:
    if plan.store == "sqlite":
        return SqliteFile(disk)
    data = disk.folder / "data"
    data.mkdir(exist_ok=True)
    sockets = short_temporary_folder("pg-")
    stack.callback(shutil.rmtree, sockets, ignore_errors=True)
    cluster = PostgresCluster(find_binaries(), data, sockets, SERVER_SETTINGS)
    proxy = await stack.enter_async_context(
        Proxy(partial(open_raw_connection, cluster.server.maintenance_url))
    )
    database = PostgresBehindProxy(disk, cluster, DATABASE, proxy)
    stack.push_async_callback(database.crash)
    await database.start()
    return database


async def _open_people(
    plan: Plan, folder: Path, database_url: str, book: Book, stack: AsyncExitStack
) -> tuple[People, Proxy]:
    """The people, and the proxy before their receiver, at the port in their endpoints' URLs."""
    path = folder / "people.json"
    known = load_people(path) if path.exists() else None
    receiver = await stack.enter_async_context(ReceiverServer(record_receipts(book)))
    proxy = Proxy(
        partial(asyncio.open_connection, "127.0.0.1", receiver.port),
        port=known.receiver_port if known else 0,
    )
    await stack.enter_async_context(proxy)
    if known is None:
        known = await make_people(database_url, proxy.port, plan.pairs)
        known.save(path)
    return known, proxy


async def _wait_until_ready(client: httpx.AsyncClient, url: str) -> None:
    while True:
        with suppress(httpx.TransportError):
            if (await client.get(f"{url}/readyz")).status_code == 200:
                return
        await anyio.sleep(0.05)
