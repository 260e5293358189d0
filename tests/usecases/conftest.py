"""A deployment in memory with its people."""

from __future__ import annotations

import pytest

from staffbooking_core.usecases import answers
from tests.support.desk import Desk, make_desk
from tests.support.ports import Scene, make_scene


@pytest.fixture
async def scene() -> Scene:
    return await make_scene()


@pytest.fixture
async def desk() -> Desk:
    return await make_desk()


@pytest.fixture
def blind(monkeypatch):
    """The next look for a kept answer finds none: a twin is about to keep it."""
    real, looks = answers.find, []

    async def find(ports, keep):
        looks.append(keep)
        return None if len(looks) == 2 else await real(ports, keep)

    monkeypatch.setattr(answers, "find", find)
