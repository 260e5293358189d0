"""The world of a test, on the memory store or on each store in turn, and a server of it."""

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
    """Whoever reads why they are closed hangs up; nobody is cut off."""
    monkeypatch.setattr(uvicorn_protocol, "CLOSE_TIMEOUT_SECONDS", 60.0)


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    """Our own server, of a deployment that is in no hurry to refuse anything."""
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made
