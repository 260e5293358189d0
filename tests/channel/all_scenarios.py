"""All channel scenarios."""

from __future__ import annotations

from tests.channel import (
    scenarios_limits,
    scenarios_messages,
    scenarios_resume,
    scenarios_typing_and_presence,
)
from tests.channel.scenarios import Scenario

SCENARIOS = [
    each
    for chapter in (
        scenarios_messages,
        scenarios_typing_and_presence,
        scenarios_resume,
        scenarios_limits,
    )
    for each in vars(chapter).values()
    if isinstance(each, Scenario)
]
