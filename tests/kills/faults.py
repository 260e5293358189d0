"""The faults of a run. The function of a fault injects it, ends it, and returns the name of its
target."""

from __future__ import annotations

import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import anyio
from attrs import frozen

from tests.kills.databases import PostgresBehindProxy, SmallDisk, SqliteFile
from tests.kills.processes import ServiceProcesses
from tests.kills.proxy import Proxy
from tests.support.fake_time import FakeTime

MIN_FAULT_SECONDS, MAX_FAULT_SECONDS = 0.3, 3.0
"""The duration of faults that last."""
PAUSE_BEYOND_LEASE_SECONDS = 17.0
"""Longer than a worker's leases, so that other workers take them over."""
WRONG_CLOCKS = ("+9d", "-1h")
DATABASE_CRASH = "database stopped immediately"


@frozen
class FaultTargets:
    """The parts of the deployment that faults are injected into."""

    processes: ServiceProcesses
    database: SqliteFile | PostgresBehindProxy
    disk: SmallDisk
    receivers: Proxy
    fake_time: FakeTime | None
    chance: random.Random

    async def wait(self) -> None:
        """Wait for the random duration of a fault."""
        await anyio.sleep(self.chance.uniform(MIN_FAULT_SECONDS, MAX_FAULT_SECONDS))


Injection: TypeAlias = Callable[[FaultTargets], Awaitable[str]]


@frozen
class Fault:
    name: str
    inject: Injection
    weight: int
    """The relative probability with which it is drawn."""
    is_kill: bool = False
    """Whether it kills processes."""


def available_faults(targets: FaultTargets) -> list[Fault]:
    """The faults that this machine and database allow."""
    database = targets.database
    found = [*_PROCESS_FAULTS, *_proxy_faults("receivers", targets.receivers)]
    if isinstance(database, PostgresBehindProxy):
        found += [
            Fault(DATABASE_CRASH, _crash_database, 12, is_kill=True),
            _lasting("database hung", database.hung, 4),
            _lasting("database read-only", database.read_only, 3),
            *_proxy_faults("database", database.proxy),
        ]
        if targets.disk.is_mounted:
            found.append(_lasting("disk full", database.disk_full, 2))
        if targets.fake_time is not None:
            found.append(Fault("clocks wrong", _set_clocks_wrong, 3, is_kill=True))
    else:
        found.append(_lasting("database locked", database.locked, 6))
        if targets.disk.is_mounted:
            found.append(Fault("disk full", _fill_disk, 4))
            found.append(Fault("disk read-only", _make_disk_read_only, 3, is_kill=True))
    return found


def missing_tools(targets: FaultTargets) -> Iterator[tuple[str, str]]:
    """Each tool that this machine lacks, with the faults that are left out for it."""
    if not targets.disk.is_mounted:
        yield "mount", "full and read-only disks: this user may not mount a tmpfs"
    if targets.fake_time is None and isinstance(targets.database, PostgresBehindProxy):
        yield "faketime", "wrong clocks: faketime is not installed"


# Processes --------------------------------------------------------------------------------


async def _restart(targets: FaultTargets, names: list[str]) -> str:
    for name in names:
        targets.processes.kill(name)
    for name in names:
        targets.processes.start(name)
    return " ".join(names)


async def _kill_server(targets: FaultTargets) -> str:
    return await _restart(targets, [targets.chance.choice(targets.processes.servers)])


async def _kill_worker(targets: FaultTargets) -> str:
    return await _restart(targets, [targets.chance.choice(targets.processes.workers)])


async def _kill_all(targets: FaultTargets) -> str:
    return await _restart(targets, list(targets.processes.commands))


async def _kill_while_starting(targets: FaultTargets) -> str:
    """Kill a process again before it is ready, as in a crash loop."""
    name = targets.chance.choice(list(targets.processes.commands))
    await _restart(targets, [name])
    await anyio.sleep(targets.chance.uniform(0.2, 1.5))
    return await _restart(targets, [name])


async def _pause(targets: FaultTargets, names: list[str], seconds: float) -> str:
    name = targets.chance.choice(names)
    targets.processes.send_signal(name, signal.SIGSTOP)
    await anyio.sleep(seconds)
    targets.processes.send_signal(name, signal.SIGCONT)
    return name


async def _pause_server(targets: FaultTargets) -> str:
    seconds = targets.chance.uniform(MIN_FAULT_SECONDS, MAX_FAULT_SECONDS)
    return await _pause(targets, targets.processes.servers, seconds)


async def _pause_worker(targets: FaultTargets) -> str:
    return await _pause(targets, targets.processes.workers, PAUSE_BEYOND_LEASE_SECONDS)


async def _set_clocks_wrong(targets: FaultTargets) -> str:
    """Kill a server and a worker, start them with a wrong clock, and correct the clock while they
    run."""
    assert targets.fake_time is not None
    targets.fake_time.set_offset(targets.chance.choice(WRONG_CLOCKS))
    names = [targets.processes.servers[0], targets.processes.workers[0]]
    for name in names:
        targets.processes.kill(name)
        targets.processes.start(name, targets.fake_time.environ)
    await targets.wait()
    targets.fake_time.set_offset("+0")
    return " ".join(names)


_PROCESS_FAULTS = (
    Fault("server killed", _kill_server, 30, is_kill=True),
    Fault("worker killed", _kill_worker, 30, is_kill=True),
    Fault("all processes killed", _kill_all, 8, is_kill=True),
    Fault("killed while starting", _kill_while_starting, 8, is_kill=True),
    Fault("server paused", _pause_server, 3),
    Fault("worker paused", _pause_worker, 1),
)


# The database and the network -------------------------------------------------------------


async def _crash_database(targets: FaultTargets) -> str:
    assert isinstance(targets.database, PostgresBehindProxy)
    await targets.database.crash()
    await targets.database.recover()
    return "postgresql"


async def _fill_disk(targets: FaultTargets) -> str:
    with targets.disk.full():
        await targets.wait()
    return "disk"


async def _make_disk_read_only(targets: FaultTargets) -> str:
    """Kill all processes, since a disk in use stays writable, and start them on a read-only one."""
    names = list(targets.processes.commands)
    for name in names:
        targets.processes.kill(name)
    with targets.disk.read_only():
        for name in names:
            targets.processes.start(name)
        await targets.wait()
    return " ".join(names)


def _lasting(
    name: str, fault: Callable[[], AbstractAsyncContextManager[None]], weight: int
) -> Fault:
    async def inject(targets: FaultTargets) -> str:
        async with fault():
            await targets.wait()
        return name.split()[0]

    return Fault(name, inject, weight)


def _proxy_faults(name: str, proxy: Proxy) -> list[Fault]:
    async def cut(_: FaultTargets) -> str:
        proxy.cut()
        return name

    async def half_close(_: FaultTargets) -> str:
        proxy.half_close()
        return name

    async def refuse(targets: FaultTargets) -> str:
        proxy.is_refusing = True
        proxy.cut()
        await targets.wait()
        proxy.is_refusing = False
        return name

    async def stall(targets: FaultTargets) -> str:
        proxy.stall()
        await targets.wait()
        proxy.resume()
        return name

    async def delay(targets: FaultTargets) -> str:
        proxy.delay_seconds = targets.chance.uniform(0.01, 0.3)
        await targets.wait()
        proxy.delay_seconds = 0.0
        return name

    kinds = {"cut": cut, "half-closed": half_close, "refused": refuse}
    kinds |= {"stalled": stall, "delayed": delay}
    return [Fault(f"{name} {kind}", inject, 2) for kind, inject in kinds.items()]
