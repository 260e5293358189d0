"""The world of a test: on the memory store, or on each store in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.stores import STORES, Opener
from tests.http.deployment import World


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A deployment in memory, with its people."""
    async with STORES["memory"](request) as store:
        made = World(store)
        await made.settle()
        yield made


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
async def each_world(opener: Opener, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The same on every store."""
    async with opener(request) as store:
        made = World(store)
        await made.settle()
        yield made
