"""`python -m tests.kills --store postgresql --kills 200`: a whole run, and its figures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import anyio
from attrs import asdict

from tests.kills.run import Plan, discard_folder, run_kills
from tests.kills.timings import measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of an earlier run, which goes on")
    parser.add_argument("--faults", nargs="*", default=())
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix=f"kills-{given.store}-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    many = given.store == "postgresql"
    plan = Plan(
        given.store,
        given.kills,
        given.seed,
        servers=1 + many,
        workers=1 + many,
        schedule=tuple(given.faults),
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )
    history, faults = anyio.run(run_kills, plan, folder)
    print(json.dumps(asdict(measure(history.entries)), indent=1))
    for fault in faults[:50]:
        print(fault)
    if faults:
        print(f"kept in {folder}", file=sys.stderr)
        return 1
    discard_folder(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
