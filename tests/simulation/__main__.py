"""`python -m tests.simulation`: runs histories on every core, with a new seed for each run. Ends
after SIMULATION_STEPS steps (2,000,000), or with the first seed that fails.

    SIMULATION_SEED=17 python -m tests.simulation     runs one seed
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import get_context

from tests.simulation.histories import run_seed

FIRST_SEED = 1_000
PROGRESS_INTERVAL_SECONDS = 30.0
"""Seconds between two lines of progress."""


def main() -> int:
    if given := os.environ.get("SIMULATION_SEED"):
        return _report_result(*run_seed(int(given)))
    return _run_many(int(os.environ.get("SIMULATION_STEPS", "2000000")), os.cpu_count() or 1)


def _run_many(wanted: int, cores: int) -> int:
    seeds, steps, began = count(FIRST_SEED), 0, time.monotonic()
    next_line = began + PROGRESS_INTERVAL_SECONDS
    # Spawned processes inherit no open file or connection of the parent.
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        running: set[Future[tuple[int, int, str]]] = set()
        while steps < wanted:
            running |= {pool.submit(run_seed, next(seeds)) for _ in range(cores - len(running))}
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for seed, made, wrong in (one.result() for one in ended):
                steps += made
                if wrong:
                    pool.shutdown(cancel_futures=True)
                    return _report_result(seed, made, wrong)
            if time.monotonic() >= next_line or steps >= wanted:
                _print(f"{steps:,} steps of {wanted:,} in {time.monotonic() - began:,.0f} s")
                next_line = time.monotonic() + PROGRESS_INTERVAL_SECONDS
    return 0


def _report_result(seed: int, steps: int, wrong: str) -> int:
    if wrong:
        _print(f"{wrong}\nagain: SIMULATION_SEED={seed} python -m tests.simulation")
        return 1
    _print(f"seed {seed}: {steps:,} steps, nothing wrong")
    return 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
