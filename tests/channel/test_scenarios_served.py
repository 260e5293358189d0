"""The same plays over WebSocket and over Socket.IO, by real clients of a server that listens."""

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
class Houses:
    """One deployment for all plays with the same policy: the people of each are others."""

    driver: TransportDriver
    _stack: AsyncExitStack
    _open: dict[Policy, tuple[Ports, OpenConnection]] = field(factory=dict)

    async def house(self, play: Scenario) -> tuple[Ports, OpenConnection]:
        if play.policy not in self._open:
            ports = make_scenario_ports(play)
            connect = await self._stack.enter_async_context(self.driver(ports))
            self._open[play.policy] = ports, connect
        return self._open[play.policy]


@pytest.fixture(scope="module", params=SOCKET_DRIVERS)
async def houses(request: pytest.FixtureRequest) -> AsyncIterator[Houses]:
    async with AsyncExitStack() as stack:
        yield Houses(SOCKET_DRIVERS[request.param], stack)


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.name)
async def test_everybody_is_told_what_the_script_says(play: Scenario, houses: Houses) -> None:
    """Whatever carries it, as without a socket."""
    ports, connect = await houses.house(play)
    await run_scenario(play, ports, connect, FrameValidator())
