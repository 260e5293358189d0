"""Test support: budgets, missing tools, timeouts and reserved ports."""

from __future__ import annotations

import asyncio
import shutil
import socket
import traceback
from pathlib import Path

import pytest

from tests.support import required_tools
from tests.support.budget import budget_rows
from tests.support.memory_files import is_suitable
from tests.support.reserved_ports import port_number, reserve_port
from tests.support.watchdog import with_timeout


def test_the_table_adds_up_a_tier() -> None:
    """The table adds up the folders of a tier and those of none, and has no row for a tier that did
    not run."""
    tiers = {"tests/domain": 1.25, "tests/usecases": 2.5, "tests/e2e": 91.0}
    rows = budget_rows({**tiers, "tests/cli": 5, "tests/docs": 1.5})
    assert [row.split() for row in rows] == [
        ["tests/domain", "+", "tests/usecases", "3.8", "of", "75"],
        ["tests/e2e", "+", "tests/kills", "91.0", "of", "80", "OVER"],
        ["the", "rest", "6.5", "of", "60"],
    ]


def test_temporary_files_are_in_memory_where_there_is_room(tmp_path: Path) -> None:
    """A folder that is missing or too small does not take the temporary files."""
    assert not is_suitable(tmp_path / "missing")
    assert not is_suitable(tmp_path, min_free_bytes=shutil.disk_usage(tmp_path).total + 1)
    assert is_suitable(tmp_path, min_free_bytes=1)


@pytest.fixture
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required_tools, "_skipped_reasons", {})


@pytest.mark.usefixtures("nothing_noted")
def test_a_missing_tool_skips_tests_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tool its tests are skipped, and the summary line names the tool and the reason."""
    monkeypatch.setenv("REQUIRE", "chromium")
    with pytest.raises(pytest.skip.Exception):
        required_tools.skip_or_fail("postgres", "PostgreSQL", "there is no initdb")
    assert required_tools.skipped_tool_lines() == ["PostgreSQL tests NOT run: there is no initdb"]


@pytest.mark.usefixtures("nothing_noted")
def test_a_required_tool_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing tool that REQUIRE names fails the test."""
    monkeypatch.setenv("REQUIRE", "chromium,postgres")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE names postgres"):
        required_tools.skip_or_fail("postgres", "PostgreSQL", "there is no initdb")
    assert required_tools.skipped_tool_lines() == []


@pytest.mark.anyio
async def test_a_test_that_hangs_is_cancelled_where_it_waits() -> None:
    """The timeout error of a coroutine has a traceback to where it waited."""

    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as caught:
        await with_timeout(waits_for_ever, 0.01)()
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)  # type: ignore[union-attr]
    assert "waits_for_ever" in {frame.name for frame in frames}


@pytest.mark.anyio
async def test_coroutines_are_limited(request: pytest.FixtureRequest) -> None:
    """An asynchronous test is wrapped with a timeout by default."""
    assert request.node.obj.__wrapped__ is test_coroutines_are_limited


def test_a_reserved_port_is_only_for_servers() -> None:
    """A server can repeatedly listen on a reserved port by its number, while connections without a
    server and other binds are refused."""
    with reserve_port() as keeping:
        number = port_number(keeping)
        for _ in range(2):
            with socket.create_server(("127.0.0.1", number)):
                pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number))
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", number))
