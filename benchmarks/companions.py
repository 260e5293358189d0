"""`python -m benchmarks.companions`: imports up to a million companions and searches them.

    python -m benchmarks.companions generate 1000000 > companions.jsonl
    python -m benchmarks.companions measure --million

The first writes rows for `staffbooking companions import`, always the same ones; the second
imports rows with that command and searches them, on PostgreSQL and on SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from attrs import frozen

from benchmarks import search_costs
from benchmarks.dataset import BIO_TEXT, FIRST_NAMES, LANGUAGES, LAST_NAMES, LOCATIONS, SERVICES
from benchmarks.measure import PostgresCluster, cpu_seconds, run_cluster
from staffbooking_adapters.codec import decode, encode
from staffbooking_adapters.sql.schema.upgrade import run_migrations

DEFAULT_SIZES = (1_000, 10_000, 100_000)
MILLION_SIZE = 1_000_000
STAFFBOOKING_COMMAND = ("-m", "staffbooking_cli.main", "companions", "import")

DISTRICTS = (
    ",North,South,East,West,Old Town,New Town,Harbour,Riverside,Hillside,Park,Station,Market,"
    "University,Castle,Garden,Lake,Forest,Airport,Mill,Bridge,Abbey,Beach,Meadow,Orchard"
).split(",")
RARE_SERVICES = [
    f"{service} ({place})" for place in ("night", "abroad", "at sea") for service in SERVICES
]
OFFERED_SERVICES = (*SERVICES, *RARE_SERVICES)
START_HOURS = (7, 8, 9, 10, 12, 16, 18)
WEEKDAY_SETS = (range(5), range(6), range(7), (5, 6), (0, 2, 4), (3, 4, 5, 6))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.companions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    generate = commands.add_parser("generate", help="write rows as JSON Lines")
    generate.add_argument("rows", type=int)
    generate.add_argument("--seed", type=int, default=1)
    measure = commands.add_parser("measure", help="import and search")
    measure.add_argument("--million", action="store_true", help="up to 1,000,000, too")
    measure.add_argument("--quick", action="store_true", help="1,000 alone")
    options = parser.parse_args()
    if options.command == "generate":
        for row in generate_companions(options.rows, options.seed):
            sys.stdout.buffer.write(encode(row) + b"\n")
        return 0
    sizes = (
        DEFAULT_SIZES[:1]
        if options.quick
        else (*DEFAULT_SIZES, *((MILLION_SIZE,) if options.million else ()))
    )
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        for size in sizes:
            file = write_companions(size, Path(folder) / f"{size}.jsonl")
            made = asyncio.run(cluster.server.create_database(f"people_{size}"))
            for url in (made, f"sqlite+aiosqlite:///{folder}/{size}.db"):
                _measure_sizes(url, cluster, file, size)
    return 0


# Rows -----------------------------------------------------------------------------------


def generate_companions(count: int, seed: int = 1) -> Iterator[Mapping[str, Any]]:
    """Rows of companions: most live in few cities and offer few services, a third is always free,
    and one in ten has days off."""
    dice = Random(seed)
    places = [
        (f"{city} {quarter}".strip(), country, zone)
        for quarter in DISTRICTS
        for city, country, zone in LOCATIONS
    ]
    dice.shuffle(places)
    near, wanted = _zipf_weights(len(places)), _zipf_weights(len(OFFERED_SERVICES))
    for number in range(1, count + 1):
        [(city, country, zone)] = dice.choices(places, cum_weights=near)
        # Around 45 an hour, rarely below 15 or above 150.
        hourly = min(max(round(2 * dice.lognormvariate(3.8, 0.5)) / 2, 10), 900)
        services = dice.choices(OFFERED_SERVICES, cum_weights=wanted, k=dice.randint(1, 4))
        row = {
            "email": f"person{number}@people.test",
            "first_name": dice.choice(FIRST_NAMES),
            "last_name": dice.choice(LAST_NAMES),
            "tagline": "At your side, from the first guest to the last",
            "bio": BIO_TEXT[: dice.randint(100, len(BIO_TEXT))],
            "profile_photo": f"photos/{number}.jpg",
            "hourly_rate": hourly,
            "location_city": city,
            "location_country": country,
            "timezone": zone,
            "service_types": list(dict.fromkeys(services)),
            "languages": dice.sample(LANGUAGES, dice.randint(1, 3)),
            "tier": dice.choices(("standard", "premium", "elite"), (80, 15, 5))[0],
            "approved": dice.random() < 0.97,
        }
        if dice.random() < 0.5:
            row["daily_rate"] = 7 * hourly
        if dice.random() < 0.67:
            row["weekly"] = _random_hours(dice)
        if dice.random() < 0.1:
            row["overrides"] = _random_days_off(dice)
        yield row


def _zipf_weights(count: int) -> Sequence[float]:
    """Cumulative weights; the n-th value is 1/n as frequent as the first."""
    return list(accumulate(1 / n for n in range(1, count + 1)))


def _random_hours(dice: Random) -> Sequence[Mapping[str, Any]]:
    first = dice.choice(START_HOURS)
    end = min(first + dice.choice((2, 4, 6, 8, 8, 8, 10)), 24)
    slot = {"start": f"{first:02}:00", "end": f"{end:02}:00"}
    return [{"weekday": day, **slot} for day in dice.choice(WEEKDAY_SETS)]


def _random_days_off(dice: Random) -> Sequence[Mapping[str, Any]]:
    first = search_costs.SEARCHED_DATE + timedelta(days=dice.randint(-20, 40))
    days = (first + timedelta(days=number) for number in range(dice.randint(1, 5)))
    return [{"date": day.isoformat(), "slots": []} for day in days]


def write_companions(count: int, path: Path) -> Path:
    with path.open("wb") as file:
        for row in generate_companions(count):
            file.write(encode(row) + b"\n")
    return path


# Measurements ---------------------------------------------------------------------------


@frozen
class ImportPass:
    """One run of `companions import`."""

    seconds: float
    command_us: float
    """Processor time of the command per row, in microseconds."""
    database_us: float
    """Processor time of PostgreSQL per row; that of SQLite is part of the command's."""
    memory_mb: float


def _measure_sizes(url: str, cluster: PostgresCluster, file: Path, size: int) -> None:
    asyncio.run(run_migrations(url))
    name = url.partition("+")[0]
    print(f"importing {size:,} into {name}", file=sys.stderr)
    done = import_file(url, cluster, file, size)
    print(
        f"\n## {size:,} companions on {name}\n\n"
        f"Imported in {done.seconds:.1f} s, {size / done.seconds:,.0f} rows/s, "
        f"{done.command_us:.0f} us of the command's processor time a row, "
        f"{done.database_us:.0f} us of PostgreSQL's, {done.memory_mb:.0f} MB at most.\n"
    )
    print(asyncio.run(search_costs.search_cost_report(url)), flush=True)


def import_file(url: str, cluster: PostgresCluster, file: Path, rows: int) -> ImportPass:
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
    }
    began, command, database = monotonic(), _children_seconds(), cpu_seconds(cluster.pid)
    process = subprocess.Popen(
        [sys.executable, *STAFFBOOKING_COMMAND, str(file), "--json"],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
    )
    memory_mb = 0.0
    while process.poll() is None:
        memory_mb = _max_memory_mb(process.pid) or memory_mb
        sleep(0.1)
    seconds = monotonic() - began
    output = process.communicate()[0]
    if process.returncode or decode(output) != {"imported": rows, "updated": 0, "skipped": []}:
        sys.exit(f"companions import failed: {output[-2000:].decode()}")
    return ImportPass(
        seconds,
        1e6 * (_children_seconds() - command) / rows,
        1e6 * (cpu_seconds(cluster.pid) - database) / rows,
        memory_mb,
    )


def _children_seconds() -> float:
    """Processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _max_memory_mb(pid: int) -> float:
    """Peak memory of a process; 0 if it has ended. `wait4` would report the peak of this process if
    that is higher."""
    status = Path(f"/proc/{pid}/status").read_text()
    most = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(most[1]) / 1024 if most else 0.0


if __name__ == "__main__":
    sys.exit(main())
