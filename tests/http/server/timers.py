"""Timers of an event loop whose time the test moves."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any, cast

from attrs import define, field


@define(eq=False)
class _Timer:
    due_at: float
    callback: Callable[[], Any]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@define
class Timers:
    """Runs what is due when the test moves the time."""

    now: float = 0.0
    _timers: list[_Timer] = field(factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], Any], /) -> TimerHandle:
        self._timers.append(timer := _Timer(when, callback))
        return cast("TimerHandle", timer)

    def call_later(self, delay: float, callback: Callable[[], Any], /) -> TimerHandle:
        return self.call_at(self.now + delay, callback)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self._timers if timer.due_at <= until]:
            timer = min(due, key=lambda timer: timer.due_at)
            self._timers.remove(timer)
            if not timer.is_cancelled:
                self.now = max(self.now, timer.due_at)
                timer.callback()
        self.now = until
