"""The agenda of a staff member."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_companion
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.usecases.companions.hours import get_agenda
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio


async def test_busy_times_are_of_files_and_of_addresses() -> None:
    """A day has the busy times of an imported file and of calendar addresses, merged and cut to
    that day."""
    ports = memory_ports(now=NOW)
    day = NOW.date() + timedelta(days=2)
    start = NOW + 2 * DAY
    calendar = Calendar(
        "UTC",
        busy=(Interval(start, start + 2 * HOUR),),
        subscribed_busy=(
            Interval(start + HOUR, start + 3 * HOUR),
            Interval(start + 4 * HOUR, start + DAY),
        ),
    )
    staff = await add_companion(ports.store, calendar=calendar)
    agenda = await get_agenda(ports, Actor(staff.id, Role.STAFF), day, day)
    midnight = start.replace(hour=0, minute=0) + DAY
    assert agenda.days[0].busy == (
        Interval(start, start + 3 * HOUR),
        Interval(start + 4 * HOUR, midnight),
    )
