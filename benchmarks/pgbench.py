"""The floor: the yardstick's SQL run by pgbench.

Without HTTP, API keys and rate limits, and with parameters as literals: an optimistic bound that
shows the overhead of the yardstick itself.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias

from attrs import frozen

from benchmarks.measure import PostgresCluster, cpu_seconds
from staffbooking_adapters.sql.engine.postgres import SERVER_SETTINGS

CLIENT_COUNT = 10
"""The number of connections in the pool of a server."""

SETTLING_SECONDS = 0.3
"""Seconds until the usage of ended clients is counted."""

PARAMETER_PATTERN = re.compile(r"\$(\d+)")
DONE_PATTERN = re.compile(r"number of transactions actually processed: (\d+)")
PROGRESS_PATTERN = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps")


@frozen
class UniqueValue:
    """A value that differs in each run of a transaction, such as an id or a code."""

    prefix: str | None = None
    """Prefix of a text; None for a number."""


PgbenchTransaction: TypeAlias = Sequence[tuple[str, Sequence[Any]]]
"""SQL statements with their arguments for the driver."""


@frozen
class PgbenchResult:
    rate: float
    """Transactions per second."""
    database_us: float
    """Processor time of PostgreSQL per transaction, in microseconds."""


def find_pgbench(cluster: PostgresCluster) -> Path | None:
    """The pgbench of the binaries of the cluster, if they include it."""
    found = cluster.binaries / "pgbench"
    return found if found.is_file() else None


def run_pgbench(
    cluster: PostgresCluster,
    database: str,
    variants: Sequence[PgbenchTransaction],
    seconds: float,
    folder: Path,
) -> PgbenchResult:
    """Run transactions, chosen at random, at the highest rate. The first second, in which each
    client prepares its statements, does not count."""
    scripts = []
    for number, transaction in enumerate(variants):
        script = folder / f"{number}.sql"
        script.write_text(_script(transaction))
        scripts.append(f"--file={script}")
    options = " ".join(f"-c {name}={value}" for name, value in SERVER_SETTINGS.items())
    words = (
        *("--no-vacuum", "--protocol=prepared", f"--client={CLIENT_COUNT}", "--progress=1"),
        *(f"--time={1 + max(1, round(seconds))}", f"--host={cluster.folder}", "--username=app"),
        *(*scripts, database),
    )
    with subprocess.Popen(
        [cluster.binaries / "pgbench", *words],
        env={**os.environ, "PGOPTIONS": options},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        first = next(filter(None, map(PROGRESS_PATTERN.match, process.stderr)), None)
        began, start = monotonic(), cpu_seconds(cluster.pid)
        output, errors = process.communicate()
        took = monotonic() - began
    sleep(SETTLING_SECONDS)
    used = cpu_seconds(cluster.pid) - start
    total = DONE_PATTERN.search(output)
    if first is None or total is None:
        raise RuntimeError(f"pgbench said something else: {output}{errors}")
    transactions = int(total[1]) - float(first[1]) * float(first[2])
    return PgbenchResult(transactions / took, 1e6 * used / transactions)


def _script(transaction: PgbenchTransaction) -> str:
    lines = ["\\set fresh random(1000000000000, 9000000000000000)"]
    for sql, arguments in transaction:
        written = [_literal(argument) for argument in arguments]
        lines.append(PARAMETER_PATTERN.sub(lambda found: written[int(found[1]) - 1], sql) + ";")  # noqa: B023
    return "\n".join(lines)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case UniqueValue(prefix=None):
            return "(:fresh)"
        case UniqueValue():
            return f"('{value.prefix}' || (:fresh)::text)"
        case bool() | int():
            return str(value)
        case bytes():
            return f"'\\x{value.hex()}'"
        case list() | tuple():
            return f"ARRAY[{', '.join(map(_literal, value))}]"
        case date() | datetime():
            return _quoted(value.isoformat())
        case str():
            return _quoted(value)
    raise TypeError(f"no literal for {value!r}")


def _quoted(text: str) -> str:
    # A colon before a letter would begin a variable of pgbench.
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a")
    return f"E'{escaped}'"
