import asyncio
from datetime import timedelta
from decimal import Decimal

from staffbooking_adapters import memory_ports
from staffbooking_core import Actor, Ports, Role, inputs, run_all_due
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.companions import imports


async def one_booking(ports: Ports) -> str:
    # People: a customer signs up, an operator imports a companion.
    customer = await sessions.register_user(
        ports,
        inputs.Register(
            email="grace@example.com",
            password="correct horse battery",
            first_name="Grace",
            last_name="Hopper",
            role=inputs.RegistrationRole.CUSTOMER,
        ),
    )
    companion = inputs.ImportedCompanion(
        email="ada@example.com",
        first_name="Ada",
        last_name="Byron",
        hourly_rate=Decimal("40.00"),
        location_city="London",
        location_country="United Kingdom",
        timezone="Europe/London",
        service_types=("Bartender",),
        approved=True,
    )
    await imports.import_companions(ports, [companion])
    staff = await administration.get_user(ports, "ada@example.com")

    # The customer requests, the staff member accepts.
    client, host = Actor(customer.id, Role.CUSTOMER), Actor(staff.id, Role.STAFF)
    now = await ports.clock.business()
    wanted = inputs.RequestBooking(
        companion_id=staff.id,
        event_date=now.date() + timedelta(days=19),
        start_time="18:00",
        duration_hours=5,
        service_type="bartender",
        location="12 Savile Row",
    )
    booking = await requests.request_booking(ports, client, wanted)
    await actions.accept(ports, host, booking.id)

    # The customer pays on the processor's page; here the simulated one.
    _, page, _ = await actions.open_checkout(ports, client, booking.id)
    await sandbox.simulate_checkout(ports, page.rpartition("/")[2], "succeed")

    # The event takes place, and the worker's part completes the booking and pays for it.
    await sandbox.set_clock(ports, now + timedelta(days=30))
    await run_all_due(ports)

    booking = await actions.get_by_code(ports, booking.code)
    return f"{booking.status}, payout {booking.payout_status}: {booking.payout_amount}"


if __name__ == "__main__":
    print(asyncio.run(one_booking(memory_ports())))
