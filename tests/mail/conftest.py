"""Fixtures: an opener of each store."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.store import StoreOpener
from tests.contract.stores import STORES


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def opener(request: pytest.FixtureRequest) -> StoreOpener:
    found: StoreOpener = request.param
    return found
