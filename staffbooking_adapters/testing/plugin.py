"""A pytest plugin: ports in memory, a whole service on them, and what a failing contract promises.

In a `conftest.py` of yours: `pytest_plugins = ["staffbooking_adapters.testing.plugin"]`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from datetime import UTC, datetime

import pytest

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.testing.service import Service, make_service
from staffbooking_adapters.wiring import memory_ports
from staffbooking_core.ports import Ports

__all__ = ["NOW", "anyio_backend", "clock", "ports", "service"]

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
"""The time at which `clock` stands."""

_KIT = "staffbooking_adapters.testing."


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The contracts run on asyncio, as the service does."""
    return "asyncio"


@pytest.fixture
def ports() -> Ports:
    """All ports in memory, with the fake processor and a clock that stands at NOW."""
    return memory_ports(now=NOW)


@pytest.fixture
def clock(ports: Ports) -> VirtualClock:
    """The clock of `ports`: `clock.advance(timedelta(hours=1))` moves it."""
    assert isinstance(ports.clock, VirtualClock)
    return ports.clock


@pytest.fixture
def service(ports: Ports) -> Service:
    """A service on `ports`: a customer, a companion, a fake processor, their receivers."""
    # A loop of its own, so that any plugin may run the test; it leaves nothing behind in a loop.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(make_service(ports))
    finally:
        loop.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the port promises to the report of a failing test of a contract suite."""
    report = yield
    function = getattr(item, "function", None)
    if report.failed and getattr(function, "__module__", "").startswith(_KIT):
        report.sections.append(("The port promises", inspect.getdoc(function) or ""))
    return report
