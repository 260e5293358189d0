"""docs/operations.md: the statements that are run after a restore."""

from __future__ import annotations

import re
import sqlite3
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from staffbooking_adapters import sql_ports
from staffbooking_core import Actor, Ports, Role, inputs, run_all_due
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.companions import imports
from staffbooking_core.usecases.messaging.messages import send_to_user
from tests.support.postgres import driver_url

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
SQLITE_SQL, POSTGRESQL_SQL = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


async def run_documented_sql(url: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.partition("///")[2])
        connection.executescript(SQLITE_SQL)
        connection.close()
        return
    driver: Any = await asyncpg.connect(driver_url(url))
    await driver.execute(POSTGRESQL_SQL)
    await driver.close()


async def complete_booking(ports: Ports, name: str) -> tuple[list[int], str]:
    """The ids of the people, the booking, its operations and a message, and the payout's status."""
    customer = await sessions.register_user(
        ports,
        inputs.Register(
            email=f"{name}@example.com",
            password="correct horse battery",
            first_name=name,
            last_name="Holm",
            role=inputs.RegistrationRole.CUSTOMER,
        ),
    )
    companion = inputs.ImportedCompanion(
        email=f"staff-{name}@example.com",
        first_name="Ada",
        last_name="Berg",
        hourly_rate=Decimal("40.00"),
        location_city="London",
        location_country="United Kingdom",
        timezone="Europe/London",
        service_types=("Bartender",),
        approved=True,
    )
    await imports.import_companions(ports, [companion])
    staff = await administration.get_user(ports, companion.email)
    now = await ports.clock.business()
    booking = await requests.request_booking(
        ports,
        Actor(customer.id, Role.CUSTOMER),
        inputs.RequestBooking(
            companion_id=staff.id,
            event_date=now.date() + timedelta(days=9),
            start_time="18:00",
            duration_hours=5,
            service_type="bartender",
            location="12 Savile Row",
        ),
    )
    await actions.accept(ports, Actor(staff.id, Role.STAFF), booking.id)
    _, page, _ = await actions.open_checkout(ports, Actor(customer.id, Role.CUSTOMER), booking.id)
    await sandbox.simulate_checkout(ports, page.rpartition("/")[2], "succeed")
    message = await send_to_user(ports, Actor(customer.id, Role.CUSTOMER), staff.id, "Hello")
    await sandbox.set_clock(ports, now + timedelta(days=30))
    await run_all_due(ports)
    async with ports.store.read_view() as view:
        operations = await view.operations.operations_of(booking.id)
    ids = [customer.id, staff.id, booking.id, message.id, *(each.id for each in operations)]
    return ids, (await actions.get_by_code(ports, booking.code)).payout_status


async def test_ids_after_a_restore_are_far_beyond_earlier_ones(migrated_url: str) -> None:
    """After the documented statements, run on an empty and on a used backup, people, bookings,
    operations and messages have ids far beyond earlier ones, beyond 32 bits too, and a booking is
    paid out as ever."""
    keys = ["a secret key of the restored service"]
    await run_documented_sql(migrated_url)
    async with sql_ports(migrated_url, secret_keys=keys) as ports:
        earlier_ids, _ = await complete_booking(ports, "alice")
    await run_documented_sql(migrated_url)
    await run_documented_sql(migrated_url)

    async with sql_ports(migrated_url, secret_keys=keys) as ports:
        ids, payout_status = await complete_booking(ports, "bob")

    assert len(earlier_ids) == len(ids) >= 6
    assert min(earlier_ids) > 1_000_000_000
    assert min(ids) > 3_000_000_000
    assert payout_status == "paid"
