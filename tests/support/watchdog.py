"""Cancels a hanging coroutine test and shows where it waits.

After `faulthandler_timeout` seconds pytest dumps the threads and ends the process; the dump shows
only the event loop. A coroutine is therefore cancelled after half of that time, and its traceback
shows the place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import Any

import pytest

from tests.support.virtual_loop import VirtualTimeLoop

AsyncTest = Callable[..., Awaitable[None]]


def with_timeout(test: AsyncTest, seconds: float) -> AsyncTest:
    """The same test, cancelled after this many seconds of real time."""

    @wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        # A virtual loop fails by itself if no task can run and there is no timer.
        is_virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        async with asyncio.timeout(None if is_virtual else seconds):
            await test(*args, **kwargs)

    return run


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    seconds = float(pyfuncitem.config.getini("faulthandler_timeout"))
    if seconds and asyncio.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = with_timeout(pyfuncitem.obj, seconds / 2)
    return (yield)
