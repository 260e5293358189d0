"""Runs histories. One seed gives the same histories where the same modules are loaded, since
hypothesis tries the constants that it finds in them."""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.state_machine import MoneyMachine

MAX_STEPS_PER_HISTORY = 90
"""The most steps of one history."""


def run_histories(seed: int, histories: int) -> int:
    """Run histories and return the number of steps. Raises the error of the first failing history,
    reduced to the shortest one."""
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
