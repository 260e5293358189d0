"""Reports the number of simulated steps at the end of the run."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if report.when == "call" and name == "steps":
                terminalreporter.write_line(f"{report.nodeid}: {value:,} steps")
