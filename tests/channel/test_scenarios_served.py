"""All channel scenarios over WebSocket and over Socket.IO, on a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from attrs import define, field

from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from tests.channel.all_scenarios import SCENARIOS
from tests.channel.asyncapi_validation import FrameValidator
from tests.channel.scenario_drivers import SOCKET_DRIVERS
from tests.channel.scenarios import (
    OpenConnection,
    Scenario,
    TransportDriver,
    make_scenario_ports,
    run_scenario,
)

pytestmark = pytest.mark.anyio


@define
class ScenarioDeployments:
    """The deployments of one driver: one for all scenarios with the same policy."""

    driver: TransportDriver
    _stack: AsyncExitStack
    _open: dict[Policy, tuple[Ports, OpenConnection]] = field(factory=dict)

    async def deployment_of(self, scenario: Scenario) -> tuple[Ports, OpenConnection]:
        if scenario.policy not in self._open:
            ports = make_scenario_ports(scenario)
            connect = await self._stack.enter_async_context(self.driver(ports))
            self._open[scenario.policy] = ports, connect
        return self._open[scenario.policy]


@pytest.fixture(scope="module", params=SOCKET_DRIVERS)
async def deployments(request: pytest.FixtureRequest) -> AsyncIterator[ScenarioDeployments]:
    async with AsyncExitStack() as stack:
        yield ScenarioDeployments(SOCKET_DRIVERS[request.param], stack)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario(scenario: Scenario, deployments: ScenarioDeployments) -> None:
    """Each client receives exactly the frames of the scenario."""
    ports, connect = await deployments.deployment_of(scenario)
    await run_scenario(scenario, ports, connect, FrameValidator())
