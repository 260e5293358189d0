"""Parts of the simulation: the order of tasks, power failures, shortened histories, the command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY, add_user, make_new_user
from staffbooking_core.ports import Transaction
from tests.simulation import __main__ as command_line
from tests.simulation.history import Outcome
from tests.simulation.plan import Plan, make_plan
from tests.simulation.processes import Process
from tests.simulation.shrink import shrink
from tests.simulation.stores import open_shared_store
from tests.simulation.world import SimulatedLoop, Stuck, World

PLAN = make_plan(1)


def run_simulated(plan: Plan, work: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await work()

    loop = SimulatedLoop(plan)
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


async def order_of_tasks() -> list[int]:
    ran: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        ran.append(number)

    await asyncio.gather(*(work(number) for number in range(10)))
    return ran


def test_the_seed_orders_tasks() -> None:
    """Ready tasks run in an order that the seed decides, or in plain order."""
    one, again, other = (
        run_simulated(evolve(PLAN, seed=seed), order_of_tasks) for seed in (1, 1, 2)
    )
    plain = run_simulated(evolve(PLAN, is_shuffled=False), order_of_tasks)

    assert one == again != other
    assert sorted(one) == [*range(10)] == plain


def test_a_stuck_history_ends() -> None:
    """A history in which no callback can run any more ends with an error."""

    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run_simulated(PLAN, wait_for_ever)


def test_a_power_failure_keeps_what_was_committed() -> None:
    """After a power failure the file has the committed row, and no row of the open transaction."""

    async def lose_power() -> list[bool]:
        server, is_writing = Process(World(PLAN), "server"), asyncio.Event()

        async def hang(unit: Transaction) -> None:
            await unit.accounts.add_user(make_new_user())
            is_writing.set()
            await asyncio.get_running_loop().create_future()

        async def write() -> None:
            store = await shared.open()
            await add_user(store)
            await store.run_transaction(hang)

        server.spawn(write())
        await is_writing.wait()
        await shared.lose_power(server.kill)
        await server.end()
        store = await shared.open()
        async with store.read_view() as view:
            return [await view.accounts.user(number) is not None for number in (1, 2)]

    with open_shared_store("sqlite", POLICY) as shared:
        assert run_simulated(PLAN, lose_power) == [True, False]


def test_a_failing_history_is_shortened() -> None:
    """The shortened history has only the actions and faults that the violation needs."""
    culprit = PLAN.actions[3]

    def run(plan: Plan) -> Outcome:
        fired = [name for name in ("a 1", "b 1", "c 1") if name not in plan.muted]
        is_wrong = culprit in plan.actions and "b 1" in fired
        return Outcome("", ["booking 7: wrong"] if is_wrong else [], [], fired)

    short, outcome = shrink(PLAN, run)

    assert short.actions == (culprit,)
    assert outcome.fired == ["b 1"]
    assert not short.rates
    assert not short.is_shuffled


def test_a_shard_begins_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with a results file begins after the last seed of its store in the file."""
    ran: list[int] = []

    def find_nothing(seeds: range, store: str) -> int:
        ran.extend(seeds)
        return 0

    monkeypatch.setattr(command_line, "find_failing_seed", find_nothing)
    results = tmp_path / "results.csv"
    for last in ("12", "15"):
        monkeypatch.setattr("sys.argv", ["simulation", "1", last, "--results", str(results)])
        assert command_line.main() == 0

    assert ran == [*range(1, 16)]
    assert "seeds 13 to 15, 0 violations" in capsys.readouterr().out


def test_a_shard_that_is_stopped_records_what_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After Ctrl-C the results file has the seeds that were run; the next run continues there."""
    results = tmp_path / "results.csv"
    monkeypatch.setattr("sys.argv", ["simulation", "1", "40", "--results", str(results)])
    for stopped_at, status in ((21, 130), (None, 0)):

        def find_nothing(seeds: range, store: str, stopped_at: int | None = stopped_at) -> int:
            if stopped_at in seeds:
                raise KeyboardInterrupt
            return 0

        monkeypatch.setattr(command_line, "find_failing_seed", find_nothing)
        assert command_line.main() == status

    out = capsys.readouterr().out
    assert "seeds 1 to 20, 0 violations" in out
    assert "seeds 21 to 40, 0 violations" in out
