"""Fixtures: a deployment on the memory store, or on each store in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from staffbooking_adapters.testing.store import StoreOpener
from tests.contract.stores import STORES
from tests.http.deployment import HttpDeployment


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[HttpDeployment]:
    """A deployment on the memory store, with its users."""
    async with STORES["memory"](request) as store:
        made = HttpDeployment(store)
        await made.add_people()
        yield made


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def opener(request: pytest.FixtureRequest) -> StoreOpener:
    found: StoreOpener = request.param
    return found


@pytest.fixture
async def each_world(
    opener: StoreOpener, request: pytest.FixtureRequest
) -> AsyncIterator[HttpDeployment]:
    """A deployment with its users on every store, one per parameter."""
    async with opener(request) as store:
        made = HttpDeployment(store)
        await made.add_people()
        yield made
