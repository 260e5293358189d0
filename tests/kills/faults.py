"""The faults of a run. Each is injected, lasts, and is over when its function returns the name of
what it hit."""

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

SHORTEST_SECONDS, LONGEST_SECONDS = 0.3, 3.0
"""How long a fault other than a kill lasts."""
PAUSE_BEYOND_LEASE_SECONDS = 17.0
"""Longer than a worker's leases, which others take over meanwhile."""
WRONG_CLOCKS = ("+9d", "-1h")
DATABASE_CRASH = "database stopped immediately"


@frozen
class Scene:
    """What faults are done to."""

    processes: ServiceProcesses
    database: SqliteFile | PostgresBehindProxy
    disk: SmallDisk
    receivers: Proxy
    fake_time: FakeTime | None
    chance: random.Random

    async def last(self) -> None:
        await anyio.sleep(self.chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS))


Injection: TypeAlias = Callable[[Scene], Awaitable[str]]


@frozen
class Fault:
    name: str
    inject: Injection
    weight: int
    """How often it is chosen among the others."""
    is_kill: bool = False
    """Whether it ends processes without a warning."""


def available_faults(scene: Scene) -> list[Fault]:
    """The faults that this machine and database allow."""
    database = scene.database
    found = [*_PROCESS_FAULTS, *_proxy_faults("receivers", scene.receivers)]
    if isinstance(database, PostgresBehindProxy):
        found += [
            Fault(DATABASE_CRASH, _crash_database, 12, is_kill=True),
            _lasting("database hung", database.hung, 4),
            _lasting("database read-only", database.read_only, 3),
            *_proxy_faults("database", database.proxy),
        ]
        if scene.disk.is_mounted:
            found.append(_lasting("disk full", database.disk_full, 2))
        if scene.fake_time is not None:
            found.append(Fault("clocks wrong", _set_clocks_wrong, 3, is_kill=True))
    else:
        found.append(_lasting("database locked", database.locked, 6))
        if scene.disk.is_mounted:
            found.append(Fault("disk full", _fill_disk, 4))
            found.append(Fault("disk read-only", _make_disk_read_only, 3, is_kill=True))
    return found


def missing_tools(scene: Scene) -> Iterator[tuple[str, str]]:
    """What this machine lacks, and which faults are left out for it."""
    if not scene.disk.is_mounted:
        yield "mount", "full and read-only disks: this user may not mount a tmpfs"
    if scene.fake_time is None and isinstance(scene.database, PostgresBehindProxy):
        yield "faketime", "wrong clocks: faketime is not installed"


# Processes --------------------------------------------------------------------------------


async def _restart(scene: Scene, names: list[str]) -> str:
    for name in names:
        scene.processes.kill(name)
    for name in names:
        scene.processes.start(name)
    return " ".join(names)


async def _kill_server(scene: Scene) -> str:
    return await _restart(scene, [scene.chance.choice(scene.processes.servers)])


async def _kill_worker(scene: Scene) -> str:
    return await _restart(scene, [scene.chance.choice(scene.processes.workers)])


async def _kill_all(scene: Scene) -> str:
    return await _restart(scene, list(scene.processes.commands))


async def _kill_while_starting(scene: Scene) -> str:
    """Kill a process again before it works, as a supervisor in a loop of crashes would see it."""
    name = scene.chance.choice(list(scene.processes.commands))
    await _restart(scene, [name])
    await anyio.sleep(scene.chance.uniform(0.2, 1.5))
    return await _restart(scene, [name])


async def _pause(scene: Scene, names: list[str], seconds: float) -> str:
    name = scene.chance.choice(names)
    scene.processes.send_signal(name, signal.SIGSTOP)
    await anyio.sleep(seconds)
    scene.processes.send_signal(name, signal.SIGCONT)
    return name


async def _pause_server(scene: Scene) -> str:
    seconds = scene.chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
    return await _pause(scene, scene.processes.servers, seconds)


async def _pause_worker(scene: Scene) -> str:
    return await _pause(scene, scene.processes.workers, PAUSE_BEYOND_LEASE_SECONDS)


async def _set_clocks_wrong(scene: Scene) -> str:
    """Kill a server and a worker, start them with a wrong clock, and set that right after a
    while: they go on with it."""
    assert scene.fake_time is not None
    scene.fake_time.set_offset(scene.chance.choice(WRONG_CLOCKS))
    names = [scene.processes.servers[0], scene.processes.workers[0]]
    for name in names:
        scene.processes.kill(name)
        scene.processes.start(name, scene.fake_time.environ)
    await scene.last()
    scene.fake_time.set_offset("+0")
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


async def _crash_database(scene: Scene) -> str:
    assert isinstance(scene.database, PostgresBehindProxy)
    await scene.database.crash()
    await scene.database.recover()
    return "postgresql"


async def _fill_disk(scene: Scene) -> str:
    with scene.disk.full():
        await scene.last()
    return "disk"


async def _make_disk_read_only(scene: Scene) -> str:
    """Kill all processes, since a disk in use stays writable, and let them start without it."""
    names = list(scene.processes.commands)
    for name in names:
        scene.processes.kill(name)
    with scene.disk.read_only():
        for name in names:
            scene.processes.start(name)
        await scene.last()
    return " ".join(names)


def _lasting(
    name: str, fault: Callable[[], AbstractAsyncContextManager[None]], weight: int
) -> Fault:
    async def inject(scene: Scene) -> str:
        async with fault():
            await scene.last()
        return name.split()[0]

    return Fault(name, inject, weight)


def _proxy_faults(name: str, proxy: Proxy) -> list[Fault]:
    async def cut(_: Scene) -> str:
        proxy.cut()
        return name

    async def half_close(_: Scene) -> str:
        proxy.half_close()
        return name

    async def refuse(scene: Scene) -> str:
        proxy.is_refusing = True
        proxy.cut()
        await scene.last()
        proxy.is_refusing = False
        return name

    async def stall(scene: Scene) -> str:
        proxy.stall()
        await scene.last()
        proxy.resume()
        return name

    async def delay(scene: Scene) -> str:
        proxy.delay_seconds = scene.chance.uniform(0.01, 0.3)
        await scene.last()
        proxy.delay_seconds = 0.0
        return name

    kinds = {"cut": cut, "half-closed": half_close, "refused": refuse}
    kinds |= {"stalled": stall, "delayed": delay}
    return [Fault(f"{name} {kind}", inject, 2) for kind, inject in kinds.items()]
