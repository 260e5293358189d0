"""The figures of a run follow from its book."""

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
    """A server that answers at once does not hide another that does not."""
    entries = [ack(1.0), ack(1.0, "server2"), fault(2.0), ack(2.5), ack(7.0, "server2"), ack(8.0)]
    assert measure(entries).longest_gap == 5.0


def test_an_answer_lasts_from_its_first_try() -> None:
    """The longest answer counts all repetitions of a call."""
    assert measure([ack(9.0, started=2.0), ack(10.0)]).longest_answer == 7.0


def test_pauses_between_the_runs_of_a_folder_do_not_count() -> None:
    """The duration is that of the runs, without the time between them."""
    entries = [entry("start", 0.0), ack(10.0), entry("start", 500.0), ack(503.0)]
    assert measure(entries).duration == 13.0


def figures(**given: Any) -> Figures:
    return evolve(measure([ack(0.0)]), **given)


def test_work_that_goes_on_after_the_goal_is_late() -> None:
    """A run is late beyond 20 seconds, unless the machine needs longer for a start itself."""
    assert is_late(figures(longest_gap=GOAL_SECONDS + 1))
    assert not is_late(figures(longest_gap=GOAL_SECONDS))
    assert not is_late(figures(longest_effect_gap=GOAL_SECONDS + 1, start=GOAL_SECONDS / 2))
