"""`python -m benchmarks`: the service beside the yardstick, on a PostgreSQL of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import asdict

from benchmarks import pgbench, pgbench_scripts, report, response_comparison, round_trips, seed
from benchmarks.dataset import World, make_world
from benchmarks.load_generator import Request, write_requests
from benchmarks.load_requests import make_requests
from benchmarks.measure import Cluster, Sample, Target, run_round, running_cluster, running_target
from benchmarks.pgbench import Floor
from benchmarks.report import Measured
from tests.support.postgres import database_name

CONNECTIONS = 32
SERVICE = ("-m", "staffbooking_cli.main", "serve", "--host", "127.0.0.1", "--port")
YARDSTICK = ("-m", "benchmarks.yardstick")


def main() -> int:
    options = _options()
    with running_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        return _run(options, cluster, Path(folder))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--companions", type=int, default=100_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3, help="of each operation and target")
    parser.add_argument("--quick", action="store_true", help="5,000 companions, one round of 1 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    if options.quick:
        options.companions, options.seconds, options.rounds = 5_000, 1.0, 1
    return options


def _run(options: argparse.Namespace, cluster: Cluster, folder: Path) -> int:
    _say(f"seeding {options.companions:,} companions")
    world = make_world(options.companions, datetime.now(UTC))
    url = asyncio.run(seed.fill(cluster.server, world))
    requests, environ = make_requests(world), _environ(url)
    with (
        running_target("service", SERVICE, environ, folder / "service.log") as service,
        running_target("yardstick", YARDSTICK, environ, folder / "yardstick.log") as line,
    ):
        _say("comparing answers")
        odd = response_comparison.compare(service.port, line.port, requests)
        if not odd:
            samples, odd = _rounds(options, cluster, [service, line], requests, folder)
    if odd:
        _say("\n".join(["no figures, for these were not as expected:", *odd]))
        return 1
    _say("counting round trips")
    measured = asyncio.run(_with_trips(samples, environ, requests))
    known = _floors(options, cluster, world, url, folder)
    _print(options, measured, known)
    if options.json:
        options.json.write_text(_as_json(options, measured, known))
    return 0


def _environ(url: str) -> dict[str, str]:
    """As in a deployment, but for limits that the load would exceed."""
    return {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SANDBOX": "0",
        "STAFFBOOKING_LIMITS": "general=1000000000/1h,bookings=1000000000/1h",
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
    }


def _rounds(
    options: argparse.Namespace,
    cluster: Cluster,
    targets: Sequence[Target],
    requests: Mapping[str, Sequence[Request]],
    folder: Path,
) -> tuple[dict[tuple[str, str], Sample], list[str]]:
    """The median sample of each operation and target, and every odd answer."""
    found: dict[tuple[str, str], Sample] = {}
    odd: list[str] = []
    for name, variants in requests.items():
        file = write_requests(variants, folder / f"{name}.json")
        taken: dict[str, list[Sample]] = defaultdict(list)
        for number in range(-1, options.rounds):  # the first warms plans and caches up
            for target in targets:
                seconds = options.seconds if number >= 0 else min(1.0, options.seconds / 2)
                one = run_round(target, cluster, file, seconds, CONNECTIONS)
                odd += [f"{name}, {target.name}: {n} x {what}" for what, n in one.odd.items()]
                if number >= 0:
                    taken[target.name].append(one.sample)
        for target in targets:
            found[name, target.name] = Sample.middle(taken[target.name])
        _say(f"{name}: {found[name, 'service'].rate:,.0f}/s")
    return found, odd


async def _with_trips(
    samples: Mapping[tuple[str, str], Sample],
    environ: Mapping[str, str],
    requests: Mapping[str, Sequence[Request]],
) -> list[Measured]:
    service = await round_trips.of_service(environ, requests, CONNECTIONS)
    yardstick = await round_trips.of_yardstick(environ, requests, CONNECTIONS)
    return [
        Measured(
            name,
            samples[name, "service"],
            samples[name, "yardstick"],
            service[name],
            yardstick[name],
        )
        for name in requests
    ]


def _floors(
    options: argparse.Namespace, cluster: Cluster, world: World, url: str, folder: Path
) -> dict[str, Floor]:
    if pgbench.program(cluster) is None:
        _say("no pgbench beside PostgreSQL's binaries: the yardstick has no floor to stand on")
        return {}
    _say("running pgbench")
    transactions = asyncio.run(pgbench_scripts.transactions(url, world))
    return {
        name: pgbench.run(cluster, database_name(url), variants, options.seconds, folder)
        for name, variants in transactions.items()
    }


def _print(
    options: argparse.Namespace, measured: Sequence[Measured], known: Mapping[str, Floor]
) -> None:
    others = max(one.worst_company for one in measured)
    parts = [
        f"{options.companions:,} companions, {CONNECTIONS} connections, median of "
        f"{options.rounds} rounds of {options.seconds:g} s, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}; others took at most {others:.0%} of the machine.",
        report.comparison(measured),
        report.floors(measured, known) if known else "",
        report.verdict(next(one for one in measured if one.operation == "mix")),
    ]
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")


def _as_json(
    options: argparse.Namespace, measured: Sequence[Measured], known: Mapping[str, Floor]
) -> str:
    return json.dumps(
        {
            "companions": options.companions,
            "seconds": options.seconds,
            "rounds": options.rounds,
            "connections": CONNECTIONS,
            "operations": {one.operation: asdict(one) for one in measured},
            "pgbench": {name: asdict(floor) for name, floor in known.items()},
        },
        indent=2,
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
