"""Limits how long one request waits for the database in all (CONTRACT 10).

    with limit_database_time(2.0):
        ...  # every wait for a connection, a lock or a response spends from one budget

What happens between the waits is not counted: password hashes, calls of other services, slow
clients. Without a limit, each statement outside of a transaction and each transaction has
DEFAULT_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

from staffbooking_core.errors import StoreUnavailable

T = TypeVar("T")

DEFAULT_SECONDS = 30.0
"""Seconds for one unit of work of a process that serves no request."""


class DatabaseTime:
    """A budget of seconds. Waits that run at the same time each get what is left."""

    __slots__ = ("is_over", "seconds", "total_seconds")

    def __init__(self, total_seconds: float) -> None:
        self.total_seconds = total_seconds
        self.seconds = total_seconds
        """Seconds left; negative once more was spent."""
        self.is_over = False
        """Whether the request has ended. Tasks that it started may outlive it."""

    def remaining(self) -> float:
        """The seconds left. Raises StoreUnavailable if none are."""
        if self.seconds <= 0:
            raise StoreUnavailable(f"the database took more than {self.total_seconds:g} s")
        return self.seconds

    def spend_since(self, started: float) -> None:
        """Subtract the time since `started`, a result of `time.monotonic`."""
        self.seconds -= monotonic() - started

    async def wait_for(self, future: asyncio.Future[T]) -> T:
        """Await a future that the database's progress resolves. When the budget is spent, the
        future gets StoreUnavailable."""
        started = monotonic()
        # A bare timer: `asyncio.timeout` costs as much as the rest of a small query.
        timer = future.get_loop().call_later(self.remaining(), self._time_out, future)
        try:
            return await future
        finally:
            timer.cancel()
            self.spend_since(started)

    def _time_out(self, future: asyncio.Future[T]) -> None:
        if not future.done():
            reason = f"no response of the database within {self.total_seconds:g} s"
            future.set_exception(StoreUnavailable(reason))


_CURRENT: ContextVar[DatabaseTime | None] = ContextVar("database_time", default=None)


def current_database_time() -> DatabaseTime:
    """The budget of the running request, or a new one outside of requests."""
    budget = _CURRENT.get()
    return DatabaseTime(DEFAULT_SECONDS) if budget is None or budget.is_over else budget


@contextmanager
def limit_database_time(seconds: float) -> Iterator[None]:
    """Give the block one budget. Inside another block it gets at most what that one has left."""
    outer = _CURRENT.get()
    if outer is not None and outer.is_over:
        outer = None
    budget = DatabaseTime(seconds)
    if outer is not None:
        budget.seconds = min(seconds, outer.seconds)
    seconds_before, token = budget.seconds, _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        budget.is_over = True
        if outer is not None:
            outer.seconds -= seconds_before - budget.seconds


@contextmanager
def separate_database_time() -> Iterator[None]:
    """Give the block a budget of its own, as large as that of the request which started the
    running task: for work that several requests share."""
    starter = _CURRENT.get()
    token = _CURRENT.set(None)
    try:
        with limit_database_time(DEFAULT_SECONDS if starter is None else starter.total_seconds):
            yield
    finally:
        _CURRENT.reset(token)


def renew_database_time() -> None:
    """Restore the running request's whole budget, for the next page of a streamed response."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.seconds = budget.total_seconds
