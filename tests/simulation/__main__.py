"""Runs the histories of a range of seeds; shortens and prints the first one with a violation.

    python -m tests.simulation 1 500 --jobs 2             in two processes
    python -m tests.simulation 17 17 --store sqlite       one history
    python -m tests.simulation 17 17 --save lost-lease    keep it as a regression
    python -m tests.simulation 1 100000 --results FILE --minutes 30
                                        one shard, which begins after the last seed in the file

The exit code is 1 if an invariant was violated, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.history import find_failing_seed, run_history
from tests.simulation.plan import make_plan
from tests.simulation.regressions import Regression, save_regression
from tests.simulation.shrink import shrink
from tests.support.provenance import provenance

STORES = ("memory", "sqlite")
SEEDS_PER_CALL = 10
BAR_WIDTH = 30
STOPPED_STATUS = 130
COLUMNS = ("store", "first", "last", "result", "seconds", "commit", "machine", "date")


def main() -> int:
    given = _parse_arguments()
    first = given.first
    if given.results is not None:
        first = max(first, _next_seed(given.results, given.store))
    if first > given.last:
        _print(f"{given.store}: the seeds {given.first} to {given.last} are done")
        return 0
    began = time.monotonic()
    last, failing_seed, is_stopped = _run_range(first, given.last, given)
    seconds = time.monotonic() - began
    result = f"seed {failing_seed} fails" if failing_seed else "0 violations"
    if given.results is not None and last >= first:
        _append_row(given.results, given.store, first, last, result, f"{seconds:.0f}")
    if failing_seed:
        _print_failure(failing_seed, given)
        return 1
    if last >= first:
        _print(f"{given.store}: seeds {first} to {last}, 0 violations, {seconds:.0f} s")
    return STOPPED_STATUS if is_stopped else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--store", choices=STORES, default="memory")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--save", metavar="NAME")
    parser.add_argument("--plain", action="store_true", help="don't shorten the history")
    return parser.parse_args()


def _run_range(first: int, last: int, given: argparse.Namespace) -> tuple[int, int, bool]:
    """The last seed that was run with all seeds before it, the first one with a violation or 0, and
    whether Ctrl-C ended the run."""
    parts = _split_seeds(first, last, time.monotonic() + 60 * given.minutes)
    runs = _run_alone if given.jobs == 1 else partial(_run_in_processes, given.jobs)
    done = first - 1
    try:
        for part, failing_seed in runs(parts, given.store):
            if failing_seed:
                return failing_seed, failing_seed, False
            done = part[-1]
            _show_progress(done, first, last)
    except KeyboardInterrupt:
        return done, 0, True
    return done, 0, False


def _split_seeds(first: int, last: int, deadline: float) -> Iterator[range]:
    for start in range(first, last + 1, SEEDS_PER_CALL):
        if time.monotonic() > deadline:
            return
        yield range(start, min(start + SEEDS_PER_CALL, last + 1))


def _run_alone(parts: Iterator[range], store: str) -> Iterator[tuple[range, int]]:
    for part in parts:
        yield part, find_failing_seed(part, store)


def _run_in_processes(jobs: int, parts: Iterator[range], store: str) -> Iterator[tuple[range, int]]:
    """Yields the parts in order, so that no seed before the first violation is left out."""
    # Spawned processes inherit no open file or connection of the parent.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running: deque[tuple[range, Future[int]]] = deque()
        try:
            while True:
                for part in islice(parts, 2 * jobs - len(running)):
                    running.append((part, pool.submit(find_failing_seed, part, store)))
                if not running:
                    return
                part, future = running.popleft()
                yield part, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _print_failure(seed: int, given: argparse.Namespace) -> None:
    """Print the log of the shortest history with the same kind of violation as the seed's."""
    logging.disable(logging.WARNING)
    run = partial(run_history, store=given.store)
    plan = make_plan(seed)
    plan, outcome = (plan, run(plan)) if given.plain else shrink(plan, run)
    violation = outcome.violations[0]
    if given.save is not None:
        # The other lines of a traceback have paths of this machine.
        regression = Regression(violation.strip().splitlines()[-1], given.store, plan)
        _print(f"saved: {save_regression(given.save, regression)}")
    _print("\n".join([*outcome.log_lines, f"seed {seed}: {violation}"]))


# Results --------------------------------------------------------------------------------------


def _next_seed(path: Path, store: str) -> int:
    if not path.exists():
        return 1
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["store"] == store]
    return 1 + max((int(row["last"]) for row in rows), default=0)


def _append_row(path: Path, *values: object) -> None:
    is_new = not path.exists()
    made = provenance()
    row = (*values, made["commit"], made["machine"], made["date"])
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(row)


def _show_progress(done: int, first: int, last: int) -> None:
    if sys.stderr.isatty():
        part = (done - first + 1) / (last - first + 1)
        bar = "#" * round(BAR_WIDTH * part)
        sys.stderr.write(f"\r[{bar:.<{BAR_WIDTH}}] {done - first + 1:,} of {last - first + 1:,}")
        sys.stderr.write("\n" if part == 1 else "")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
