"""Fixtures and hooks of the whole suite."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import required_tools, watchdog
from tests.support.budget import TierBudgetPlugin
from tests.support.memory_files import keep_temporary_files_in_memory
from tests.support.migrated_databases import migrated_database, migrated_file, other_loop
from tests.support.postgres import hanging_postgres_server, postgres_server
from tests.support.redis import redis_server

__all__ = [
    "hanging_postgres_server",
    "migrated_database",
    "migrated_file",
    "other_loop",
    "postgres_server",
    "redis_server",
]


LONGEST_FILES = ("tests/simulation/", "tests/webhooks/test_soak.py", "tests/channel/test_soak.py")

_TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _TIMELESS, derandomize=True, database=None)
settings.register_profile("searching", _TIMELESS, max_examples=1_000)
settings.load_profile("same")
"""Properties are held against the same examples each time, so that a failure is of the change
that met it, and however slow the machine is. `make soak` searches for others."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The drivers of both databases run on asyncio alone."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    keep_temporary_files_in_memory()
    processes = config.getoption("numprocesses", None) or 1
    config.pluginmanager.register(TierBudgetPlugin(processes), "budget")
    config.pluginmanager.register(watchdog, "watchdog")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: to look for garbage among it costs a quarter of the
    time that it takes to collect, and more later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files start first, so that no process works on one when the others are done."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST_FILES))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes hands over what it left out."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = required_tools.skipped_tools()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    required_tools.merge_skipped_tools(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in required_tools.skipped_tool_lines():
        terminalreporter.write_sep("!", line, red=True, bold=True)
