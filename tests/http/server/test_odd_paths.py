"""Every path in unusual spellings, by every method: the responses are those that were
recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import add_booking
from tests.http.deployment import HttpDeployment
from tests.http.server.odd_paths import FIXTURE, ask_all

pytestmark = pytest.mark.anyio

RECORDED: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", RECORDED["paths"])
async def test_responses_equal_the_recorded_ones(world: HttpDeployment, path: str) -> None:
    """Status, headers and kind of body equal the recorded ones."""
    world.raise_limits()
    await add_booking(world.store, world.companion, world.customer)
    async for caller, spelling, answers in ask_all(world, path):
        places = RECORDED["paths"][path][caller][spelling]
        assert answers == [RECORDED["answers"][place] for place in places], (caller, spelling)
