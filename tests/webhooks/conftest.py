"""Fixtures for tests of webhooks."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
async def loop_time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A list whose only item is the event loop's time, which stands still."""
    loop = asyncio.get_running_loop()
    now = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    return now
