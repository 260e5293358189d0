"""The playbook without a socket: who sends what, and what everybody is told then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.channel.all_scenarios import PLAYS
from tests.channel.asyncapi_validation import Documented
from tests.channel.scenario_drivers import plain
from tests.channel.scenarios import Play, make_ports, perform
from tests.support.virtual_loop import VirtualLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
async def test_everybody_is_told_what_the_script_says(play: Play) -> None:
    """In this order and nothing else, and as the AsyncAPI document has it."""
    ports = make_ports(play)
    async with plain(ports) as connect:
        await perform(play, ports, connect, Documented())
