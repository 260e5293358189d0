"""Makes a whole run, and prints its figures: `python -m tests.kills --store postgresql`.

`--folder` continues a run that was stopped; the last line of output names it. `--record` appends
the figures to the results file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from attrs import asdict

from tests.kills.run import Plan, discard_folder, run_kills
from tests.kills.timings import Figures, is_late, measure
from tests.support.provenance import provenance

RESULTS = Path(__file__).with_name("results.jsonl")


def main() -> int:
    given = _parse_arguments()
    folder = given.folder or Path(tempfile.mkdtemp(prefix=f"kills-{given.store}-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # The user of PostgreSQL must be able to enter it.
    several = 2 if given.store == "postgresql" else 1
    plan = Plan(
        given.store,
        given.kills,
        given.seed,
        servers=several,
        workers=several,
        schedule=tuple(given.faults),
        report=_report,
        leave_out=lambda _, reason: _report(f"LEFT OUT: {reason}"),
    )
    _report(f"{given.store}: {given.kills} kills in {folder}")
    where = provenance()  # Before the run: commits may be added meanwhile.
    history, faults = anyio.run(run_kills, plan, folder)
    figures = measure(history.entries)
    result = _describe(plan, where, figures, faults)
    print(json.dumps(result, indent=1))
    if given.record:
        with RESULTS.open("a") as lines:
            lines.write(json.dumps(result) + "\n")
    if faults:
        _report(f"{len(faults)} faults; the book is in {folder}")
        return 1
    discard_folder(folder)
    return int(is_late(figures))


def _parse_arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.kills")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="chooses faults and their moments")
    parser.add_argument("--folder", type=Path, help="continues the stopped run of this folder")
    parser.add_argument("--faults", nargs="*", default=(), help="faults in order, repeated")
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS.name}")
    return parser.parse_args()


def _describe(
    plan: Plan, where: Mapping[str, str], figures: Figures, faults: list[str]
) -> dict[str, Any]:
    return {
        **where,
        "store": plan.store,
        "seed": plan.seed,
        **asdict(figures),
        "wrong": faults[:50],
    }


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
