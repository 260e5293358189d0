"""`python -m tests.simulation FIRST LAST [--store memory|sqlite]` runs the histories of these
seeds. The story of the first one that goes wrong is told, and the exit code is then 1."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.simulation.history import run_history
from tests.simulation.plan import make_plan

STORES = ("memory",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--store", choices=STORES, default="memory")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    for seed in range(given.first, given.last + 1):
        outcome = run_history(make_plan(seed))
        if outcome.violations:
            sys.stdout.write("\n".join([*outcome.story, f"seed {seed}: {outcome.violations[0]}\n"]))
            return 1
    sys.stdout.write(f"{given.last - given.first + 1} histories, nothing wrong\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
