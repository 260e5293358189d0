"""Short runs: a few kills and faults on each store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kills.run import Plan, discard_folder, run_kills
from tests.kills.timings import measure
from tests.support.required_tools import leave_out
from tests.support.service_processes import start_copy

pytestmark = pytest.mark.anyio

SCHEDULES = {
    "sqlite": (
        "server killed",
        "database locked",
        "worker killed",
        "disk full",
        "receivers cut",
        "all processes killed",
    ),
    "postgresql": (
        "server killed",
        "database half-closed",
        "database stopped immediately",
        "worker killed",
        "receivers refused",
        "database hung",
        "all processes killed",
    ),
}
KILLS = {"sqlite": 3, "postgresql": 4}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of PostgreSQL may enter, unlike the folders of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    folder.chmod(0o755)
    yield folder
    discard_folder(folder)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.kills)])
async def test_nothing_is_lost_or_doubled_through_kills(store: str, folder: Path) -> None:
    """Acknowledged changes are stored once and in order, and money moves once, while servers,
    workers and the database are killed, disconnected and stopped."""
    plan = Plan(
        store,
        kills=KILLS[store],
        pairs=2,
        max_wait_seconds=0.5,
        disk_bytes=160 << 20,
        schedule=SCHEDULES[store],
        start=start_copy,
        leave_out=lambda tool, reason: leave_out(tool, "A part of the kill", reason),
    )
    history, faults = await run_kills(plan, folder)
    assert faults == []
    assert measure(history.entries).acknowledged > 0
