"""Virtual time, the random decisions, and the log of one history."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import defaultdict, deque
from collections.abc import Sequence
from contextvars import Context, ContextVar, copy_context
from datetime import datetime, timedelta
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeVar

from staffbooking_adapters.testing.builders import NOW
from tests.simulation.plan import Fault, Plan

if TYPE_CHECKING:
    from tests.simulation.processes import Process

T = TypeVar("T")

CURRENT_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The simulated process of the running task; None outside of all processes."""

MAX_DELAY_SECONDS = 0.4
MAX_SLOW_SECONDS = 12.0
MAX_CALLBACKS = 1_000_000
"""Thirty times the number of callbacks of a usual history."""

_TWO_NUMBERS = Struct(">II")


class Stuck(Exception):
    """No callback can run any more, or the history does not end."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order in each run of a
    history."""

    number = 0

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        """A short text, since anyio formats it at each cancellation."""
        return f"<task {self.number}>"


class _Future(asyncio.Future[Any]):
    """A future with a number, like `_Task`."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Handle:
    """A callback to run, without the debugging data of asyncio's own."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Any, args: Any, context: Context) -> None:
        self.callback, self.args, self.context = callback, args, context

    def cancel(self) -> None:
        self.callback = self.args = None

    def cancelled(self) -> bool:
        return self.callback is None


class _Timer(float):
    """A callback to run at a time, which is the float itself, so that a heap compares timers
    without calls of Python functions."""

    __slots__ = ("args", "callback", "context")
    callback: Any
    args: Any
    context: Context

    def cancel(self) -> None:
        self.callback = self.args = None

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return float(self)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The event loop of one history: the seed decides which ready callback runs next, and time
    stands still until no callback is ready.

    Nothing outside of the loop may wake it: no thread, socket or other process.
    """

    _ready: deque[_Handle | _Timer]
    _stopping: bool

    get_debug = bool
    """Returns False without running Python code: each task and future calls it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.now = 0.0
        self._made = self._runs = 0
        self._draw = random.Random(plan.seed).random if plan.is_shuffled else lambda: 0.0
        self._timers: list[_Timer] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        self._made += 1
        future = _Future(loop=self)
        future.number = self._made
        return future

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        """A task of the process whose context it has."""
        self._made += 1
        task = _Task.__new__(_Task)
        task.number = self._made  # The constructor of the task uses it.
        task.__init__(work, loop=loop, **options)  # type: ignore[misc]
        context = options.get("context")
        process = CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)
        if process is not None:
            process.adopt(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> _Timer:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> _Timer:
        timer = _Timer(when)
        timer.callback, timer.args = callback, args
        timer.context = copy_context() if context is None else context
        heappush(self._timers, timer)
        return timer

    def _asyncgen_firstiter_hook(self, generator: object) -> None:
        """Registers no generator, since nobody shuts them down."""

    def _run_once(self) -> None:
        """Run callbacks one at a time, each chosen among the ready ones."""
        ready, timers, draw = self._ready, self._timers, self._draw
        while not self._stopping:
            while timers and ((due := timers[0]).callback is None or due <= self.now or not ready):
                heappop(timers)
                if due.callback is not None:
                    if due > self.now:
                        self.now = float(due)
                    ready.append(due)
            self._runs += 1
            if not ready or self._runs > MAX_CALLBACKS:
                raise Stuck(f"stuck at {self.now:.3f} s: {len(ready)} callbacks are ready")
            if chosen := int(draw() * len(ready)):
                handle = ready[chosen]
                del ready[chosen]
            else:
                handle = ready.popleft()
            if handle.callback is not None:
                self._run(handle)

    def _run(self, handle: _Handle | _Timer) -> None:
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": "a callback failed", "exception": error})


class World:
    """The time, the random decisions and the log of one history."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.is_calm = True
        """Whether no faults happen, as before and after the actions."""
        self.slow_until = 0.0
        """The loop's time at which the last slow call ends."""
        self.violations: list[str] = []
        self.fired: list[str] = []
        """The names of the decisions that brought a fault."""
        self.log_lines: list[str] = []
        self._jumped = timedelta()
        self._decisions: defaultdict[str, int] = defaultdict(int)
        self._seeded = hashlib.blake2b(f"{plan.seed}:".encode(), digest_size=8)
        self._lines: list[str] = []
        """The trace."""
        self._known_now = (-1.0, NOW)

    # Time -----------------------------------------------------------------------------------

    def now(self) -> datetime:
        time = self.loop.now
        if time != self._known_now[0]:  # It is read more often than it changes.
            now = NOW + self._jumped + timedelta(seconds=time)
            self._known_now = time, now.replace(microsecond=0) if self.plan.is_clock_coarse else now
        return self._known_now[1]

    def advance(self, by: timedelta) -> None:
        """Let time pass without any work, as if the machines were off."""
        self._jumped += by
        self._known_now = (-1.0, NOW)

    # Chance ---------------------------------------------------------------------------------

    def decide(self, point: str, allowed: Sequence[Fault] = ()) -> tuple[Fault | None, float]:
        """The fault of a call, if any, and the seconds that the call takes."""
        name, chance, delay = self._draw(point)
        fault = None if self.is_calm else self._find_fault(name, chance, allowed)
        seconds = MAX_DELAY_SECONDS * delay**6
        if fault is not None:
            self.fired.append(name)
            self.log(f"{name}: {fault}")
            if fault is Fault.SLOW:
                seconds = MAX_SLOW_SECONDS * delay
                self.slow_until = max(self.slow_until, self.loop.now + seconds)
        self._lines.append(f"{self.loop.now:.6f} {name} {fault} {seconds:.6f}\n")
        return fault, seconds

    def pick(self, point: str, choices: Sequence[T]) -> T:
        _, chance, _ = self._draw(point)
        return choices[int(chance * len(choices))]

    def _draw(self, point: str) -> tuple[str, float, float]:
        """The name of a decision and two random numbers from 0 to 1, which depend only on the seed
        and the name: decisions at one point do not change those at another."""
        number = self._decisions[point] = self._decisions[point] + 1
        name = f"{point} {number}"
        drawn = self._seeded.copy()
        drawn.update(name.encode())
        chance, delay = _TWO_NUMBERS.unpack(drawn.digest())
        return name, chance / (1 << 32), delay / (1 << 32)

    def _find_fault(self, name: str, chance: float, allowed: Sequence[Fault]) -> Fault | None:
        if name in self.plan.muted:
            return None
        rates = self.plan.rates
        for fault in allowed:
            if fault in rates:
                chance -= rates[fault]
                if chance < 0:
                    return fault
        return None

    # Records --------------------------------------------------------------------------------

    def record(self, text: str) -> None:
        """Add a line to the trace."""
        self._lines.append(f"{self.loop.now:.6f} {text}\n")

    def log(self, text: str) -> None:
        """Add a line to the log, which people read, and to the trace."""
        self.log_lines.append(f"{self.loop.time():8.3f} s  {text}")
        self.record(text)

    def report_violation(self, text: str) -> None:
        """Report a violation."""
        self.log(f"WRONG: {text}")
        self.violations.append(text)

    @property
    def trace_hash(self) -> str:
        return hashlib.sha256("".join(self._lines).encode()).hexdigest()
