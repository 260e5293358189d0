"""Pages and lists ask the database as often for many rows as for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from staffbooking_adapters.sql.store import SqlStore
from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from tests.contract.stores import STORES
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgresql"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[HttpDeployment]:
    """A deployment with its users on each database."""
    async with STORES[request.param](request) as store:
        made = HttpDeployment(store)
        await made.add_people()
        yield made


async def add_overdue_disputes(world: HttpDeployment, numbers: range) -> None:
    """Disputes of the customer's bookings with companions of their own, each with its alert."""
    for number in numbers:
        code = f"BKDISPUTE{number:05d}"
        await add_booking(
            world.store,
            customer=world.customer,
            code=code,
            status=BookingStatus.DISPUTED,
            starts_at=NOW - 5 * DAY,
            disputed_at=NOW - 4 * DAY,
            disputed_by=Party.CUSTOMER,
            dispute_reason="late",
            dispute_respond_by=NOW - HOUR,
            dispute_alarmed_at=NOW - HOUR,
            change={"alerts": (Alert(f"the dispute of booking {code} is overdue", NOW - HOUR),)},
        )


async def count_round_trips(world: HttpDeployment, user_id: int, path: str) -> tuple[int, str]:
    """How often loading a page asks the database once it was loaded before, and the page."""
    assert isinstance(world.store, SqlStore)
    client = await world.signed_in_client(user_id)
    await client.get(path, headers=PEOPLE)
    before = world.store.database.round_trips
    answer = await client.get(path, headers=PEOPLE)
    assert answer.status_code == 200
    return world.store.database.round_trips - before, answer.text


@pytest.mark.parametrize(
    ("path", "of_admin"),
    [
        ("/", False),
        ("/admin", True),
        ("/admin/disputes", True),
        ("/api/admin/disputes", True),
        ("/api/admin/alerts", True),
    ],
)
async def test_many_disputes_are_read_as_one(
    world: HttpDeployment, path: str, of_admin: bool
) -> None:
    """The home page of a party, the pages of operators and their lists read five disputes and
    their alerts in as many round trips as one."""
    user_id = (world.admin if of_admin else world.customer).id
    counts = []
    for numbers in (range(1), range(1, 5)):
        await add_overdue_disputes(world, numbers)
        count, page = await count_round_trips(world, user_id, path)
        counts.append(count)
    assert page.count("BKDISPUTE") >= 5
    assert counts[0] == counts[1]
