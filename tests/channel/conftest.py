"""Fixtures: a deployment on the memory store or on each store, and its server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from staffbooking_http.channel import uvicorn_protocol
from tests.http.conftest import each_world, opener, world
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import ChannelServer, relax_limits, serve_channel

__all__ = ["each_world", "opener", "world"]


@pytest.fixture(autouse=True)
def _long_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the closing timeout, so that no client is cut off while it reads the close code."""
    monkeypatch.setattr(uvicorn_protocol, "CLOSE_TIMEOUT_SECONDS", 60.0)


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    """The project's own server on a deployment with relaxed limits."""
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made
