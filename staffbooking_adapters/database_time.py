"""Limits how long one request waits for the database in all (CONTRACT 10).

    with DatabaseTime(2.0):
        ...  # every wait for a connection, a lock or a response spends from one budget

What happens between the waits is not counted: password hashes, calls of other services, slow
clients. Without a budget, each statement outside of a transaction and each transaction has
_DEFAULT_SECONDS.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from time import monotonic
from typing import TypeVar

from staffbooking_core.errors import StoreUnavailable

_T = TypeVar("_T")

_DEFAULT_SECONDS = 30.0
"""Seconds for one unit of work of a process that serves no request."""


class DatabaseTime:
    """A budget of seconds, which applies to the block that it is the context of. Inside another
    budget's block it has at most what that one has left, and spends from both. Waits that run at
    the same time each get what is left.
    """

    __slots__ = ("_outer", "_seconds_before", "_token", "is_over", "seconds", "total_seconds")

    def __init__(self, total_seconds: float) -> None:
        self.total_seconds = self.seconds = total_seconds
        self.is_over = False
        """Whether the block has ended. Tasks that were started in it may outlive it."""

    def __enter__(self) -> DatabaseTime:
        outer = _CURRENT.get()
        self._outer = None if outer is None or outer.is_over else outer
        if self._outer is not None:
            self.seconds = min(self.seconds, self._outer.seconds)
        self._seconds_before = self.seconds
        self._token: Token[DatabaseTime | None] = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        _CURRENT.reset(self._token)
        if self._outer is not None:
            self._outer.seconds -= self._seconds_before - self.seconds

    def remaining(self) -> float:
        """The seconds left. Raises StoreUnavailable if none are."""
        if self.seconds <= 0:
            raise StoreUnavailable(f"the database took more than {self.total_seconds:g} s")
        return self.seconds

    def spend_since(self, started: float) -> None:
        """Subtract the time since `started`, a result of `time.monotonic`."""
        self.seconds -= monotonic() - started

    async def wait_for(self, future: asyncio.Future[_T]) -> _T:
        """Await a future that the database's progress resolves. When the budget is spent, the
        future gets StoreUnavailable: at once if it was spent before, so that whoever resolves
        futures in turn never takes it for one that still waits."""
        if self.seconds <= 0:
            self._time_out(future)
        started = monotonic()
        # A bare timer: `asyncio.timeout` costs as much as the rest of a small query.
        timer = future.get_loop().call_later(max(self.seconds, 0), self._time_out, future)
        try:
            return await future
        finally:
            timer.cancel()
            self.spend_since(started)

    def _time_out(self, future: asyncio.Future[_T]) -> None:
        if not future.done():
            reason = f"no response of the database within {self.total_seconds:g} s"
            future.set_exception(StoreUnavailable(reason))


_CURRENT: ContextVar[DatabaseTime | None] = ContextVar("database_time", default=None)


def current_database_time() -> DatabaseTime:
    """The budget of the running request, or a new one outside of requests."""
    budget = _CURRENT.get()
    return DatabaseTime(_DEFAULT_SECONDS) if budget is None or budget.is_over else budget


def set_separate_database_time() -> DatabaseTime:
    """Give the running task a new budget, as large as that of the request which started it, for
    work that several requests share. The task belongs to the caller alone."""
    starter = _CURRENT.get()
    budget = DatabaseTime(_DEFAULT_SECONDS if starter is None else starter.total_seconds)
    _CURRENT.set(budget)
    return budget


def renew_database_time() -> None:
    """Restore the running request's whole budget, for the next page of a streamed response."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.seconds = budget.total_seconds
