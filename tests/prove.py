"""`python -m tests.prove`: a quarter of an hour of the simulation, planted bugs, races and kills;
prints the table of docs/reliability.md with what it found.

Each row has its own command, which repeats it alone. Exits with 1 if one of them fails.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable

from attrs import frozen

from tests.support.provenance import provenance

HEADINGS = ("Figure", "Range", "Commit", "Machine", "Duration", "Command")


def last_line(output: str) -> str:
    """The last line that has a text."""
    return next((line for line in reversed(output.splitlines()) if line.strip()), "no output")


def kill_figures(output: str) -> str:
    """What a run of `tests.kills` found."""
    found = json.loads(output)
    return (
        f"{found['kills']} kills, {found['acknowledged']:,} answers:"
        f" {len(found['wrong'])} lost, doubled or out of order;"
        f" work goes on after {found['longest_gap']} s at most"
    )


@frozen
class Part:
    """One row of the table; `python` stands for this interpreter in its command."""

    title: str
    range: str
    command: str
    figure: Callable[[str], str] = last_line


RACES = "tests/contract/test_races.py tests/contract/payments/test_payment_races.py"
PARTS = (
    Part(
        "Simulation, memory store",
        "seeds 1 to 1,000",
        "python -m tests.simulation 1 1000 --jobs 2",
    ),
    Part(
        "Planted bugs",
        "4 of all",
        "python -m tests.mutants --again 14 27 41 54",
    ),
    Part(
        "Races, both stores",
        "50 rounds, 64 callers",
        f"RACE_ROUNDS=50 RACE_CALLERS=64 python -m pytest -q -o faulthandler_timeout=0 {RACES}",
    ),
    *(
        Part(
            f"Kills, {title}",
            "20 kills, seed 1",
            f"python -m tests.kills --store {store} --kills 20",
            kill_figures,
        )
        for store, title in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"))
    ),
)


def run_part(part: Part) -> tuple[bool, str]:
    """Whether it passed, and its row. Its progress goes to the terminal."""
    words = shlex.split(part.command)
    given = dict(word.split("=", 1) for word in words if word.split("=")[0].isupper())
    command = [sys.executable if word == "python" else word for word in words[len(given) :]]
    began = time.monotonic()
    done = subprocess.run(
        command, env={**os.environ, **given}, stdout=subprocess.PIPE, text=True, check=False
    )
    seconds = time.monotonic() - began
    passed = done.returncode == 0
    figure = part.figure(done.stdout) if passed else f"FAILED: {last_line(done.stdout)}"
    where = provenance()
    cells = (part.title + ": " + figure, part.range, where["commit"], where["machine"])
    row = (*cells, f"{seconds:.0f} s", f"`{part.command}`")
    if not passed:
        sys.stderr.write(done.stdout)
    return passed, table_row(row)


def table_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    results = []
    for part in PARTS:
        sys.stderr.write(f"{part.title}: {part.command}\n")
        results.append(run_part(part))
    lines = [table_row(HEADINGS), table_row(("---",) * len(HEADINGS))]
    sys.stdout.write("\n".join([*lines, *(row for _, row in results)]) + "\n")
    return 0 if all(passed for passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
