"""Each store in turn."""

from __future__ import annotations

import pytest

from tests.contract.stores import STORES, Opener


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found
