"""The playbook without a socket: who sends what, and what everybody is told then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.channel.all_scenarios import SCENARIOS
from tests.channel.asyncapi_validation import FrameValidator
from tests.channel.scenario_drivers import connect_directly
from tests.channel.scenarios import Scenario, make_scenario_ports, run_scenario
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.name)
async def test_everybody_is_told_what_the_script_says(play: Scenario) -> None:
    """In this order and nothing else, and as the AsyncAPI document has it."""
    ports = make_scenario_ports(play)
    async with connect_directly(ports) as connect:
        await run_scenario(play, ports, connect, FrameValidator())
