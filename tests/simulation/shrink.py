"""Shortens the history of a violation for reading: fewer actions, fewer faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from attrs import define, evolve

from tests.simulation.history import Outcome
from tests.simulation.plan import Plan

MAX_RUNS = 150


def shrink(plan: Plan, run: Callable[[Plan], Outcome]) -> tuple[Plan, Outcome]:
    """The shortest plan found with a violation of the same kind, and its outcome."""
    search = _Search(run, plan, run(plan))
    while search.runs < MAX_RUNS and any(search.take(step) for step in _STEPS):
        pass
    return search.best, search.outcome


@define
class _Search:
    run: Callable[[Plan], Outcome]
    best: Plan
    outcome: Outcome
    runs: int = 0

    def take(self, step: Callable[[Plan, Outcome], Iterator[Plan]]) -> bool:
        """Keep the simpler plans of a step that still fail; returns whether there were any."""
        is_better = False
        candidates = step(self.best, self.outcome)
        while self.runs < MAX_RUNS and (plan := next(candidates, None)) is not None:
            self.runs += 1
            outcome = self.run(plan)
            if _kind(outcome) == _kind(self.outcome):
                self.best, self.outcome, is_better = plan, outcome, True
                candidates = step(self.best, self.outcome)
        return is_better


def _kind(outcome: Outcome) -> str:
    """The first violation without its numbers."""
    first = outcome.violations[0].partition("\n")[0] if outcome.violations else ""
    return re.sub(r"\d+", "", first)


def _with_fewer_actions(plan: Plan, _: Outcome) -> Iterator[Plan]:
    for part in _parts(range(len(plan.actions))):
        yield plan.without_actions(part)


def _with_fewer_kinds_of_faults(plan: Plan, _: Outcome) -> Iterator[Plan]:
    for fault in plan.rates:
        yield evolve(plan, rates={one: rate for one, rate in plan.rates.items() if one != fault})


def _with_fewer_faults(plan: Plan, outcome: Outcome) -> Iterator[Plan]:
    for part in _parts(range(len(outcome.fired))):
        names = outcome.fired[part.start : part.stop]
        yield evolve(plan, muted=plan.muted | frozenset(names))


def _in_plain_order(plan: Plan, _: Outcome) -> Iterator[Plan]:
    if plan.is_shuffled:
        yield evolve(plan, is_shuffled=False)


_STEPS: Sequence[Callable[[Plan, Outcome], Iterator[Plan]]] = (
    _with_fewer_kinds_of_faults,
    _with_fewer_actions,
    _with_fewer_faults,
    _in_plain_order,
)


def _parts(whole: range) -> Iterator[range]:
    """The whole range, its halves, its quarters, and so on."""
    size = len(whole)
    while size:
        for start in range(0, len(whole), size):
            yield whole[start : start + size]
        size //= 2
