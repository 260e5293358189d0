"""Fixtures and hooks of the whole suite."""

from __future__ import annotations

import pytest

from tests.support.budget import Budget
from tests.support.postgres import postgres_server
from tests.support.redis import redis_server
from tests.support.required import not_run

__all__ = ["postgres_server", "redis_server"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The drivers of both databases run on asyncio alone."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budget(), "budget")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in not_run():
        terminalreporter.write_sep("!", line, red=True, bold=True)
