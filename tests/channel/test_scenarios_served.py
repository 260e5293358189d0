"""The same plays over WebSocket and over Socket.IO, by real clients of a server that listens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from attrs import define, field

from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from tests.channel.all_scenarios import PLAYS
from tests.channel.asyncapi_validation import Documented
from tests.channel.scenario_drivers import OVER_SOCKETS
from tests.channel.scenarios import Connect, Driver, Play, make_ports, perform

pytestmark = pytest.mark.anyio


@define
class Houses:
    """One deployment for all plays with the same policy: the people of each are others."""

    driver: Driver
    _stack: AsyncExitStack
    _open: dict[Policy, tuple[Ports, Connect]] = field(factory=dict)

    async def house(self, play: Play) -> tuple[Ports, Connect]:
        if play.policy not in self._open:
            ports = make_ports(play)
            connect = await self._stack.enter_async_context(self.driver(ports))
            self._open[play.policy] = ports, connect
        return self._open[play.policy]


@pytest.fixture(scope="module", params=OVER_SOCKETS)
async def houses(request: pytest.FixtureRequest) -> AsyncIterator[Houses]:
    async with AsyncExitStack() as stack:
        yield Houses(OVER_SOCKETS[request.param], stack)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
async def test_everybody_is_told_what_the_script_says(play: Play, houses: Houses) -> None:
    """Whatever carries it, as without a socket."""
    ports, connect = await houses.house(play)
    await perform(play, ports, connect, Documented())
