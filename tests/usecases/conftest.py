"""A deployment in memory with its people."""

from __future__ import annotations

import pytest

from staffbooking_core.usecases import idempotency
from tests.support.memory_deployment import Scene, make_scene
from tests.support.payee_scenario import Desk, make_desk


@pytest.fixture
async def scene() -> Scene:
    return await make_scene()


@pytest.fixture
async def desk() -> Desk:
    return await make_desk()


@pytest.fixture
def blind(monkeypatch):
    """The next look for a kept answer finds none: a twin is about to keep it."""
    real, looks = idempotency.find, []

    async def find(ports, keep):
        looks.append(keep)
        return None if len(looks) == 2 else await real(ports, keep)

    monkeypatch.setattr(idempotency, "find", find)
