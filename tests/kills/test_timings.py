"""The figures that are computed from the book of a run."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from tests.kills.timings import GOAL_SECONDS, Figures, is_late, measure


def entry(kind: str, at: float, **facts: Any) -> dict[str, Any]:
    return {"kind": kind, "at": at, **facts}


def ack(at: float, server: str = "server1", **facts: Any) -> dict[str, Any]:
    given = {"op": "read", "status": 200, "started": at, **facts}
    return entry("ack", at, server=server, **given)


def fault(at: float, name: str = "server killed") -> dict[str, Any]:
    return entry("fault", at, name=name, is_kill=True)


def test_a_gap_lasts_until_the_next_answer_of_each_server() -> None:
    """The longest gap is that of the server that responds last."""
    entries = [ack(1.0), ack(1.0, "server2"), fault(2.0), ack(2.5), ack(7.0, "server2"), ack(8.0)]
    assert measure(entries).longest_gap == 5.0


def test_a_call_is_measured_from_its_first_try() -> None:
    """The longest answer includes all repetitions of a call."""
    assert measure([ack(9.0, started=2.0), ack(10.0)]).longest_answer == 7.0


def test_pauses_between_the_runs_of_a_folder_do_not_count() -> None:
    """The duration is that of the runs, without the time between them."""
    entries = [entry("start", 0.0), ack(10.0), entry("start", 500.0), ack(503.0)]
    assert measure(entries).duration == 13.0


def figures(**given: Any) -> Figures:
    return evolve(measure([ack(0.0)]), **given)


def test_a_run_is_late_after_the_goal() -> None:
    """A run is late beyond 20 seconds, or beyond four starts of the machine if that is longer."""
    assert is_late(figures(longest_gap=GOAL_SECONDS + 1))
    assert not is_late(figures(longest_gap=GOAL_SECONDS))
    assert not is_late(figures(longest_effect_gap=GOAL_SECONDS + 1, start=GOAL_SECONDS / 2))
