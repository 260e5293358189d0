"""Each store in turn, opened empty for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.stores import STORES, OpenStore, StoreOpener


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def open_store(request: pytest.FixtureRequest) -> StoreOpener:
    """How the store of this run is opened."""
    opener: StoreOpener = request.param
    return opener


@pytest.fixture
async def store(
    open_store: StoreOpener, request: pytest.FixtureRequest
) -> AsyncIterator[OpenStore]:
    async with open_store(request) as opened:
        yield opened
