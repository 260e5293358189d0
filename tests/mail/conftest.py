"""Fixtures: an opener of each store."""

from __future__ import annotations

import pytest

from tests.contract.stores import STORES, StoreOpener


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def opener(request: pytest.FixtureRequest) -> StoreOpener:
    found: StoreOpener = request.param
    return found
