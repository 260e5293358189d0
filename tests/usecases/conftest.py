"""A deployment in memory with its people."""

from __future__ import annotations

import pytest

from tests.support.ports import Scene, make_scene


@pytest.fixture
async def scene() -> Scene:
    return await make_scene()
