"""Running histories: the same seed gives the same ones."""

from __future__ import annotations

import traceback

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.state_machine import MoneyMachine

MAX_STEPS_PER_HISTORY = 90
"""The most steps of one history."""

HISTORIES_PER_SEED = 200
"""Of one seed, where there are many seeds."""


def run_histories(seed: int, histories: int) -> int:
    """Run so many, and return the number of steps. Raises what is wrong with the first one that
    is, with the shortest history that shows it."""
    before = MoneyMachine.steps
    run_state_machine_as_test(
        hypothesis.seed(seed)(MoneyMachine),
        settings=settings(
            max_examples=histories,
            stateful_step_count=MAX_STEPS_PER_HISTORY,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
    return MoneyMachine.steps - before


def run_seed(seed: int) -> tuple[int, int, str]:
    """A seed, its steps, and what was wrong; "" for nothing."""
    try:
        return seed, run_histories(seed, HISTORIES_PER_SEED), ""
    except Exception:
        return seed, 0, traceback.format_exc()
