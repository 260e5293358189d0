"""`python -m benchmarks`: compares the service with the yardstick on a temporary PostgreSQL."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import asdict

from benchmarks import pgbench, pgbench_scripts, report, response_comparison, round_trips, seed
from benchmarks.dataset import BenchmarkDataset, make_dataset
from benchmarks.load_generator import LoadRequest, write_requests
from benchmarks.load_requests import make_refused_requests, make_requests
from benchmarks.measure import (
    SERVICE_COMMAND,
    Deployment,
    PostgresCluster,
    RoundSample,
    run_cluster,
    run_round,
    run_target,
    running_worker,
)
from benchmarks.peers.commands import peer_commands
from benchmarks.pgbench import PgbenchResult
from benchmarks.report import OperationComparison
from tests.support.postgres import database_name

CONNECTION_COUNT = 32
YARDSTICK_COMMAND = (sys.executable, "-m", "benchmarks.yardstick")


def main() -> int:
    options = _parse_options()
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        return _run(options, cluster, Path(folder))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--companions", type=int, default=100_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3, help="of each operation and target")
    parser.add_argument("--quick", action="store_true", help="5,000 companions, one round of 1 s")
    parser.add_argument("--peers", action="store_true", help="measure Express and FastAPI too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    if options.quick:
        options.companions, options.seconds, options.rounds = 5_000, 1.0, 1
    return options


def _run(options: argparse.Namespace, cluster: PostgresCluster, folder: Path) -> int:
    _log(f"seeding {options.companions:,} companions")
    world = make_dataset(options.companions, datetime.now(UTC))
    url = asyncio.run(seed.fill_database(cluster.server, world))
    requests, environ = make_requests(world), _environ(url)
    commands = {"service": SERVICE_COMMAND, "yardstick": YARDSTICK_COMMAND}
    if options.peers:
        commands |= peer_commands(_log)
    with ExitStack() as stack:
        service, yardstick, *peers = (
            stack.enter_context(run_target(name, command, environ, folder / f"{name}.log"))
            for name, command in commands.items()
        )
        worker = stack.enter_context(running_worker(environ, folder / "worker.log"))
        _log("comparing answers")
        odd = response_comparison.compare_responses(service.port, yardstick.port, requests)
        asked = {**requests, "refused": make_refused_requests(world)}
        for peer in peers:
            odd += response_comparison.compare_responses(
                service.port, peer.port, asked, response_comparison.response_content
            )
        if not odd:
            deployments = [Deployment(each, worker, cluster, url) for each in (service, yardstick)]
            deployments += [Deployment(each, worker, cluster, url, True) for each in peers]
            samples, odd = _measure_rounds(options, deployments, requests, folder)
    if odd:
        _log("\n".join(["no figures, for these were not as expected:", *odd]))
        return 1
    _log("counting round trips")
    measured = asyncio.run(_with_round_trips(samples, environ, requests))
    known = _measure_floors(options, cluster, world, url, folder)
    _print_report(options, measured, known)
    if options.json:
        options.json.write_text(_as_json(options, measured, known))
    return 0


def _environ(url: str) -> dict[str, str]:
    """Settings of a deployment, with limits that the load does not exceed."""
    return {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SANDBOX": "0",
        "STAFFBOOKING_LIMITS": "general=1000000000/1h,bookings=1000000000/1h",
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
    }


def _measure_rounds(
    options: argparse.Namespace,
    deployments: Sequence[Deployment],
    requests: Mapping[str, Sequence[LoadRequest]],
    folder: Path,
) -> tuple[dict[tuple[str, str], RoundSample], list[str]]:
    """The median sample of each operation and target, and all unexpected responses."""
    found: dict[tuple[str, str], RoundSample] = {}
    odd: list[str] = []
    for name, variants in requests.items():
        file = write_requests(variants, folder / f"{name}.json")
        taken: dict[str, list[RoundSample]] = defaultdict(list)
        for number in range(-1, options.rounds):  # the first warms up plans and caches
            for deployment in deployments:
                target = deployment.server
                seconds = options.seconds if number >= 0 else min(1.0, options.seconds / 2)
                one = run_round(deployment, file, seconds, CONNECTION_COUNT)
                odd += [
                    f"{name}, {target.name}: {n} x {what}"
                    for what, n in one.unexpected_responses.items()
                ]
                if number >= 0:
                    taken[target.name].append(one.sample)
        for target_name, samples in taken.items():
            found[name, target_name] = RoundSample.median_of(samples)
        _log(f"{name}: {found[name, 'service'].rate:,.0f}/s")
    return found, odd


async def _with_round_trips(
    samples: Mapping[tuple[str, str], RoundSample],
    environ: Mapping[str, str],
    requests: Mapping[str, Sequence[LoadRequest]],
) -> list[OperationComparison]:
    service = await round_trips.count_service_round_trips(environ, requests, CONNECTION_COUNT)
    yardstick = await round_trips.count_yardstick_round_trips(environ, requests, CONNECTION_COUNT)
    return [
        OperationComparison(
            name,
            samples[name, "service"],
            samples[name, "yardstick"],
            service[name],
            yardstick[name],
            {
                target: sample
                for (operation, target), sample in samples.items()
                if operation == name and target not in ("service", "yardstick")
            },
        )
        for name in requests
    ]


def _measure_floors(
    options: argparse.Namespace,
    cluster: PostgresCluster,
    world: BenchmarkDataset,
    url: str,
    folder: Path,
) -> dict[str, PgbenchResult]:
    if pgbench.find_pgbench(cluster) is None:
        _log("no pgbench beside PostgreSQL's binaries: the yardstick has no floor to stand on")
        return {}
    _log("running pgbench")
    transactions = asyncio.run(pgbench_scripts.pgbench_transactions(url, world))
    return {
        name: pgbench.run_pgbench(cluster, database_name(url), variants, options.seconds, folder)
        for name, variants in transactions.items()
    }


def _print_report(
    options: argparse.Namespace,
    measured: Sequence[OperationComparison],
    known: Mapping[str, PgbenchResult],
) -> None:
    others = max(one.max_other_load for one in measured)
    parts = [
        f"{options.companions:,} companions, {CONNECTION_COUNT} connections, median of "
        f"{options.rounds} rounds of {options.seconds:g} s, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}; others took at most {others:.0%} of the machine.",
        report.format_comparison(measured),
        report.format_floors(measured, known) if known else "",
        report.format_peers(measured) if options.peers else "",
        report.format_verdict(next(one for one in measured if one.operation == "mix")),
    ]
    sys.stdout.write("\n\n".join(filter(None, parts)) + "\n")


def _as_json(
    options: argparse.Namespace,
    measured: Sequence[OperationComparison],
    known: Mapping[str, PgbenchResult],
) -> str:
    return json.dumps(
        {
            "companions": options.companions,
            "seconds": options.seconds,
            "rounds": options.rounds,
            "connections": CONNECTION_COUNT,
            "operations": {one.operation: asdict(one) for one in measured},
            "pgbench": {name: asdict(floor) for name, floor in known.items()},
        },
        indent=2,
    )


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
