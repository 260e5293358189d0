"""`python -m tests.simulation.system FIRST LAST`: runs the histories of these seeds and tells the
story of the first one that goes wrong."""

from __future__ import annotations

import logging
import sys

from tests.simulation.system.history import run_history
from tests.simulation.system.plan import make_plan


def main(first: int, last: int) -> int:
    logging.disable(logging.WARNING)
    for seed in range(first, last + 1):
        outcome = run_history(make_plan(seed))
        if outcome.violations:
            sys.stdout.write("\n".join([*outcome.story, f"seed {seed}: {outcome.violations[0]}\n"]))
            return 1
    sys.stdout.write(f"{last - first + 1} histories, nothing wrong\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
