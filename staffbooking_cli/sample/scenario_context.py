"""The context that the sample's scenarios around today share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import frozen

from staffbooking_cli.sample import texts
from staffbooking_cli.sample.actions import Event, SampleActions, StaffMember

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@frozen
class ScenarioContext:
    """The actions, and the present at which the scenarios end."""

    actions: SampleActions
    now: datetime

    def ago(self, days: float = 0, hours: float = 0) -> datetime:
        return self.now - timedelta(days=days, hours=hours)

    async def find_ahead(
        self, staff: Sequence[StaffMember], days_ahead: int, hours: int = 4
    ) -> Event | None:
        """The first event that many days ahead, or later, for one of the staff members."""
        first = self.now + days_ahead * DAY
        return await self.actions.find_event(staff, first, first + 21 * DAY, hours)

    async def find_past(
        self, staff: Sequence[StaffMember], earliest: float, latest: float, hours: int = 4
    ) -> Event | None:
        """The first event between two numbers of days ago for one of the staff members."""
        return await self.actions.find_event(
            staff, self.ago(days=earliest), self.ago(days=latest), hours
        )


def venue_of(event: Event) -> str:
    """The place of the event."""
    venues = texts.VENUES[event.staff.city]
    return venues[(event.starts_at.day + event.staff.id) % len(venues)]
