"""What tests are held by: budgets, tools that lack, limits of time, ports that are kept."""

from __future__ import annotations

import asyncio
import socket
import traceback

import pytest

from tests.support import required_tools
from tests.support.budget import budget_rows
from tests.support.reserved_ports import port_number, reserve_port
from tests.support.watchdog import with_timeout


def test_the_table_adds_up_a_tier() -> None:
    """Folders of one tier share a budget, a tier that did not run has no line."""
    rows = budget_rows(
        {"tests/domain": 1.25, "tests/usecases": 2.5, "tests/e2e": 91.0, "tests/cli": 5}
    )
    assert [row.split() for row in rows] == [
        ["tests/domain", "+", "tests/usecases", "3.8", "of", "75"],
        ["tests/e2e", "91.0", "of", "80", "OVER"],
    ]


@pytest.fixture
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required_tools, "_skipped_reasons", {})


@pytest.mark.usefixtures("nothing_noted")
def test_a_missing_tool_leaves_tests_out_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tool its tests are left out, and the end of the run says which."""
    monkeypatch.setenv("REQUIRE", "chromium")
    with pytest.raises(pytest.skip.Exception):
        required_tools.skip_or_fail("postgres", "PostgreSQL", "there is no initdb")
    assert required_tools.skipped_tool_lines() == ["PostgreSQL tests NOT run: there is no initdb"]


@pytest.mark.usefixtures("nothing_noted")
def test_a_required_tool_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where REQUIRE names the tool, its absence fails the tests."""
    monkeypatch.setenv("REQUIRE", "chromium,postgres")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE names postgres"):
        required_tools.skip_or_fail("postgres", "PostgreSQL", "there is no initdb")
    assert required_tools.skipped_tool_lines() == []


@pytest.mark.anyio
async def test_a_test_that_hangs_is_cancelled_where_it_waits() -> None:
    """The error of a coroutine that took too long leads to what it waited for."""

    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as caught:
        await with_timeout(waits_for_ever, 0.01)()
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)  # type: ignore[union-attr]
    assert "waits_for_ever" in {frame.name for frame in frames}


@pytest.mark.anyio
async def test_coroutines_are_limited(request: pytest.FixtureRequest) -> None:
    """Without a word in the test: as this one is."""
    assert request.node.obj.__wrapped__ is test_coroutines_are_limited


def test_a_kept_port_is_the_servers_alone() -> None:
    """A server that asks for it by its number can listen there, again and again; meanwhile it
    refuses, and is taken for all who can't share it."""
    with reserve_port() as keeping:
        number = port_number(keeping)
        for _ in range(2):
            with socket.create_server(("127.0.0.1", number)):
                pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number))
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", number))
