"""The processes of a history, which are restarted after they died, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import count

from attrs import define, evolve, field

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.sql.store import SqlStore
from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from tests.simulation.deployment import LONG_RETENTION, CheckedProcessor
from tests.simulation.faulty_ports import Bus, WorldClock, ports_of_process
from tests.simulation.processes import Server, Worker
from tests.simulation.stores import SharedStore
from tests.simulation.world import World
from tests.support.memory_deployment import memory_ports

START_SECONDS = 0.5
"""Virtual seconds until a dead process is restarted."""

_SERVER_COUNT = _WORKER_COUNT = 2


@define(eq=False)
class Cluster:
    world: World
    storage: SharedStore
    shared: Ports
    """Ports without faults, outside of the processes, as an operator's command line has them."""
    fake_store: MemoryFakeDocumentStore
    fake: FakeProcessor
    processes: list[Server | Worker] = field(factory=list)
    _bus: Bus = field(init=False)
    _starts: count[int] = field(factory=lambda: count(1))
    _machine_skew: timedelta = timedelta()
    """How far the clock of the machine is ahead on which all processes of a SQLite file run."""

    def __attrs_post_init__(self) -> None:
        self._bus = Bus(self.world, is_joined=self.storage.has_own_clock)

    def start(self) -> None:
        for number in range(_SERVER_COUNT):
            self._start(Server(self.world, f"server {number + 1}"))
        for number in range(_WORKER_COUNT):
            self._start(Worker(self.world, f"worker {number + 1}"))

    def _start(self, process: Server | Worker) -> None:
        self.processes.append(process)
        process.skew = self._machine_skew
        process.spawn(self._run(process, next(self._starts)))

    async def _run(self, process: Server | Worker, number: int) -> None:
        try:
            store = await self.storage.open()
            await process.run(ports_of_process(process, self.shared, store, self._bus, number))
            if isinstance(store, SqlStore):
                await store.close()
        except StoreUnavailable as error:
            self.world.log(f"{process.name} can't start: {error.reason}")
        finally:
            process.kill()

    async def watch(self) -> None:
        """Restart dead processes, until cancelled."""
        while True:
            await asyncio.sleep(START_SECONDS)
            for process in [each for each in self.processes if not each.is_alive]:
                await process.end()
                self.processes.remove(process)
                self.world.log(f"{process.name} starts")
                self._start(type(process)(self.world, process.name))

    def servers(self) -> Sequence[Server]:
        """The servers that take requests."""
        return [
            each
            for each in self.processes
            if isinstance(each, Server) and each.is_alive and each.is_ready
        ]

    def skew(self, process: Server | Worker, by: timedelta) -> None:
        """Set the clock of a process's machine."""
        if self.storage.has_own_clock:
            process.skew = by
            return
        self._machine_skew = by
        for each in self.processes:
            each.skew = by

    async def lose_power(self) -> None:
        self.world.log("the power fails")
        await self.storage.lose_power(self._kill_all)

    def heal(self) -> None:
        """End all faults."""
        self.world.is_calm = True
        self._machine_skew = timedelta()
        for process in self.processes:
            process.cut_off_until = 0.0
            process.skew = timedelta()

    def restart_workers(self) -> None:
        """Stop the workers, as SIGTERM does; `watch` restarts them."""
        for process in self.processes:
            if isinstance(process, Worker):
                process.stop()

    async def close(self) -> None:
        self._kill_all()
        for process in self.processes:
            await process.end()

    def _kill_all(self) -> None:
        for process in self.processes:
            process.kill()


async def make_cluster(
    world: World,
    storage: SharedStore,
    payout_faults: Mapping[int, str],
    *,
    manual_payees: bool,
    fee_ppm: int,
) -> Cluster:
    """The shared parts of a history: store, processor, receivers, mail."""
    store, fake_store = await storage.open(), MemoryFakeDocumentStore()
    clock = WorldClock(world, store)
    refs = count(1)
    fake = FakeProcessor(
        fake_store,
        clock,
        base_url=POLICY.base_url,
        secret=b"events",
        make_ref=lambda: f"page{next(refs)}",
        manual_payees=manual_payees,
        fee_ppm=fee_ppm,
    )
    shared = memory_ports(LONG_RETENTION, store=store, clock=clock)
    payments = CheckedProcessor(fake, world, payout_faults)
    shared = evolve(shared, payments=payments, sandbox=fake.sandbox)
    return Cluster(world, storage, shared, fake_store, fake)
