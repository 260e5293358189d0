"""The playbook without a socket: who sends what, and what everybody is told then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.channel.documented import Documented
from tests.channel.playbook import Play, make_ports, perform
from tests.channel.playbook_drivers import plain
from tests.channel.plays import PLAYS
from tests.support.loop import VirtualLoop

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
