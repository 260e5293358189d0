"""`python -m benchmarks`: the service beside the yardstick, on a PostgreSQL of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import asdict

from benchmarks import answers, pgbench, report, seed, trips, yardstick
from benchmarks.load import Request, write_requests
from benchmarks.measure import Cluster, Sample, Target, run_round, running_cluster, running_target
from benchmarks.report import Measured
from benchmarks.traffic import MIX, make_requests
from benchmarks.world import World, make_world

CONNECTIONS = 32
WARM_UP = 0.5
"""Of a round's seconds, before each operation: plans, caches, connections."""
TRANSACTIONS = 60
"""Different ones of an operation that pgbench runs."""


def main() -> int:
    options = _options()
    with running_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        return _run(options, cluster, Path(folder))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--companions", type=int, default=100_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3, help="of each operation and target")
    parser.add_argument("--quick", action="store_true", help="5,000 companions, rounds of 1 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    if options.quick:
        options.companions, options.seconds, options.rounds = 5_000, 1.0, 1
    return options


def _run(options: argparse.Namespace, cluster: Cluster, folder: Path) -> int:
    _say(f"seeding {options.companions:,} companions")
    world = make_world(options.companions, datetime.now(UTC))
    url = asyncio.run(seed.fill(cluster, world))
    requests = make_requests(world)
    environ = _environ(url)
    with (
        running_target("service", SERVICE, environ, folder / "service.log") as service,
        running_target("yardstick", YARDSTICK, environ, folder / "yardstick.log") as line,
    ):
        differences = answers.compare(service.port, line.port, requests)
        if differences:
            _say("\n".join(["the yardstick answers otherwise than the service:", *differences]))
            return 1
        samples, odd = _rounds(options, cluster, [service, line], requests, folder)
    if odd:
        _say("\n".join(["not as expected, so no figures:", *odd]))
        return 1
    ...
    return 0
