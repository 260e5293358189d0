"""All that a history consists of: what the processes share, and the processes, which are started
again when they have died."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import count

from attrs import define, evolve, field

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.ports import Ports
from tests.simulation.deployment import (
    LONG_RETENTION,
    CrashingProcessor,
    CrashPlan,
)
from tests.simulation.faulty_ports import Bus, WorldClock, ports_of_process
from tests.simulation.processes import Server, Worker
from tests.simulation.world import World
from tests.support.memory_deployment import memory_ports

START_SECONDS = 0.5
"""Virtual seconds until a dead process is started again."""

_SERVER_COUNT = _WORKER_COUNT = 2


@define(eq=False)
class Cluster:
    world: World
    shared: Ports
    """Ports without faults and processes: what an operator's console would see."""
    book: MemoryFakeDocumentStore
    fake: FakeProcessor
    processes: list[Server | Worker] = field(factory=list)
    _bus: Bus = field(init=False)
    _starts: count[int] = field(factory=lambda: count(1))
    _is_open: bool = True

    def __attrs_post_init__(self) -> None:
        self._bus = Bus(self.world)

    def start(self) -> None:
        for number in range(_SERVER_COUNT):
            self._start(Server(self.world, f"server {number + 1}"))
        for number in range(_WORKER_COUNT):
            self._start(Worker(self.world, f"worker {number + 1}"))

    def _start(self, process: Server | Worker) -> None:
        self.processes.append(process)
        process.start(ports_of_process(process, self.shared, self._bus, next(self._starts)))

    async def watch(self) -> None:
        """Start dead processes again, until cancelled."""
        while True:
            await asyncio.sleep(START_SECONDS)
            for process in [each for each in self.processes if not each.is_alive]:
                await process.end()
                self.processes.remove(process)
                self.world.tell(f"{process.name} starts")
                self._start(type(process)(self.world, process.name))

    def servers(self) -> Sequence[Server]:
        """The servers that take requests."""
        return [
            each
            for each in self.processes
            if isinstance(each, Server) and each.is_alive and each.is_ready
        ]

    def heal(self) -> None:
        """End all faults."""
        self.world.is_calm = True
        for process in self.processes:
            process.cut_off_until = 0.0
            process.skew = timedelta()

    async def close(self) -> None:
        for process in self.processes:
            process.kill()
            await process.end()


def make_cluster(world: World, *, manual_payees: bool, fee_ppm: int) -> Cluster:
    """The shared parts of a history: store, processor, receivers, mail."""
    store, book = MemoryStore(LONG_RETENTION), MemoryFakeDocumentStore()
    clock = WorldClock(world, store)
    refs = count(1)
    fake = FakeProcessor(
        book,
        clock,
        base_url=POLICY.base_url,
        secret=b"events",
        make_ref=lambda: f"page{next(refs)}",
        manual_payees=manual_payees,
        fee_ppm=fee_ppm,
    )
    shared = memory_ports(LONG_RETENTION, store=store, clock=clock)
    shared = evolve(
        shared, payments=CrashingProcessor(fake, store, CrashPlan()), sandbox=fake.sandbox
    )
    return Cluster(world, shared, book, fake)
