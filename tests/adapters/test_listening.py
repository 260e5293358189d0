"""Reconnecting subscriptions, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import pytest

from staffbooking_adapters.listening import keep_listening
from tests.support.virtual_loop import VirtualTimeLoop

HOLDS = True
FAILS = False


class Line:
    """A connection that, on each try, fails at once or holds for a minute before it fails."""

    def __init__(self, *tries: bool) -> None:
        self.tries = list(tries)
        self.tried_at: list[float] = []
        self.began_at: list[float] = []

    async def listen(self, began: Callable[[], None]) -> NoReturn:
        self.tried_at.append(now())
        if not self.tries:
            await asyncio.Event().wait()
        if self.tries.pop(0):
            began()
            await asyncio.sleep(60)
        try:
            raise ConnectionRefusedError("cannot reach app:hush@db")
        except OSError as error:
            raise ConnectionError("app:hush@db is gone") from error


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def play(*tries: bool) -> Line:
    """The line after these tries and an endless subscription, for 10,000 s of virtual time."""
    line = Line(*tries)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10_000):
                await keep_listening(line.listen, lambda: line.began_at.append(now()))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())
    return line


def test_each_subscription_is_announced() -> None:
    """Every successful subscription is announced, since notifications may have been missed
    before."""
    assert play(HOLDS, FAILS, HOLDS).began_at == [0, 61.1]


def test_retry_delays_grow_until_a_subscription_succeeds() -> None:
    """Delays grow up to a bound and restart after a successful subscription."""
    line = play(FAILS, FAILS, FAILS, FAILS, HOLDS, FAILS)
    assert line.tried_at == [0, 0.1, 1.1, 6.1, 11.1, 71.2, 72.2]


def test_a_short_break_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A break that is repaired at the first retry is not logged."""
    play(HOLDS, HOLDS)
    assert caplog.messages == []


def test_an_outage_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An outage and its end are logged once each, by the cause's type and without its text."""
    play(HOLDS, FAILS, FAILS, FAILS, HOLDS, HOLDS)
    assert caplog.messages == [
        "Subscription to other processes failed: ConnectionRefusedError",
        "Subscription to other processes restored",
    ]
