"""Histories of the whole system keep the invariants of docs/reliability.md, over both stores."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.simulation.history import run_history
from tests.simulation.plan import make_plan
from tests.simulation.regressions import FOLDER, load_regression
from tests.simulation.shrink import shrink

HISTORIES = {"memory": 490, "sqlite": 10}
HISTORIES_PER_TEST = 10
PARTS = [
    (store, first)
    for store, count in HISTORIES.items()
    for first in range(1, count, HISTORIES_PER_TEST)
]


pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]
"""Processes that died have closed nothing; anyio drops the coroutine of a task that is cancelled
before its first step."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("store", "first"), PARTS)
def test_histories_keep_the_invariants(store: str, first: int) -> None:
    """In ten histories with faults no invariant is violated, and all due work is done within an
    hour after the faults."""
    for seed in range(first, first + HISTORIES_PER_TEST):
        if run_history(make_plan(seed), store).violations:
            _, outcome = shrink(make_plan(seed), partial(run_history, store=store))
            pytest.fail("\n".join([f"seed {seed}", *outcome.log_lines, *outcome.violations[:1]]))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_regression_stays_fixed(path: Path) -> None:
    """A history that once had a violation has none."""
    regression = load_regression(path)

    outcome = run_history(regression.plan, regression.store)

    assert outcome.violations == []


def test_a_seed_has_one_history() -> None:
    """The trace of a seed is the same in processes with different hash seeds and earlier runs."""
    wanted = [(1, "memory"), (2, "memory"), (1, "sqlite")]
    traces, again = _traces("1", wanted), _traces("2", wanted[1:])

    assert len(set(traces)) == len(wanted)
    assert again == traces[1:]


def _traces(hash_seed: str, wanted: Sequence[tuple[int, str]]) -> list[str]:
    code = (
        "import logging\n"
        "from tests.simulation.history import run_history\n"
        "from tests.simulation.plan import make_plan\n"
        "logging.disable(logging.WARNING)\n"
        f"for seed, store in {wanted}: print(run_history(make_plan(seed), store).trace_hash)"
    )
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()
