"""Random histories of users, clocks, processor faults and crashes."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.histories import run_histories

MIN_STEPS = 20_000


def test_no_history_loses_money(record_property: Callable[[str, object], None]) -> None:
    """280 random histories of at least 20,000 steps end with consistent books."""
    steps = run_histories(seed=1, histories=280)

    record_property("steps", steps)
    assert steps >= MIN_STEPS
