"""The seconds that each tier of tests used, compared with its budget; reported, not enforced.

If tests run in several processes, a tier's seconds are divided by the number of processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pytest

TIER_BUDGETS_SECONDS: dict[tuple[str, ...], int] = {
    ("tests/domain", "tests/usecases"): 75,
    ("tests/contract",): 75,
    ("tests/http",): 90,
    ("tests/money",): 50,
    ("tests/webhooks",): 45,
    ("tests/channel",): 45,
    ("tests/e2e", "tests/kills"): 80,
    ("tests/simulation",): 45,
    ("tests/clients",): 180,
    ("tests/journeys",): 540,
}
REST_BUDGET_SECONDS = 60
"""For all folders that have no tier."""


class TierBudgetPlugin:
    """A pytest plugin that adds up durations and prints the table at the end of the run."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = "/".join(report.nodeid.split("/")[:2])
        self.seconds[folder] += report.duration / self.processes

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if rows := budget_rows(self.seconds):
            terminalreporter.section("seconds used of each tier's budget")
            for row in rows:
                terminalreporter.write_line(row)


def budget_rows(seconds: Mapping[str, float]) -> list[str]:
    """One line for each tier that ran: its folders, seconds used, seconds allowed; the last line is
    of all other folders."""
    rest = dict(seconds)
    rows = []
    for folders, allowed in TIER_BUDGETS_SECONDS.items():
        used = sum(rest.pop(folder, 0) for folder in folders)
        rows.append((" + ".join(folders), used, allowed))
    rows.append(("the rest", sum(rest.values()), REST_BUDGET_SECONDS))
    return [_budget_row(*row) for row in rows if row[1]]


def _budget_row(name: str, used: float, allowed: int) -> str:
    late = "  OVER" if used > allowed else ""
    return f"{name:32} {used:6.1f} of {allowed:3d}{late}"
