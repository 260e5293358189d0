"""All channel scenarios without a transport, in virtual time."""

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


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario(scenario: Scenario) -> None:
    """Each client receives exactly the frames of the scenario, which are valid by the AsyncAPI
    document."""
    ports = make_scenario_ports(scenario)
    async with connect_directly(ports) as connect:
        await run_scenario(scenario, ports, connect, FrameValidator())
