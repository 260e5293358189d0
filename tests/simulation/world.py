"""Virtual time, processes that die, and decisions that the plan fixes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.errors import StoreUnavailable
from tests.simulation.plan import Fault, Plan
from tests.support.virtual_loop import VirtualTimeLoop

T = TypeVar("T")

CALL_FAULTS = (Fault.CRASH, Fault.CRASH_AFTER, Fault.FAIL, Fault.LOSE_ANSWER, Fault.SLOW)
_MANY = 1 << 32


class _Task(asyncio.Task[Any]):
    """A task whose place in sets is that of its number: sets of tasks have the same order in each
    run of a history."""

    _made = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        _Task._made += 1
        self._number = _Task._made
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(VirtualTimeLoop):
    """The event loop of one history."""

    def __init__(self) -> None:
        super().__init__()
        _Task._made = 0
        self.set_task_factory(lambda loop, work, **options: _Task(work, loop=loop, **options))


class World:
    """The time, the chance and the record of one history."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        self.is_calm = True
        """Whether no faults happen: before and after the actions."""
        self.slow_until = 0.0
        """The loop's time at which the last slow call ends."""
        self.violations: list[str] = []
        self.fired: dict[int, str] = {}
        """The faults that happened, by the number of their decision."""
        self.story: list[str] = []
        self._jumped = timedelta()
        self._decisions = 0
        self._digest = hashlib.sha256()

    # Time -----------------------------------------------------------------------------------

    def now(self) -> datetime:
        now = NOW + self._jumped + timedelta(seconds=self.loop.time())
        return now.replace(microsecond=0) if self.plan.is_clock_coarse else now

    def advance(self, by: timedelta) -> None:
        """Let time pass in which nothing happens: the machines were switched off."""
        self._jumped += by

    # Chance ---------------------------------------------------------------------------------

    def decide(self, point: str, allowed: Sequence[Fault] = ()) -> tuple[Fault | None, float]:
        """The fault of a call and the seconds that it takes."""
        number, chance, delay = self._draw()
        fault = self._find_fault(number, chance, allowed)
        if fault is not None:
            self.fired[number] = f"{point}: {fault}"
            self.tell(f"{point}: {fault} (decision {number})")
        seconds = 12 * delay if fault is Fault.SLOW else 0.4 * delay**6
        if fault is Fault.SLOW:
            self.slow_until = max(self.slow_until, self.loop.time() + seconds)
        self.record(f"{point} {fault} {seconds:.6f}")
        return fault, seconds

    def pick(self, choices: Sequence[T]) -> T:
        _, chance, _ = self._draw()
        return choices[int(chance * len(choices))]

    def _draw(self) -> tuple[int, float, float]:
        """The number of a decision and two random numbers from 0 to 1. They depend on the seed and
        the number alone, so that a muted fault changes no other decision."""
        number = self._decisions
        self._decisions += 1
        drawn = hashlib.blake2b(b"%d:%d" % (self.plan.seed, number), digest_size=8).digest()
        chance, delay = int.from_bytes(drawn[:4], "big"), int.from_bytes(drawn[4:], "big")
        return number, chance / _MANY, delay / _MANY

    def _find_fault(self, number: int, chance: float, allowed: Sequence[Fault]) -> Fault | None:
        if self.is_calm or number in self.plan.muted:
            return None
        for fault in allowed:
            chance -= self.plan.rates.get(fault, 0)
            if chance < 0:
                return fault
        return None

    # Records --------------------------------------------------------------------------------

    def record(self, text: str) -> None:
        """Add to the trace."""
        self._digest.update(f"{self.loop.time():.6f} {text}\n".encode())

    def tell(self, text: str) -> None:
        """Add to the story, which people read."""
        self.story.append(f"{self.loop.time():8.3f} s  {text}")
        self.record(text)

    def accuse(self, text: str) -> None:
        """Report a violation."""
        self.tell(f"WRONG: {text}")
        self.violations.append(text)

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()


class Process:
    """A process: its tasks, and its connections to the rest of the world.

    When it dies its tasks are cancelled, and nothing that they still do has an effect.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_alive = True
        self.skew = timedelta()
        """How far its clock is ahead."""
        self.cut_off_until = 0.0
        """The loop's time until which it does not reach the store."""
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) and self.is_alive:
            self.world.tell(f"{self.name} raised {error!r}")

    def kill(self) -> None:
        if self.is_alive:
            self.world.tell(f"{self.name} dies")
        self.is_alive = False
        for task in list(self._tasks):
            task.cancel()

    async def end(self) -> None:
        """Wait until all tasks of a dead process are gone."""
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.wait(list(self._tasks), timeout=5)

    async def call(
        self,
        point: str,
        effect: Callable[[], Awaitable[T]],
        fail: Callable[[], T],
        allowed: Sequence[Fault] = CALL_FAULTS,
    ) -> T:
        """Call a port: `effect` is what it does; `fail` raises or returns what tells the caller of
        a failure."""
        self.check_alive()
        fault, seconds = self.world.decide(f"{self.name} {point}", allowed)
        await asyncio.sleep(seconds)
        self.die_if(fault is Fault.CRASH)
        if fault is Fault.FAIL:
            return fail()
        result = await effect()
        self.check_alive()
        self.die_if(fault is Fault.CRASH_AFTER)
        return fail() if fault is Fault.LOSE_ANSWER else result

    def die_if(self, does: bool) -> None:
        if does:
            self.kill()
        self.check_alive()

    def check_alive(self) -> None:
        """Raise CancelledError in a dead process."""
        if not self.is_alive:
            raise asyncio.CancelledError

    def check_connection(self) -> None:
        """Raise StoreUnavailable while the process is cut off from the store."""
        if self.world.loop.time() < self.cut_off_until:
            raise StoreUnavailable("simulated: cut off")
