"""The worker's loop: every lane goes on whatever another one does, and stops when told."""

from __future__ import annotations

from typing import cast

import anyio
import pytest

from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports
from staffbooking_worker import main
from staffbooking_worker.lanes import Lane

pytestmark = pytest.mark.anyio

PORTS = cast("Ports", None)


class Work:
    """A lane's work that does what it is told, one thing a call, and then stops the worker."""

    def __init__(self, stop: anyio.Event, *script: int | Exception) -> None:
        self.stop, self.script, self.calls = stop, list(script), 0

    async def __call__(self, _: Ports) -> int:
        self.calls += 1
        if not self.script:
            self.stop.set()
            return 0
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are waited out at once."""
    monkeypatch.setattr(main, "PAUSE", 0)


async def test_a_lane_runs_on_until_told_to_stop() -> None:
    """Work that is due is done without a wait between."""
    stop = anyio.Event()
    work = Work(stop, 1, 1, 3)

    with anyio.fail_after(5):
        await main.work(PORTS, stop, [Lane("busy", work, idle=60)])

    assert work.calls == 4


async def test_a_store_out_of_reach_does_not_end_a_lane() -> None:
    """A lane goes on after the store was out of reach."""
    stop = anyio.Event()
    work = Work(stop, Unavailable("gone"), 1)

    with anyio.fail_after(5):
        await main.work(PORTS, stop, [Lane("store", work, idle=60)])

    assert work.calls == 3


async def test_an_unexpected_fault_is_logged_and_does_not_end_a_lane(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bug in a lane leaves a trace in the log, and the lane goes on."""
    stop = anyio.Event()
    work = Work(stop, RuntimeError("a bug"), 1)

    with anyio.fail_after(5):
        await main.work(PORTS, stop, [Lane("buggy", work, idle=60)])

    assert work.calls == 3
    assert "a bug" in caplog.text


async def test_stopping_does_not_wait_for_an_idle_lane() -> None:
    """An idle lane that would sleep for an hour ends at once."""
    stop = anyio.Event()
    ends_it = Work(stop)

    async def nothing_due(_: Ports) -> int:
        return 0

    with anyio.fail_after(5):
        await main.work(
            PORTS, stop, [Lane("idle", nothing_due, idle=3600), Lane("ends", ends_it, idle=1)]
        )

    assert ends_it.calls == 1


async def test_what_is_in_flight_is_finished() -> None:
    """A call that runs when the worker is told to stop is not cut off."""
    stop, finished = anyio.Event(), []

    async def slow(_: Ports) -> int:
        stop.set()
        await anyio.lowlevel.checkpoint()
        finished.append(True)
        return 1

    with anyio.fail_after(5):
        await main.work(PORTS, stop, [Lane("slow", slow, idle=1)])

    assert finished == [True]
